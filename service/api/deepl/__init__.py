"""DeepL's contract: ``/v2``, and its glossaries of several languages under ``/v3``."""
