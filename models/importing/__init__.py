"""Imports models of other programs as bundles: Hugging Face, CTranslate2, Argos Translate."""
