"""Turns a model, a path of messages and a shape into tokens. No interface."""
