"""Main program of a worker: answers HTTP on a shared listener with the app ``Tunnel``.

``python -m service.workers.worker LISTENER SOCKET PARENT``, with the settings of the service.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path

from service.api.draining import Drain
from service.helpers.program import die_with
from service.observability.logging import configure
from service.server.http_protocol import PatientProtocol
from service.server.process import prepare_process, spare_what_stays
from service.server.server import serve
from service.settings import Settings
from service.workers.tunnel import Tunnel

_FILES_PER_REQUEST = 2
"""A connection of the client, and one to the owner."""


def main(listener: str, owner: str, parent: str) -> int:
    """``listener`` is an inherited file descriptor, ``owner`` a Unix socket, ``parent`` a process.

    Returns the exit code.
    """
    die_with(int(parent))
    settings = Settings.from_environment()
    prepare_process()
    configure(settings.log_level, settings.log_format)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # The owner has a connection for each request of every worker, and the same limit of files.
    PatientProtocol.most_share = max(_FILES_PER_REQUEST, settings.workers)
    spare_what_stays()
    return serve(
        Tunnel(Path(owner)),
        Drain(),
        socket.socket(fileno=int(listener)),
        shutdown_seconds=settings.shutdown_seconds,
        # The owner reloads the models.
        on_hangup=lambda: None,
        trusted_proxies=settings.trusted_proxies,
        lifespan=False,
        accepts=1,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
