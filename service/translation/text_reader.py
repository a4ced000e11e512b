"""Reads the texts of requests: parses markup, detects languages, splits and tokenises.

Long texts are read in threads, see ``service.translation.text_pool``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from service.translation.beginning import begun
from service.translation.catalogue import Catalogue
from service.translation.errors import InvalidText, UndetectedLanguage
from service.translation.glossary.term_index import TermIndexes
from service.translation.loaded_model import DirectedModel
from service.translation.markup import MarkedText, Markup, parse
from service.translation.preparing import Job, Text, prepare
from service.translation.text_pool import Check, TextPool
from service.translation.types import Detection, LanguagePair, TranslateRequest


class Detector(Protocol):
    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        """The languages a text may be in, of those given, the likeliest first. Blocks."""
        ...


@dataclass(frozen=True, slots=True)
class ReadText:
    """A parsed text and its language pair."""

    number: int
    text: str
    marked: MarkedText
    pair: LanguagePair
    detection: Detection | None


class TextReader:
    """Event loop only. Owns the threads that process long texts."""

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self.pool = TextPool()
        self._terms = TermIndexes()

    async def read(self, request: TranslateRequest, catalogue: Catalogue) -> list[ReadText]:
        """The parsed texts and their language pairs.

        Raises ``UndetectedLanguage`` and the errors of unknown languages and malformed markup.
        """
        return await self.pool.run(
            request.texts,
            lambda check: self._read(request, catalogue, check),
            caller=request.caller or None,
        )

    def _read(
        self, request: TranslateRequest, catalogue: Catalogue, check: Check
    ) -> list[ReadText]:
        """Parse the texts and determine their language pairs. Blocks.

        A text of several whose language cannot be detected is left as it is, unless this is true
        of all of them.
        """
        if request.source is None:
            source, target = "", catalogue.language(request.target, "targets")
        else:
            pair = catalogue.pair(request.source, request.target)
            source, target = pair.source, pair.target
        read, undetected = [], list[UndetectedLanguage]()
        for number, text in enumerate(request.texts):
            check()
            marked = parse(text, request.markup)
            detection = None
            if not source:
                try:
                    plain = "\n".join(run.text for run in marked.runs)
                    detection = self.detect(plain, target, catalogue, number)
                except UndetectedLanguage as error:
                    undetected.append(error)
                    detection = Detection(target, 0.0, found=False)
            code = source if detection is None else detection.language
            read.append(ReadText(number, text, marked, LanguagePair(code, target), detection))
        if undetected and len(undetected) == len(read):
            raise undetected[0]
        return read

    def detect(self, plain: str, target: str, catalogue: Catalogue, number: int = 0) -> Detection:
        """Detect a text's language among those translated to ``target``, or ``target`` itself.

        A text without letters counts as in the target language. Blocks. Raises
        ``UndetectedLanguage`` with the number of the text.
        """
        if not any(character.isalpha() for character in plain):
            return Detection(target, 0.0)
        languages = [
            c for c in catalogue.sources if c == target or target in catalogue.targets_of(c)
        ]
        candidates = sorted({*languages, target})
        found = self._detector.detect(plain, candidates)
        if not found:
            raise UndetectedLanguage(number + 1, languages)
        return found[0]

    async def prepared(
        self, marked: Sequence[MarkedText], directed: DirectedModel, job: Job, caller: str = ""
    ) -> list[Text]:
        """The texts as tokenised sentences; raises the errors of ``prepare``."""
        if job.prefix:
            # Short texts are prepared on the event loop, where the vocabulary must not be made.
            await asyncio.to_thread(directed.model.vocabulary)
        runs = [run for text in marked for run in text.runs]
        extra = job.extra_characters + sum(len(run.atoms) for run in runs)

        def prepared(check: Check) -> list[Text]:
            texts = prepare(marked, directed, job, self._terms.of(job.terms), check)
            if job.prefix:
                (text,) = texts
                texts = [begun(text, job.prefix, directed, job.splitting, job.markup)]
            return [text.with_alternatives(job.decoding.alternatives) for text in texts]

        return await self.pool.run([run.text for run in runs], prepared, extra, caller or None)

    async def parsed(self, texts: Sequence[str], markup: Markup, caller: str) -> list[MarkedText]:
        """Texts with their markup; raises the errors of malformed markup."""
        return await self.pool.run(
            texts, lambda check: _parse_all(texts, markup, check), caller=caller or None
        )


def _parse_all(texts: Sequence[str], markup: Markup, check: Check) -> list[MarkedText]:
    parsed = []
    for text in texts:
        check()
        parsed.append(parse(text, markup))
    return parsed


def require_unicode(texts: Sequence[str], prefix: str = "") -> None:
    """Raises ``InvalidText`` for a text or a prefix with a lone surrogate."""
    for number, text in enumerate((*texts, prefix), start=1):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidText(f"text {number}" if number <= len(texts) else "prefix") from error
