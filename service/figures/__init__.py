"""Attention maps as PNG heat maps, NumPy files and JSON; trees of searches as SVG and PNG."""
