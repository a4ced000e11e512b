"""``dragoman serve``: the HTTP server, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from service.bootstrap import Service, build, issuer_of
from service.catalogue.errors import NotReady
from service.commands.command import GET_ONE, CommandFailed, add_bundles, settings_of
from service.commands.terminal import say
from service.engine.engine import device_was_lost
from service.helpers.program import die_with
from service.loading.discovery import discover
from service.observability.logging import configure
from service.runtime.sessions import DeviceNotReady, DeviceUnavailable, available_device
from service.server.http_protocol import accept_backlog
from service.server.preflight import check_state
from service.server.process import prepare_process, spare_what_stays
from service.server.server import leaving_quietly, serve
from service.server.supervisor import SIGNALS
from service.settings import Settings
from service.workers.owner_link import socket_beside


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", help="port to listen on")
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="fetch a pair of DRAGOMAN_MODELS also where the catalogue has a better model than "
        "the bundles",
    )
    add_bundles(parser)
    parser.add_argument("--owner-socket", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    parser.set_defaults(run=_run)


@leaving_quietly()
def _run(options: argparse.Namespace) -> int:
    settings = settings_of(options, host=options.host, port=options.port)
    if options.owner_socket is not None:
        return _own(settings, options.owner_socket, options.parent)
    if settings.models:
        add_missing(settings, upgrade=options.upgrade)
    if not discover(settings.bundles):
        say(f"there is no bundle in {settings.bundles}; {GET_ONE}")
    configure(settings.log_level, settings.log_format)
    with _listener(settings.host, settings.port) as listener:
        asyncio.run(check_state(settings))
        # A setting without its extra stops the command before it starts workers.
        issuer_of(settings)
        host, port = listener.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        if settings.workers:
            _announce(address, port)
            _supervise(settings, listener)
        _check_device(settings)
        prepare_process()
        built = build(settings)
        spare_what_stays()
        _announce(address, port)
        return _serve(settings, built, listener, settings.trusted_proxies)


def _announce(address: str, port: int) -> None:
    print(f"Dragoman listens on http://{address}:{port}", file=sys.stderr, flush=True)


def _supervise(settings: Settings, listener: socket.socket) -> NoReturn:
    """Become the supervisor, which runs this command again as the owner, behind workers.

    A program of its own needs 20 MB; the modules that are loaded here take 130.
    """
    listener.set_inheritable(True)
    arguments = [
        *("--listener", str(listener.fileno()), "--workers", str(settings.workers)),
        *("--shutdown-seconds", str(settings.leave_seconds + settings.shutdown_seconds)),
        *("--log-level", settings.log_level, "--log-format", settings.log_format, "--"),
    ]
    command = [sys.executable, *sys.orig_argv[1:]]
    # The supervisor unblocks them once it handles them.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    module = ["-m", "service.server.supervisor"]
    os.execv(sys.executable, [sys.executable, *module, *arguments, *command])


def _own(settings: Settings, path: Path, parent: int) -> int:
    """Serve the workers on a Unix socket, which only this user can reach; returns the exit code."""
    die_with(parent)
    prepare_process()
    configure(settings.log_level, settings.log_format)
    _check_device(settings)
    built = build(settings, decode_socket=socket_beside(path))
    spare_what_stays()
    # A killed owner leaves its socket behind.
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(accept_backlog())
        # Workers have read the headers of trusted proxies, and send their own.
        return _serve(settings, built, listener, trusted_proxies="*")


def _serve(
    settings: Settings, built: Service, listener: socket.socket, trusted_proxies: str
) -> int:
    code = serve(
        built.app,
        built.drain,
        listener,
        shutdown_seconds=settings.shutdown_seconds,
        leave_seconds=settings.leave_seconds,
        on_hangup=built.reloader.request,
        trusted_proxies=trusted_proxies,
        failure=lambda: _lost_models(built),
    )
    if device_was_lost():
        logging.shutdown()
        os._exit(code)
    return code


def _lost_models(built: Service) -> str:
    """Names the models that have lost all their devices; empty if none has."""
    try:
        models = built.repository.catalogue.models
    except NotReady:
        return ""
    names = ", ".join(model.name for model in models if model.engine.lost)
    return f"{names} has lost its devices" if names else ""


def _check_device(settings: Settings) -> None:
    """Wait for a GPU whose driver is not ready; raises ``DeviceNotReady`` after a minute."""
    try:
        available_device(settings.device)
    except DeviceNotReady:
        raise
    except DeviceUnavailable:
        # Loading a bundle reports it.
        return


def add_missing(settings: Settings, *, upgrade: bool = False) -> None:
    """Fetch the models of the settings, in a process of its own, whose memory is then free again.

    The process reports what it cannot fetch; what is there is served.
    """
    command = [sys.executable, "-m", "service", "models", "add", "--missing"]
    if upgrade:
        command.append("--upgrade")
    subprocess.run([*command, "--bundles", str(settings.bundles)], check=False)


def _listener(host: str, port: int) -> socket.socket:
    """A listening socket. The host ``::`` takes IPv4 connections as well."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server(
            (host, port),
            family=family,
            backlog=accept_backlog(),
            dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
        )
        # Accepted connections inherit it. Nagle's algorithm would delay small responses.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except socket.gaierror as error:
        raise CommandFailed(f"{host!r} is not an address to listen on") from error
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                problem = f"port {port} on {host} is in use; choose another with --port"
            case errno.EACCES:
                problem = f"port {port} needs more rights; choose one above 1023 with --port"
            case errno.EADDRNOTAVAIL:
                problem = f"{host} is not an address of this machine; choose another with --host"
            case _:
                problem = f"cannot listen on {host}, port {port}: {error.strerror}"
        raise CommandFailed(problem) from error
