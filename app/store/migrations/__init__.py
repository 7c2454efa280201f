"""The store's layout as numbered SQL scripts, run in order, each once; a script that was released never
changes.
"""
