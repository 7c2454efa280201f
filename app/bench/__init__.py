"""What drafts and forced spans are worth: the tasks, the runs and the figures behind `stampo bench`.

Runs the engine in this process, because it looks into single forwards.
"""
