"""``dragoman translate``: translates a file or standard input line by line, without a server.

After an interruption, the same command resumes an output file where it stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

import service
from models.bundle.bundle import MANIFEST
from service.bootstrap import configure_logging, local_translator
from service.bulk.job import translate_blocks
from service.bulk.journal import Progress, Remarks
from service.bulk.output import Output, ResumableFile, Stream
from service.bulk.progress import Bar
from service.bulk.reading import BlockSize, blocks, in_thread
from service.bulk.rows import Format
from service.bulk.source import Source
from service.bulk.translating import BlockTranslator
from service.commands.command import DONE, CommandFailed, add_bundles, language, settings_of
from service.commands.formats import add_format, described, format_of
from service.loading.discovery import discover, only
from service.runtime.sessions import available_device
from service.server.process import prepare_process
from service.settings import Settings
from service.text.types import LanguagePair
from service.translation.decoding import DecodingOverrides

_STANDARD = "-"
_IN_A_FILE = BlockSize()
"""The batch drains at the end of each block, which costs 1 % with this many lines."""
_IN_A_STREAM = BlockSize(lines=256, bytes=1 << 16)
_MATTERS = (
    *("precision", "shortlist", "slots", "threads", "cache_megabytes"),
    *("max_batch_tokens", "max_padded_tokens", "max_beam_size"),
)
"""Settings that change the model or the composition of its batches."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The parsed arguments of one command."""

    settings: Settings
    pair: LanguagePair
    rows: Format
    decoding: DecodingOverrides
    source: Source
    skip: bool
    show_progress: bool

    async def run(self, output: Output, progress: Progress, *, to_a_file: bool) -> Progress:
        """Translate the input after ``progress``; returns the progress reached.

        Blocks of a file are translated one at a time, while the next one is prepared. Blocks of a
        stream share batches. A block ends when no input is available, so typed lines are
        translated at once.
        """
        size = _IN_A_FILE if to_a_file else _IN_A_STREAM
        found = blocks(self.source, self.rows, size, progress.place, prompt=not to_a_file)
        bar = Bar(sys.stderr if self.show_progress else None, self.source.size)
        with closing(bar):
            async with local_translator(self.settings, self.pair) as translator:
                translate = BlockTranslator(
                    translator, self.pair, self.rows, self.decoding, skip=self.skip, alone=to_a_file
                )
                return await translate_blocks(
                    in_thread(found),
                    translate,
                    output,
                    progress,
                    ahead=2 if to_a_file else 4,
                    bar=bar,
                )


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate a file, line by line",
        description="Translate lines, columns or JSON lines. When a file has been interrupted, the "
        "same command goes on with it; see docs/bulk.md.",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default=_STANDARD, help="in UTF-8; else standard input"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", default=_STANDARD, help="else standard output"
    )
    parser.add_argument("--from", dest="source", required=True, metavar="CODE", help="language")
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help="language")
    add_format(parser)
    parser.add_argument(
        "--gzip",
        choices=("in", "out", "both", "none"),
        help="which side is compressed (default: files named .gz)",
    )
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="whether a line that cannot be translated ends the work (stop) or is left empty",
    )
    parser.add_argument("--restart", action="store_true", help="discard unfinished output")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar (default: on a terminal only)",
    )
    decoding = parser.add_argument_group("decoding", "Default: from the settings or the bundle.")
    decoding.add_argument("--beam-size", type=int, metavar="N")
    decoding.add_argument("--length-penalty", type=float, metavar="X")
    decoding.add_argument("--precision", metavar="NAME", help="auto, int8, fp16 or fp32")
    decoding.add_argument("--device", metavar="NAME", help="auto, cpu or cuda")
    decoding.add_argument("--threads", metavar="N", help="0 takes every core")
    decoding.add_argument("--shortlist", action=argparse.BooleanOptionalAction)
    add_bundles(parser)
    parser.set_defaults(run=_run)


def _decoding(options: argparse.Namespace) -> DecodingOverrides:
    """Raises ``CommandFailed`` for a value out of range."""
    try:
        return DecodingOverrides(beam_size=options.beam_size, length_penalty=options.length_penalty)
    except ValidationError as error:
        (first, *_) = error.errors()
        raise CommandFailed(
            f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}"
        ) from error


def _run(options: argparse.Namespace) -> int:
    target = _target(options.output)
    if target is not None and Path(options.file).resolve() == target:
        raise CommandFailed(
            f"{target} would be replaced by its translation; --output names another file"
        )
    settings = _settings(options, to_a_file=target is not None)
    prepare_process()
    configure_logging(settings)
    with closing(Source(options.file, compressed=_compressed(options, "in"))) as source:
        job = _Job(
            settings,
            LanguagePair(language(options.source), language(options.target)),
            format_of(options),
            _decoding(options),
            source,
            skip=options.on_error == "skip",
            show_progress=sys.stderr.isatty() if options.progress is None else options.progress,
        )
        compressed = _compressed(options, "out")
        if compressed is None:
            compressed = options.output.lower().endswith(".gz")
        if target is None:
            with _stream(options.output) as file:
                work = job.run(Stream(file, compressed=compressed), Progress(), to_a_file=False)
                progress = asyncio.run(work)
        else:
            progress = _write(job, target, _made_with(job, options, compressed), options.restart)
    _remark("cut at the longest allowed length", progress.cut)
    _remark("left empty because they cannot be translated", progress.skipped)
    return DONE


def _write(job: _Job, target: Path, made_with: dict[str, Any], restart: bool) -> Progress:
    file = ResumableFile(target, made_with, compressed=made_with["compressed"], restart=restart)
    with closing(file):
        if file.progress.place.lines:
            _say(f"{target} has {_lines(file.progress)} already; continuing after that")
        try:
            progress = asyncio.run(job.run(file, file.progress, to_a_file=True))
        except BaseException:
            if file.latest.place.lines:
                _say(f"{target} keeps {_lines(file.latest)}; the same command continues after that")
            raise
        file.finish()
    return progress


def _made_with(job: _Job, options: argparse.Namespace, compressed: bool) -> dict[str, Any]:
    """All inputs of the output except the source, by the names that users know."""
    settings = job.settings
    models = {
        found.name: hashlib.sha256((found.path / MANIFEST).read_bytes()).hexdigest()[:12]
        for found in only(discover(settings.bundles), job.pair)
    }
    return {
        "version": service.__version__,
        "from": job.pair.source,
        "to": job.pair.target,
        "models": models,
        "device": available_device(settings.device),
        "beam_size": options.beam_size,
        "length_penalty": options.length_penalty,
        "compressed": compressed,
        "block_lines": _IN_A_FILE.lines,
        "block_bytes": _IN_A_FILE.bytes,
        **{name: getattr(settings, name) for name in _MATTERS},
        **described(options),
    }


def _settings(options: argparse.Namespace, *, to_a_file: bool) -> Settings:
    asked = {name: getattr(options, name) for name in ("device", "precision", "threads")}
    # A cached result was decoded in another batch, and a resumed run has an empty cache.
    asked["result_megabytes"] = 0 if to_a_file else None
    settings = settings_of(options, log_level="warning", shortlist=options.shortlist, **asked)
    if (options.beam_size or 0) <= settings.max_beam_size:
        return settings
    return settings.model_copy(update={"max_beam_size": options.beam_size})


def _compressed(options: argparse.Namespace, side: str) -> bool | None:
    """Whether ``--gzip`` compresses this side; ``None`` without the option."""
    return None if options.gzip is None else options.gzip in (side, "both")


def _target(name: str) -> Path | None:
    """The file to publish when complete; ``None`` for a sequential output such as a pipe."""
    path = Path(name)
    if name == _STANDARD or (path.exists() and not path.is_file() and not path.is_dir()):
        return None
    if path.is_dir():
        raise CommandFailed(f"{path} is a directory; --output names a file")
    # Replace the target of a symbolic link, not the link.
    return path.resolve()


@contextmanager
def _stream(name: str) -> Iterator[BinaryIO]:
    if name == _STANDARD:
        yield sys.stdout.buffer
        return
    with open(name, "wb") as file:
        yield file


def _lines(progress: Progress) -> str:
    return "1 line" if progress.place.lines == 1 else f"{progress.place.lines} lines"


def _remark(what: str, remarks: Remarks) -> None:
    if remarks.count:
        _say(f"{what}: {remarks}")


def _say(sentence: str) -> None:
    print(f"dragoman: {sentence}", file=sys.stderr)
