"""Small dialects, one module each: Apertium APy, DeepLX, MTranServer's for pages, Google v2."""
