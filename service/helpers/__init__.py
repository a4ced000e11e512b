"""Processes of our own that do what the server's interpreter must not be kept with."""
