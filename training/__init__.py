"""Makes bundles: data, training, averaging, evaluation, export. Never imports the service."""
