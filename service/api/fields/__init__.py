"""Request fields from JSON, forms and query strings: reading, limits, validation, OpenAPI."""
