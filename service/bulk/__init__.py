"""Translates files of any size: in order, in bounded memory, and on from where it was stopped."""
