"""HTTP API: dialects, authentication, limits and middleware. Translation is done elsewhere."""
