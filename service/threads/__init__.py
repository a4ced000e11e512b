"""Turns, cores and memory that the threads of a process share."""
