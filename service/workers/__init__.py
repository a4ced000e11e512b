"""Processes that answer HTTP in front of the process that owns the engines and all state."""
