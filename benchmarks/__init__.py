"""Benchmarks of bundles and training. Each prints a table and a line of JSON."""
