"""Ray Serve deployment of the service, and translation of corpora with Ray Data."""
