"""Guesses how a reply goes on."""
