"""DeepL-compatible API: ``/v2``, and multilingual glossaries under ``/v3``."""
