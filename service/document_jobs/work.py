"""Translates one document: language detection, batches of texts, retries while overloaded.

Independent of callers, jobs and HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter

from service.catalogue.errors import ModelMemoryFull
from service.catalogue.permission import Permission
from service.catalogue.repository import ModelRepository
from service.document_jobs.types import EqualLanguages
from service.documents import DocumentReader, Languages, ReadDocument, translate_document
from service.engine.types import Origin
from service.observability.metrics import Metrics
from service.text.markup import Markup
from service.text.types import LanguagePair, Term
from service.translation.decoding import NO_OVERRIDES, DecodingOverrides
from service.translation.errors import Overloaded
from service.translation.local_translator import LocalTranslator
from service.translation.types import TranslateRequest

_LINES = frozenset({"text/plain", "text/vtt", "application/x-subrip"})
"""Media types whose lines may begin inside a sentence, with a noun in German."""


@dataclass(frozen=True, slots=True)
class DocumentOrder:
    """A file and the options of its translation."""

    filename: str
    """The client's name of the file, whose extension gives the format."""
    content: bytes = field(repr=False)
    target: str
    source: str | None = None
    """``None`` detects one language for the whole document."""
    terms: tuple[Term, ...] = ()
    model: str | None = None
    decoding: DecodingOverrides = NO_OVERRIDES
    origin: Origin = field(default=Origin("bulk"), repr=False)
    """Origin, whose caller's share of the document readers and of the batch is used."""
    refuse_equal_languages: bool = False
    """Whether a document in the target language is an error; otherwise it stays as it is."""
    permission: Permission | None = None
    """The languages and models that the caller may use; ``None`` is all."""


_INSTRUCTIONS = TypeAdapter(DocumentOrder)


def instructions_of(order: DocumentOrder) -> str:
    """An order without its content, as text that ``order_of`` reads."""
    return _INSTRUCTIONS.dump_json(replace(order, content=b"")).decode()


def order_of(instructions: str, content: bytes) -> DocumentOrder:
    return replace(_INSTRUCTIONS.validate_json(instructions), content=content)


@dataclass(frozen=True, slots=True)
class OpenedDocument:
    document: ReadDocument
    pair: LanguagePair
    order: DocumentOrder


class DocumentWork:
    def __init__(
        self,
        reader: DocumentReader,
        translator: LocalTranslator,
        repository: ModelRepository,
        metrics: Metrics,
    ) -> None:
        self._reader = reader
        self._translator = translator
        self._repository = repository
        self._metrics = metrics

    async def open(self, order: DocumentOrder) -> OpenedDocument:
        """Read a document and determine its language pair.

        Raises ``DocumentError``, or a ``TranslationError`` if the languages or the model are not on
        offer, or the language cannot be detected.
        """
        catalogue = self._repository.catalogue
        target = catalogue.language(order.target, "targets")
        languages = Languages(target=target)
        if order.source is not None:
            pair = self._checked(order.source, order)
            languages = Languages(pair.source, pair.target)
        caller = order.origin.caller or None
        document = await self._reader.read(order.filename, order.content, caller, languages)
        source = order.source
        if source is None:
            detected = await asyncio.to_thread(
                self._translator.stages.reader.detect, document.sample, target, catalogue
            )
            source = detected.language
        return OpenedDocument(document, self._checked(source, order), order)

    async def translate(self, opened: OpenedDocument, report: Callable[[float], None]) -> bytes:
        """Return the translated file; calls ``report`` with 0 to 1 after each batch.

        Waits while the service is full. Raises ``EqualLanguages``, what ``Translator.translate``
        raises, and a ``DocumentError``.
        """
        pair = opened.pair
        equal = pair.source == pair.target
        # A document without letters, such as figures alone, is in every language.
        if equal and opened.order.refuse_equal_languages and _has_letters(opened.document.sample):
            raise EqualLanguages
        done = 0

        async def translate(batch: tuple[str, ...], markup: Markup) -> list[str]:
            nonlocal done
            translated = await self._translate(opened, batch, markup)
            done += sum(map(len, batch))
            report(done / opened.document.length)
            return translated

        return await translate_document(self._reader, opened.document, translate)

    async def _translate(
        self, opened: OpenedDocument, texts: tuple[str, ...], markup: Markup
    ) -> list[str]:
        order = opened.order
        request = TranslateRequest(
            texts,
            opened.pair.target,
            opened.pair.source,
            order.model,
            order.decoding,
            markup,
            terms=order.terms,
            keep_capitals=opened.document.media_type not in _LINES,
            permission=order.permission,
            sample=opened.document.sample,
        )
        while True:
            try:
                translations = await self._translator.translate(request, origin=order.origin)
                break
            except (Overloaded, ModelMemoryFull) as error:
                # Waiting preserves the batches that are already translated.
                await asyncio.sleep(error.retry_after)
        for text, translation in zip(texts, translations, strict=True):
            if translation.model is not None:
                self._metrics.characters(translation.model, len(text))
        return [translation.text for translation in translations]

    def _checked(self, source: str, order: DocumentOrder) -> LanguagePair:
        catalogue = self._repository.catalogue
        pair = catalogue.pair(source, order.target)
        chosen = order.model is not None or order.permission is not None
        if chosen and pair.source != pair.target:
            catalogue.route(pair, order.model, order.permission)
        return pair


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)
