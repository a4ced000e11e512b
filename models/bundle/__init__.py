"""The bundle format: manifest, graph signatures, tokenizer, shortlist and integrity checks."""
