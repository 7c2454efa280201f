"""What a person touches: the command line, the terminal interface, and what is kept on disk."""
