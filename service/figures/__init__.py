"""Attention maps as PNG heat maps, NumPy files and JSON."""
