"""Bulk translation of line-based files: ordered, in bounded memory, resumable after a stop."""
