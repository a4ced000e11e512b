"""Prometheus metrics, structured logs and OpenTelemetry traces of the service."""
