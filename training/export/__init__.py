"""Exports a checkpoint of a run as a bundle; ``models.export`` writes and proves it."""
