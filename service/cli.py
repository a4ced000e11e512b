"""``dragoman``: parses, calls, prints. What goes wrong is one sentence and a number.

Exit codes: 0 done, 2 could not be done and why is on standard error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import service
from models.bundle.bundle import Bundle
from models.bundle.languages import canonical, display_name
from models.bundle.manifest import InvalidBundle
from service import cli_keys
from service.allocator import keep_memory_together
from service.bootstrap import build, configure_logging, local_translator
from service.loading import discover
from service.observability.tracing import TracingUnavailable
from service.preflight import check_state
from service.serving import leaving_quietly, serve
from service.settings import InvalidSetting, Settings
from service.state.errors import KeyRefused, StateError, StateUnavailable
from service.translation.errors import TranslationError
from service.translation.lines import LineFailed, translate_lines
from service.translation.types import LanguagePair, Translation

_DONE, _FAILED, _INTERRUPTED = 0, 2, 128 + signal.SIGINT
_READ_BYTES = 1 << 16
_MOST_NUMBERS_SHOWN = 10

_COLLECTIONS = 700, 10, 30
"""Python's own, but that the oldest are looked through a third as often."""


class CommandFailed(Exception):
    """What was asked for could not be done; the message is all that is shown."""


_TOLD = (
    CommandFailed,
    InvalidSetting,
    KeyRefused,
    LineFailed,
    StateError,
    StateUnavailable,
    TracingUnavailable,
    TranslationError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; without this Python complains while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _DONE
    except _TOLD as error:
        print(f"dragoman: {error}", file=sys.stderr)
        return _FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"dragoman: {where}{error.strerror or error}", file=sys.stderr)
        return _FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dragoman",
        description="Serve translation models over HTTP, or translate with them right here.",
        epilog="Everything else is set by DRAGOMAN_* variables; see docs/operations.md.",
    )
    parser.add_argument("--version", action="version", version=f"dragoman {service.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    serve = commands.add_parser("serve", help="answer HTTP requests")
    serve.add_argument("--host", help="address to listen on")
    serve.add_argument("--port", help="port to listen on")
    serve.set_defaults(run=_serve)

    translate = commands.add_parser("translate", help="translate a file, line by line")
    translate.add_argument("file", metavar="FILE", help="text in UTF-8; - reads standard input")
    translate.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to write")
    translate.add_argument("--from", dest="source", required=True, metavar="CODE", help="language")
    translate.add_argument("--to", dest="target", required=True, metavar="CODE", help="language")
    translate.set_defaults(run=_translate)

    bundles = commands.add_parser("bundles", help="list the bundles and verify them")
    bundles.set_defaults(run=_bundles)

    cli_keys.add_commands(commands)

    for command in (serve, translate, bundles):
        command.add_argument("--bundles", metavar="DIR", help="directory that holds the bundles")
    return parser


def _settings(options: argparse.Namespace, **overrides: Any) -> Settings:
    settings = Settings.from_environment(bundles=options.bundles, **overrides)
    if not settings.bundles.is_dir():
        raise CommandFailed(
            f"{settings.bundles} is not a directory; name the one that holds the bundles "
            "with --bundles"
        )
    return settings


def _serve(options: argparse.Namespace) -> int:
    settings = _settings(options, host=options.host, port=options.port)
    keep_memory_together()
    configure_logging(settings)
    # The engine's thread asks for the interpreter after every step and must not wait 5 ms for it.
    sys.setswitchinterval(0.0005)
    with leaving_quietly(), _listener(settings.host, settings.port) as listener:
        asyncio.run(check_state(settings))
        built = build(settings)
        _spare_what_stays()
        host, port = listener.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        print(f"Dragoman listens on http://{address}:{port}", file=sys.stderr, flush=True)
        return serve(
            built.app,
            built.drain,
            listener,
            shutdown_seconds=settings.shutdown_seconds,
            on_hangup=built.reloader.request,
        )


def _spare_what_stays() -> None:
    """Garbage is not looked for among what has been imported, which stays, elsewhere less often.

    The collector stops everybody while it looks: through all that was imported it takes a few
    hundred milliseconds, through what a full service works on some fifty, every other second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Accepted connections inherit it; a small answer must not wait for the last one's receipt.
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


def _translate(options: argparse.Namespace) -> int:
    settings = _settings(options, log_level="warning")
    configure_logging(settings)
    pair = LanguagePair(_language(options.source), _language(options.target))
    with _source(options.file) as source, _target(options.output) as target:
        cut = asyncio.run(_translate_file(settings, pair, source, target))
    if cut:
        shown = ", ".join(map(str, cut[:_MOST_NUMBERS_SHOWN]))
        more = ", …" if len(cut) > _MOST_NUMBERS_SHOWN else ""
        print(f"dragoman: cut at the longest allowed length: line {shown}{more}", file=sys.stderr)
    return _DONE


async def _translate_file(
    settings: Settings, pair: LanguagePair, source: FileIO, target: BinaryIO
) -> list[int]:
    """Translate every line; the numbers of those whose translation was cut."""
    cut: list[int] = []
    number = 0

    def deliver(translation: Translation) -> None:
        nonlocal number
        number += 1
        target.write(translation.text.encode("utf-8"))
        target.flush()
        if translation.truncated:
            cut.append(number)

    async with local_translator(settings, pair) as translator:
        await translate_lines(translator, pair, _lines(source), deliver)
    return cut


async def _lines(source: FileIO) -> AsyncIterator[bytes]:
    """The lines of an unbuffered file with their ends, without blocking the event loop."""
    rest = b""
    async for block in _blocks(source):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest


async def _blocks(source: FileIO) -> AsyncIterator[bytes]:
    # A daemon thread and not asyncio.to_thread, whose threads are waited for at the end: nobody
    # can interrupt one that waits for somebody to type.
    loop = asyncio.get_running_loop()
    blocks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    wanted = threading.Semaphore()

    def read() -> None:
        block: bytes | OSError = b"some"
        while block and not isinstance(block, OSError):
            wanted.acquire()
            try:
                block = source.read(_READ_BYTES)
            except OSError as error:
                block = error
            except ValueError:
                return  # The file has been closed: nobody wants the rest.
            try:
                loop.call_soon_threadsafe(blocks.put_nowait, block)
            except RuntimeError:
                return  # The loop has been closed: the same.

    threading.Thread(target=read, name="reader", daemon=True).start()
    while block := await blocks.get():
        if isinstance(block, OSError):
            raise block
        yield block
        wanted.release()


def _source(name: str) -> FileIO:
    # Unbuffered, because a thread that waits in a buffered read makes Python abort at exit.
    descriptor = sys.stdin.fileno() if name == "-" else name
    return open(descriptor, "rb", buffering=0, closefd=name != "-")


@contextmanager
def _target(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears under its name once it is complete."""
    if path is None:
        yield sys.stdout.buffer
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("xb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _language(code: str) -> str:
    try:
        return canonical(code)
    except ValueError as error:
        raise CommandFailed(str(error)) from error


def _bundles(options: argparse.Namespace) -> int:
    settings = _settings(options)
    found = discover(settings.bundles)
    if not found:
        print(f"{settings.bundles} holds no bundle")
    broken = 0
    for directory in found:
        try:
            print(_line(Bundle.open(directory.path)))
        except InvalidBundle as error:
            broken += 1
            print(f"{directory.name}: broken: {error}")
    return _FAILED if broken else _DONE


def _line(bundle: Bundle) -> str:
    manifest = bundle.manifest
    names = f"{display_name(manifest.source)} → {display_name(manifest.target)}"
    codes = f"{manifest.source}-{manifest.target}"
    megabytes = sum(file.size for file in manifest.files.values()) / 1e6
    return (
        f"{manifest.name}: {names} ({codes}), version {manifest.version}, "
        f"{', '.join(manifest.precisions)}, {megabytes:.1f} MB"
    )


if __name__ == "__main__":
    sys.exit(main())
