"""Pool of worker processes for CPU-heavy work that must not block the server's event loop."""
