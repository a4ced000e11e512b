"""Translates a file of lines, resumable, or standard input as it arrives."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol, Self

import httpx

import service
from dragoman import DragomanError
from models.bundle.bundle import MANIFEST
from models.bundle.languages import display_name
from service.bulk.job import translate_blocks
from service.bulk.journal import Progress, Remarks
from service.bulk.output import Output, ResumableFile, Stream
from service.bulk.progress import Bar
from service.bulk.reading import Block, BlockSize, blocks, in_thread, opened
from service.bulk.source import Source
from service.bulk.translating import BlockTranslator, TextTranslator
from service.commands.command import CommandFailed, language, message_of
from service.commands.errors import REPORTED
from service.commands.formats import described, format_of
from service.commands.inputs import STANDARD, Item, replaceable, standard_output
from service.commands.local import decoding_of, prepared_settings
from service.commands.remote import RemoteTranslations, reported
from service.commands.terminal import Failures, say, shows_progress
from service.engine.errors import SentenceTooLong
from service.engine.types import Origin
from service.loading.discovery import discover, for_pair
from service.local_models import LocalModels, local_preference
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


class _Translator(TextTranslator, Protocol):
    """Translates all files of a command, with models of this process or a running service."""

    async def pair(self, sample: str, source: str | None, target: str) -> LanguagePair:
        """The languages of a text; raises ``CommandFailed`` and ``TranslationError``."""
        ...

    async def need(self, pair: LanguagePair) -> None:
        """Get ready to translate a pair; raises ``NotReady``."""
        ...

    async def made_with(self, pair: LanguagePair) -> dict[str, Any]:
        """Models that translate, and the settings that change how they do."""
        ...


@dataclass(frozen=True, slots=True)
class _Job:
    """One file of lines, and how it is translated."""

    options: argparse.Namespace
    translator: _Translator
    item: Item
    pair: LanguagePair
    blocks: AsyncIterator[Block] | None
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
        found = self.blocks or in_thread(blocks(self.source, rows, _IN_A_FILE, progress.place))
        await self.translator.need(self.pair)
        bar = Bar(sys.stderr if shows_progress(options) else None, self.source.size)
        with closing(bar):
            translate = BlockTranslator(
                self.translator,
                self.pair,
                rows,
                decoding_of(options),
                model=options.model,
                skip=options.on_error == "skip",
                alone=to_a_file,
            )
            return await translate_blocks(
                found, translate, output, progress, ahead=2 if to_a_file else 4, bar=bar
            )


class _LocalTexts:
    """Translates with models of this process."""

    def __init__(self, settings: Settings, model: str | None) -> None:
        self._settings = settings
        self._model = model
        self._models = LocalModels(settings)
        self.translate = self._models.translator.translate
        self.too_long = self._models.translator.too_long

    async def pair(self, sample: str, source: str | None, target: str) -> LanguagePair:
        return await asyncio.to_thread(self._models.pair, sample, source, target)

    async def need(self, pair: LanguagePair) -> None:
        await self._models.need(pair, self._model)

    async def made_with(self, pair: LanguagePair) -> dict[str, Any]:
        settings = self._settings
        models = {
            found.name: hashlib.sha256((found.path / MANIFEST).read_bytes()).hexdigest()[:12]
            for found in for_pair(
                discover(settings.bundles), pair, local_preference(settings), self._model
            )
        }
        return {
            "models": models,
            "device": available_device(settings.device),
            **{name: getattr(settings, name) for name in _MATTERS},
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._models.close()


@dataclass(frozen=True, slots=True)
class _ServiceText:
    text: str
    truncated: bool
    sentence_count: int = 1
    """Texts, because a service does not say how many sentences they have."""


class _ServiceFailed(TranslationError):
    """The service refused texts, or did not answer."""


class _ServiceTexts:
    """Translates with a running service."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._service = RemoteTranslations.of(options)
        self._url = httpx.URL(options.url).copy_with(userinfo=None)
        self._model: str | None = options.model

    async def pair(self, sample: str, source: str | None, target: str) -> LanguagePair:
        source = source or language(await self._service.detect(sample, target))
        return LanguagePair(source, target)

    async def need(self, pair: LanguagePair) -> None:
        """Nothing: the service refuses a request for a pair that it does not have."""

    async def made_with(self, pair: LanguagePair) -> dict[str, Any]:
        with reported():
            models = await self._service.client.models()
        named = [model for model in models if self._model in (None, model.name)]
        direct = [model for model in named if (pair.source, pair.target) in model.directions]
        versions = {model.name: model.version for model in direct or named}
        return {"url": str(self._url), "model": self._model, "models": versions}

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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._service.client.aclose()


async def translate_lines(
    items: Sequence[Item], options: argparse.Namespace, failures: Failures | None
) -> None:
    """Translate files of lines, or standard input, one after another.

    Where there are no ``failures`` to add to, an error of ``service.commands.errors`` is raised.
    """
    decoding_of(options)
    async with _opened(items, options) as translator:
        for item in items:
            try:
                await _translate(item, options, translator)
            except (CommandFailed, OSError, *REPORTED) as error:
                if failures is None:
                    raise
                failures.add(item.source, message_of(error))


def _opened(items: Sequence[Item], options: argparse.Namespace) -> _LocalTexts | _ServiceTexts:
    if options.url:
        return _ServiceTexts(options)
    stream = len(items) == 1 and _target(items[0].target) is None
    return _LocalTexts(prepared_settings(options, cached=stream), options.model)


async def _translate(item: Item, options: argparse.Namespace, translator: _Translator) -> None:
    target = _target(item.target)
    open_source = partial(Source, item.source, compressed=_compressed(options, "in"))
    with closing(await opened(open_source)) as source:
        compressed = _compressed(options, "out")
        if compressed is None:
            compressed = item.target.lower().endswith(".gz")
        if target is None:
            found = in_thread(blocks(source, format_of(options, item), _IN_A_STREAM, prompt=True))
            first = None if options.source else await anext(found, None)
            pair = await _pair(first, options, translator)
            job = _Job(options, translator, item, pair, _joined(first, found), source)
            async with _stream(item.target) as file:
                progress = await job.run(Stream(file, compressed=compressed), Progress())
        else:
            pair = await _pair(_beginning(source, item, options), options, translator)
            job = _Job(options, translator, item, pair, None, source)
            made_with = await _made_with(job, compressed)
            progress = await _write(job, target, made_with, options.restart)
    _remark("cut at the longest allowed length", progress.cut)
    _remark("left empty because they cannot be translated", progress.skipped)


async def _joined(first: Block | None, others: AsyncIterator[Block]) -> AsyncIterator[Block]:
    if first is not None:
        yield first
    async for block in others:
        yield block


def _beginning(source: Source, item: Item, options: argparse.Namespace) -> Block | None:
    """The first block of a file, for the detection of its language; none if that is given."""
    if options.source:
        return None
    if source.size is None:
        raise CommandFailed(f"name the language with --from: {source.name} is read once only")
    with closing(Source(item.source, compressed=_compressed(options, "in"))) as beginning:
        return next(blocks(beginning, format_of(options, item), _SAMPLE), None)


async def _pair(
    first: Block | None, options: argparse.Namespace, translator: _Translator
) -> LanguagePair:
    """The languages; raises what ``_Translator.pair`` raises."""
    source = options.source and language(options.source)
    sample = "" if first is None else "\n".join(row.text for row in first.rows)
    pair = await translator.pair(sample, source, language(options.target))
    if source:
        return pair
    if pair.source == pair.target:
        raise CommandFailed(f"the text is in {pair.target} already; --from names another language")
    say(f"translating from {display_name(pair.source)} ({pair.source})")
    return pair


async def _write(job: _Job, target: Path, made_with: dict[str, Any], restart: bool) -> Progress:
    file = ResumableFile(target, made_with, compressed=made_with["compressed"], restart=restart)
    with closing(file):
        if file.progress.place.lines:
            say(f"{target} has {_lines(file.progress)} already; continuing after that")
        try:
            progress = await job.run(file, file.progress)
        except BaseException:
            if file.latest.place.lines:
                say(f"{target} keeps {_lines(file.latest)}; the same command continues after that")
            raise
        file.finish()
    return progress


async def _made_with(job: _Job, compressed: bool) -> dict[str, Any]:
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
        **await job.translator.made_with(job.pair),
        **described(options, job.item),
    }


def _compressed(options: argparse.Namespace, side: str) -> bool | None:
    """Whether ``--gzip`` compresses this side; ``None`` without the option."""
    return None if options.gzip is None else options.gzip in (side, "both")


def _target(name: str) -> Path | None:
    """The file to publish when complete; ``None`` for a sequential output such as a pipe."""
    return None if name == STANDARD else replaceable(Path(name))


@asynccontextmanager
async def _stream(name: str) -> AsyncIterator[BinaryIO]:
    if name == STANDARD:
        yield standard_output()
        return
    with await opened(lambda: open(name, "wb")) as file:
        yield file


def _lines(progress: Progress) -> str:
    return "1 line" if progress.place.lines == 1 else f"{progress.place.lines} lines"


def _remark(what: str, remarks: Remarks) -> None:
    if remarks.count:
        say(f"{what}: {remarks}")
