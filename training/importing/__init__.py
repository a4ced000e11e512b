"""Turns checkpoints that others have trained into bundles."""
