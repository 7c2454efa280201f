"""Data files shipped with Stampo."""
