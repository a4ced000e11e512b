"""Bundles measured as users meet them. Each benchmark prints a table and a line of JSON."""
