"""Attention, alignment, scores and searches of translations that exist."""
