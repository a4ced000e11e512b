"""Translates a file of lines, resumable, or standard input as it arrives."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    aclosing,
    asynccontextmanager,
    closing,
    contextmanager,
)
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import service
from dragoman import DragomanError
from models.bundle.bundle import MANIFEST
from models.bundle.languages import display_name
from service.bulk.job import translate_blocks
from service.bulk.journal import Progress, Remarks
from service.bulk.output import Output, ResumableFile, Stream
from service.bulk.progress import Bar
from service.bulk.reading import Block, BlockSize, blocks, in_thread
from service.bulk.source import Source
from service.bulk.translating import BlockTranslator, TextTranslator
from service.commands.command import CommandFailed, language
from service.commands.formats import described, format_of
from service.commands.inputs import STANDARD, Item, replaceable, standard_output
from service.commands.local import decoding_of, prepared_settings
from service.commands.remote import RemoteTranslations
from service.commands.terminal import say, shows_progress
from service.engine.errors import SentenceTooLong
from service.engine.types import Origin
from service.loading.discovery import discover, for_pair
from service.local_models import LocalModels, local_preference, local_translator
from service.runtime.sessions import available_device
from service.settings import Settings
from service.text.errors import TranslationError
from service.text.types import LanguagePair
from service.translation.types import Part, TranslateRequest

_IN_A_FILE = BlockSize()
"""The batch drains at the end of each block, which costs 1 % with this many lines."""
_IN_A_STREAM = BlockSize(lines=256, bytes=1 << 16)
_SAMPLE = BlockSize(lines=64, bytes=1 << 14)
"""Beginning of a file from which its language is detected."""
_MATTERS = (
    *("precision", "shortlist", "slots", "threads", "cache_megabytes"),
    *("max_batch_tokens", "max_padded_tokens", "max_beam_size"),
)
"""Settings that change the model or the composition of its batches."""


@dataclass(frozen=True, slots=True)
class _Job:
    """The parsed arguments of one command."""

    options: argparse.Namespace
    settings: Settings | None
    """Settings of this process; ``None`` with a running service."""
    item: Item
    pair: LanguagePair
    blocks: Iterator[Block] | None
    """The blocks of a stream, from the first; ``None`` of a file, which are read after it."""
    source: Source

    async def run(self, output: Output, progress: Progress) -> Progress:
        """Translate the input after ``progress``; returns the progress reached.

        Blocks of a file are translated one at a time, while the next one is prepared. Blocks of a
        stream share batches. A block ends when no input is available, so typed lines are
        translated at once.
        """
        options, rows = self.options, format_of(self.options, self.item)
        to_a_file = self.blocks is None
        found = self.blocks or blocks(self.source, rows, _IN_A_FILE, progress.place)
        bar = Bar(sys.stderr if shows_progress(options) else None, self.source.size)
        with closing(bar):
            async with self._translator() as translator:
                translate = BlockTranslator(
                    translator,
                    self.pair,
                    rows,
                    decoding_of(options),
                    model=options.model,
                    skip=options.on_error == "skip",
                    alone=to_a_file,
                )
                return await translate_blocks(
                    in_thread(found),
                    translate,
                    output,
                    progress,
                    ahead=2 if to_a_file else 4,
                    bar=bar,
                )

    @asynccontextmanager
    async def _translator(self) -> AsyncIterator[TextTranslator]:
        if self.settings is None:
            async with RemoteTranslations.of(self.options) as service:
                yield _ServiceTexts(service)
        else:
            async with local_translator(
                self.settings, self.pair, model=self.options.model
            ) as translator:
                yield translator


@dataclass(frozen=True, slots=True)
class _ServiceText:
    text: str
    truncated: bool
    sentence_count: int = 1
    """Texts, because a service does not say how many sentences they have."""


class _ServiceFailed(TranslationError):
    """The service refused texts, or did not answer."""


class _ServiceTexts:
    """Translates the texts of requests with a running service."""

    def __init__(self, service: RemoteTranslations) -> None:
        self._service = service

    async def translate(
        self,
        request: TranslateRequest,
        deliver: Callable[[Part], None] | None = None,
        *,
        origin: Origin,
        block_lock: AbstractAsyncContextManager[None] | None = None,
    ) -> list[_ServiceText]:
        """Raises ``_ServiceFailed``."""
        assert request.source is not None
        translated: list[_ServiceText] = []
        try:
            many = self._service.client.translate_many(
                request.texts, target=request.target, source=request.source, **self._service.asked
            )
            async with aclosing(many) as found:
                async for each in found:
                    if deliver is not None:
                        deliver(Part(len(translated), each.text))
                    translated.append(_ServiceText(each.text, each.truncated))
        except DragomanError as error:
            raise _ServiceFailed(str(error)) from error
        return translated

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        """A service refuses a request as a whole, so ``SentenceTooLong`` is never raised."""
        return {}


def translate_lines(item: Item, options: argparse.Namespace) -> None:
    """Translate a file, or standard input. Raises what ``service.commands.errors`` has."""
    target = _target(item.target)
    settings = None
    if not options.url:
        settings = prepared_settings(options, cached=target is None)
    decoding_of(options)
    with closing(Source(item.source, compressed=_compressed(options, "in"))) as source:
        compressed = _compressed(options, "out")
        if compressed is None:
            compressed = item.target.lower().endswith(".gz")
        if target is None:
            rows = format_of(options, item)
            found = blocks(source, rows, _IN_A_STREAM, prompt=True)
            first = [] if options.source else list(islice(found, 1))
            pair = _pair(first, options, settings)
            job = _Job(options, settings, item, pair, chain(first, found), source)
            with _stream(item.target) as file:
                progress = asyncio.run(job.run(Stream(file, compressed=compressed), Progress()))
        else:
            pair = _pair(_beginning(item, options), options, settings)
            job = _Job(options, settings, item, pair, None, source)
            progress = _write(job, target, _made_with(job, compressed), options.restart)
    _remark("cut at the longest allowed length", progress.cut)
    _remark("left empty because they cannot be translated", progress.skipped)


def _beginning(item: Item, options: argparse.Namespace) -> list[Block]:
    """The first block of a file, for the detection of its language; none if that is given."""
    if options.source:
        return []
    if item.source == STANDARD:
        raise CommandFailed("name the language with --from: standard input is read once only")
    with closing(Source(item.source, compressed=_compressed(options, "in"))) as source:
        return list(islice(blocks(source, format_of(options, item), _SAMPLE), 1))


def _pair(
    first: Sequence[Block], options: argparse.Namespace, settings: Settings | None
) -> LanguagePair:
    """The languages; raises ``CommandFailed`` and ``UndetectedLanguage``."""
    source, target = options.source and language(options.source), language(options.target)
    sample = "\n".join(row.text for block in first for row in block.rows)
    if settings is not None:
        pair = LocalModels(settings).pair(sample, source, target)
    else:
        pair = LanguagePair(source or asyncio.run(_asked(sample, options)), target)
    if source:
        return pair
    if pair.source == pair.target:
        raise CommandFailed(f"the text is in {pair.target} already; --from names another language")
    say(f"translating from {display_name(pair.source)} ({pair.source})")
    return pair


async def _asked(sample: str, options: argparse.Namespace) -> str:
    async with RemoteTranslations.of(options) as service:
        return language(await service.detect(sample, options.target))


def _write(job: _Job, target: Path, made_with: dict[str, Any], restart: bool) -> Progress:
    file = ResumableFile(target, made_with, compressed=made_with["compressed"], restart=restart)
    with closing(file):
        if file.progress.place.lines:
            say(f"{target} has {_lines(file.progress)} already; continuing after that")
        try:
            progress = asyncio.run(job.run(file, file.progress))
        except BaseException:
            if file.latest.place.lines:
                say(f"{target} keeps {_lines(file.latest)}; the same command continues after that")
            raise
        file.finish()
    return progress


def _made_with(job: _Job, compressed: bool) -> dict[str, Any]:
    """All inputs of the output except the source, by the names that users know."""
    options = job.options
    return {
        "version": service.__version__,
        "from": job.pair.source,
        "to": job.pair.target,
        "beam_size": options.beam_size,
        "length_penalty": options.length_penalty,
        "compressed": compressed,
        "block_lines": _IN_A_FILE.lines,
        "block_bytes": _IN_A_FILE.bytes,
        **_models(job),
        **described(options, job.item),
    }


def _models(job: _Job) -> dict[str, Any]:
    """The models that translate, and the settings that change how they do."""
    if job.settings is None:
        return {"url": job.options.url, "model": job.options.model}
    settings = job.settings
    models = {
        found.name: hashlib.sha256((found.path / MANIFEST).read_bytes()).hexdigest()[:12]
        for found in for_pair(
            discover(settings.bundles), job.pair, local_preference(settings), job.options.model
        )
    }
    return {
        "models": models,
        "device": available_device(settings.device),
        **{name: getattr(settings, name) for name in _MATTERS},
    }


def _compressed(options: argparse.Namespace, side: str) -> bool | None:
    """Whether ``--gzip`` compresses this side; ``None`` without the option."""
    return None if options.gzip is None else options.gzip in (side, "both")


def _target(name: str) -> Path | None:
    """The file to publish when complete; ``None`` for a sequential output such as a pipe."""
    return None if name == STANDARD else replaceable(Path(name))


@contextmanager
def _stream(name: str) -> Iterator[BinaryIO]:
    if name == STANDARD:
        yield standard_output()
        return
    with open(name, "wb") as file:
        yield file


def _lines(progress: Progress) -> str:
    return "1 line" if progress.place.lines == 1 else f"{progress.place.lines} lines"


def _remark(what: str, remarks: Remarks) -> None:
    if remarks.count:
        say(f"{what}: {remarks}")
