"""Finds bundles, loads them into engines, and reloads what has changed."""
