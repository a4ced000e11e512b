"""LibreTranslate-compatible API: fields, answers and errors."""
