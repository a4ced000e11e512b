"""Reads documents in helper processes."""
