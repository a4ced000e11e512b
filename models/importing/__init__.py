"""Imports Hugging Face checkpoints (MarianMT, M2M100, NLLB) as bundles."""
