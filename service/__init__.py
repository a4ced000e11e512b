"""Serves bundles: text in, translations out."""

__version__ = "0.1.0"
