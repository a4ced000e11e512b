"""Fetches models that other people published: the Hugging Face hub and Argos Translate's index."""
