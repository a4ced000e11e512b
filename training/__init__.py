"""Trains networks and exports bundles. Never imports the service."""
