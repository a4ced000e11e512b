"""HTTP server for the Prometheus metrics of one Ray Serve replica.

Ray's proxy sends a request for ``/metrics`` to an arbitrary replica. So each replica also serves
its metrics on its own port, the first free one of a range.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import start_http_server

from service.observability.metrics import Metrics

logger = logging.getLogger(__name__)


class NoPortForMetrics(Exception):
    """Every port of the range is in use, so this replica could not be scraped."""

    def __init__(self, host: str, ports: range) -> None:
        super().__init__(
            f"every port from {ports[0]} to {ports[-1]} on {host} is in use, so this replica could "
            "not be scraped; widen metrics_ports to at least twice the replicas of a machine"
        )


@contextmanager
def exposed(metrics: Metrics, host: str, ports: range) -> Iterator[int]:
    """Serve ``/metrics`` from a thread; yields the port. Raises ``NoPortForMetrics``."""
    for port in ports:
        try:
            server, thread = start_http_server(port, host, metrics.registry)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        logger.info("metrics", extra={"address": f"http://{host}:{port}/metrics"})
        try:
            yield port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        return
    raise NoPortForMetrics(host, ports)
