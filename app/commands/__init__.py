"""The commands of `stampo`, one file each."""
