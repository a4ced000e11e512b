"""Translates with models of this process, without a server."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from service.commands.command import CommandFailed, language, settings_of
from service.document_jobs.work import DocumentOrder, OpenedDocument
from service.documents import DocumentReader, Languages
from service.engine.types import Origin
from service.local_models import LocalModels
from service.observability.logging import configure
from service.server.process import prepare_process
from service.settings import Settings
from service.text.types import LanguagePair
from service.translation.decoding import DecodingOverrides
from service.translation.types import TranslateRequest


class LocalTranslations:
    """Loads the models of a language pair when it first occurs. Belongs to one event loop."""

    def __init__(self, models: LocalModels, decoding: DecodingOverrides, model: str | None) -> None:
        self._models = models
        self._decoding = decoding
        self._model = model
        self._stack = AsyncExitStack()
        self._reader: DocumentReader | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Raises ``CommandFailed`` and ``InvalidSetting``."""
        return cls(LocalModels(prepared_settings(options)), decoding_of(options), options.model)

    async def phrase(self, text: str, source: str | None, target: str) -> str:
        pair = await self._pair(text, source, target)
        if pair.source == pair.target:
            return text
        await self._models.need(pair, self._model)
        request = TranslateRequest((text,), pair.target, pair.source, self._model, self._decoding)
        (translation,) = await self._models.translator.translate(request)
        return translation.text

    async def document(
        self, path: Path, source: str | None, target: str, report: Callable[[float], None]
    ) -> bytes:
        if self._reader is None:
            self._reader = DocumentReader()
            self._stack.push_async_callback(self._reader.close)
        content = await asyncio.to_thread(path.read_bytes)
        given = Languages(language(source) if source else "", language(target))
        document = await self._reader.read(path.name, content, languages=given)
        pair = await self._pair(document.sample, source, target)
        if pair.source == pair.target:
            return content
        await self._models.need(pair, self._model)
        order = DocumentOrder(
            path.name,
            content,
            pair.target,
            pair.source,
            model=self._model,
            decoding=self._decoding,
            origin=Origin("bulk"),
        )
        work = self._models.documents(self._reader)
        return await work.translate(OpenedDocument(document, pair, order), report)

    async def _pair(self, sample: str, source: str | None, target: str) -> LanguagePair:
        given = language(source) if source else None
        return await asyncio.to_thread(self._models.pair, sample, given, language(target))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        await self._models.close()


def prepared_settings(options: argparse.Namespace, *, cached: bool = True) -> Settings:
    """The settings of a command, for which the process and its log are set up.

    ``cached`` is whether recent results may answer.
    """
    settings = _settings(options, cached=cached)
    prepare_process()
    configure(settings.log_level, settings.log_format)
    return settings


def _settings(options: argparse.Namespace, *, cached: bool) -> Settings:
    asked = {name: getattr(options, name) for name in ("device", "precision", "threads")}
    asked["result_megabytes"] = None if cached else 0
    settings = settings_of(options, log_level="warning", shortlist=options.shortlist, **asked)
    if (options.beam_size or 0) <= settings.max_beam_size:
        return settings
    return settings.model_copy(update={"max_beam_size": options.beam_size})


def decoding_of(options: argparse.Namespace) -> DecodingOverrides:
    """Raises ``CommandFailed`` for a value out of range."""
    try:
        return DecodingOverrides(beam_size=options.beam_size, length_penalty=options.length_penalty)
    except ValidationError as error:
        (first, *_) = error.errors()
        raise CommandFailed(
            f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}"
        ) from error
