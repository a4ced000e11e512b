"""First stage of a translation: parses markup, detects languages, routes, splits and tokenises.

Long texts are read in threads, see ``service.translation.text_pool``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from service.catalogue.catalogue import Catalogue, Route
from service.catalogue.loaded_model import DirectedModel
from service.engine.types import Decoded
from service.text.glossary.term_index import TermIndexes
from service.text.markup import MarkedText, Markup, characters, parse
from service.text.types import Detection, LanguagePair, UnservedLanguage
from service.translation.beginning import begun
from service.translation.errors import InvalidOption, InvalidText, UndetectedLanguage
from service.translation.preparing import Job, Sentence, Text, prepare, work_of
from service.translation.text_pool import Check, TextPool
from service.translation.types import TranslatedSentence, TranslateRequest

_SENTENCE_TOKENS = 10
"""A sentence without its tokens takes as much memory as so many of them."""
_FEW_WORDS = 3
_SURELY_TARGET = 0.9
"""Confidence from which also a text of few words is in the target language."""


class Detector(Protocol):
    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        """The languages a text may be in, of those given, the likeliest first. Blocks."""
        ...

    def unserved(self, text: str, languages: Sequence[str]) -> Detection | None:
        """The language of a text that is in none of those given; ``None`` if it may be. Blocks."""
        ...


@dataclass(frozen=True, slots=True)
class ReadText:
    """A parsed text and its language pair."""

    number: int
    text: str
    marked: MarkedText
    pair: LanguagePair
    detection: Detection | None


@dataclass(frozen=True, slots=True)
class PairTexts:
    """The texts of a request that have the same two languages."""

    pair: LanguagePair
    route: Route
    """The models that translate them; none where source and target are the same language."""
    read: tuple[ReadText, ...]
    texts: tuple[Text, ...]
    """Tokenised for the first model of the route."""
    work: int
    """Source tokens to reserve for all models of the route."""


class WrittenSentences:
    """Sentences of a kept request as they were written, up to a bound. Event loop only."""

    def __init__(self, most_tokens: int) -> None:
        """``most_tokens`` bounds the results; a sentence counts as ``_SENTENCE_TOKENS`` more."""
        self._left = most_tokens
        self._kept: dict[int, tuple[Decoded, TranslatedSentence]] = {}
        """Result and translation by the ``id`` of a sentence, which the request keeps."""

    def of(self, sentence: Sentence, decoded: Decoded) -> TranslatedSentence | None:
        """The sentence as it was written from an equal result."""
        result, written = self._kept.get(id(sentence), (None, None))
        if written is None or result != decoded or written.durations != decoded.durations:
            return None
        return written

    def keep(self, sentence: Sentence, decoded: Decoded, written: TranslatedSentence) -> None:
        if (earlier := self._kept.pop(id(sentence), None)) is not None:
            self._left += _tokens_of(earlier[0])
        tokens = _tokens_of(decoded)
        if tokens <= self._left:
            self._left -= tokens
            self._kept[id(sentence)] = decoded, written


def _tokens_of(decoded: Decoded) -> int:
    return _SENTENCE_TOKENS + sum(len(each.token_ids) for each in decoded.hypotheses)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request whose texts are read: all that decoding needs, on behalf of any caller."""

    request: TranslateRequest
    groups: tuple[PairTexts, ...]
    seconds: float
    """Time that reading took."""
    written: WrittenSentences | None = None
    """Its sentences, as they were written from results of the first model; ``None`` for a request
    that is not kept."""

    @property
    def alive(self) -> bool:
        """Whether the engines of all its models are running, as far as is known."""
        return all(way.model.engine.alive for group in self.groups for way in group.route)

    @property
    def samples(self) -> bool:
        """Whether its options hold random numbers, so that it must not be decoded twice."""
        texts = (text for group in self.groups for text in group.texts)
        return any(sentence.options.samples for text in texts for sentence in text.sentences)


class RequestReader:
    """Reads requests. Event loop only. Owns the threads that process long texts."""

    def __init__(
        self, detector: Detector, refuse_if_full: Callable[[str], None] = lambda _: None
    ) -> None:
        """``refuse_if_full`` raises ``Overloaded`` for a caller before texts are tokenised."""
        self._detector = detector
        self._refuse_if_full = refuse_if_full
        self.pool = TextPool()
        self._terms = TermIndexes()

    async def read(
        self, request: TranslateRequest, catalogue: Catalogue, caller: str = ""
    ) -> Prepared:
        """Parse, detect, route, split and tokenise the texts of a request.

        Raises ``UndetectedLanguage``, ``InvalidText``, ``InvalidOption``, the errors of unknown
        languages and models, of malformed markup and of ``prepare``, and ``Overloaded``.
        """
        started = time.perf_counter()
        require_unicode(request.texts, request.prefix)
        if request.model is not None:
            catalogue.named(request.model)
        by_pair: dict[LanguagePair, list[ReadText]] = {}
        for each in await self.read_texts(request, catalogue, caller):
            by_pair.setdefault(each.pair, []).append(each)
        groups = []
        for pair, read in by_pair.items():
            route: Route = ()
            if pair.source != pair.target:
                route = catalogue.route(pair, request.model, request.permission, request.chooses_by)
            _check_route(request, pair, route)
            texts: list[Text] = []
            if route:
                self._refuse_if_full(caller)
                job = Job.of(request, last=len(route) == 1)
                marked = [each.marked for each in read]
                texts = await self.prepared(marked, route[0], job, caller)
            work = work_of(texts, route, request)
            groups.append(PairTexts(pair, route, tuple(read), tuple(texts), work))
        return Prepared(request, tuple(groups), time.perf_counter() - started)

    async def characters(
        self, texts: Sequence[str], markup: Markup, caller: str = ""
    ) -> tuple[int, ...]:
        """The characters of each text to charge for; raises the errors of malformed markup."""
        if markup.kind == "text":
            return tuple(map(len, texts))

        def count(check: Check) -> tuple[int, ...]:
            counts = []
            for text in texts:
                check()
                counts.append(characters(text, markup))
            return tuple(counts)

        return await self.pool.run(texts, count, caller=caller or None)

    async def read_texts(
        self, request: TranslateRequest, catalogue: Catalogue, caller: str = ""
    ) -> list[ReadText]:
        """The parsed texts and their language pairs.

        Raises ``UndetectedLanguage`` and the errors of unknown languages and malformed markup.
        """
        return await self.pool.run(
            request.texts,
            lambda check: self._read(request, catalogue, check),
            caller=caller or None,
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
                    detection = Detection(target, 0.0, found=False, unserved=error.unserved)
            code = source if detection is None else detection.language
            read.append(ReadText(number, text, marked, LanguagePair(code, target), detection))
        if undetected and len(undetected) == len(read):
            raise undetected[0]
        return read

    def detect(self, plain: str, target: str, catalogue: Catalogue, number: int = 0) -> Detection:
        """Detect a text's language among those translated to ``target``; see ``detected``."""
        languages = [
            c for c in catalogue.sources if c == target or target in catalogue.targets_of(c)
        ]
        return detected(self._detector, plain, languages, target, number)

    async def prepared(
        self, marked: Sequence[MarkedText], directed: DirectedModel, job: Job, caller: str = ""
    ) -> list[Text]:
        """The texts as tokenised sentences; raises the errors of ``prepare``."""
        await directed.model.open_tokenizers()
        if job.prefix:
            # Short texts are prepared on the event loop, where the vocabulary must not be made.
            await asyncio.to_thread(directed.model.vocabulary)
        runs = [run for text in marked for run in text.runs]
        extra = job.extra_characters + sum(len(run.atoms) for run in runs)

        def prepared(check: Check) -> list[Text]:
            index = self._terms.of(job.terms) if job.terms else None
            texts = prepare(marked, directed, job, index, check)
            if job.prefix:
                (text,) = texts
                texts = [begun(text, job.prefix, directed, job.splitting, job.markup)]
            return [text.with_alternatives(job.decoding.token_alternatives) for text in texts]

        return await self.pool.run([run.text for run in runs], prepared, extra, caller or None)

    async def parsed(self, texts: Sequence[str], markup: Markup, caller: str) -> list[MarkedText]:
        """Texts with their markup; raises the errors of malformed markup."""
        return await self.pool.run(
            texts, lambda check: _parse_all(texts, markup, check), caller=caller or None
        )


def detected(
    detector: Detector, text: str, sources: Sequence[str], target: str, number: int = 0
) -> Detection:
    """The language of a text: one of ``sources``, or ``target`` itself.

    A text of up to three words is in another language than ``target``, if that is possible at all.
    A text without letters counts as in ``target``. Blocks. Raises ``UndetectedLanguage`` with the
    number of the text.
    """
    if not any(character.isalpha() for character in text):
        return Detection(target, 0.0)
    languages = sorted({*sources, target})
    found = list(detector.detect(text, languages))
    if len(text.split()) <= _FEW_WORDS:
        found.sort(key=lambda each: each.language == target and each.confidence < _SURELY_TARGET)
    other = detector.unserved(text, languages)
    unserved = None
    if other is not None:
        command = f"dragoman models add {other.language}-{target}"
        unserved = UnservedLanguage(other.language, other.confidence, command)
    if not found:
        raise UndetectedLanguage(number + 1, sources, unserved)
    return found[0] if unserved is None else replace(found[0], unserved=unserved)


def _parse_all(texts: Sequence[str], markup: Markup, check: Check) -> list[MarkedText]:
    parsed = []
    for text in texts:
        check()
        parsed.append(parse(text, markup))
    return parsed


def _check_route(request: TranslateRequest, pair: LanguagePair, route: Route) -> None:
    """Raises ``InvalidOption`` for options that these models cannot honour."""
    if not route and request.prefix:
        raise InvalidOption(f"prefix needs two languages; source and target are {pair.source}")
    if request.terms and len(route) > 1:
        raise InvalidOption(f"a glossary needs a model that translates {pair} directly")
    if request.memory and len(route) > 1:
        raise InvalidOption(f"a translation memory needs a model that translates {pair} directly")
    if request.terms and route and request.decoding.return_alternatives:
        raise InvalidOption("return_alternatives excludes a glossary")


def require_unicode(texts: Sequence[str], prefix: str = "") -> None:
    """Raises ``InvalidText`` for a text or a prefix with a lone surrogate."""
    for number, text in enumerate((*texts, prefix), start=1):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidText(f"text {number}" if number <= len(texts) else "prefix") from error
