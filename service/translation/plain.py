"""Translation of plain texts in one language pair by one model, sentences decoded in one call.

The short form of ``Translator.translate``, for requests without markup, glossary terms, a pivot or
streaming. ``DecodeRequest`` is the only interface between text processing and decoding, so that
they can run in two processes. Both forms give the same translations.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from service.engine.types import Decoded, DecodingOptions, Priority
from service.translation.catalogue import Catalogue
from service.translation.leg import chosen, joined_leg, translated_sentence
from service.translation.loaded_model import DirectedModel
from service.translation.markup import PLAIN
from service.translation.preparing import Job, Text, work_of
from service.translation.text_reader import ReadText, TextReader, require_unicode
from service.translation.types import LanguagePair, TranslateRequest, Translation


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """The sentences of a request as token ids, and what decides when they are decoded."""

    model: str
    version: str
    pair: LanguagePair
    sentences: tuple[tuple[tuple[int, ...], DecodingOptions], ...]
    """Source ids, as ``DirectedModel`` describes them, and options."""
    work: int
    """For ``Admission``, in source tokens."""
    priority: Priority
    cache_scope: str
    caller: str


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request whose texts are split and tokenised."""

    directed: DirectedModel
    read: Sequence[ReadText]
    texts: Sequence[Text]
    decode: DecodeRequest
    seconds: float
    """Of reading, splitting and tokenising."""


def is_plain(request: TranslateRequest) -> bool:
    """Whether a request needs one decoding of each sentence, and no word alignment."""
    return bool(
        request.texts
        and request.markup is PLAIN
        and not (request.terms or request.prefix or request.confidence)
        and not request.decoding.return_alternatives
    )


async def prepare_plain(
    request: TranslateRequest, catalogue: Catalogue, reader: TextReader
) -> PreparedRequest | None:
    """Split and tokenise a plain request; ``None`` if it needs several models, or none.

    Raises a ``TranslationError`` or ``EngineError`` as ``Translator.translate`` would.
    """
    started = time.perf_counter()
    require_unicode(request.texts)
    if request.model is not None:
        catalogue.named(request.model)
    read = await reader.read(request, catalogue)
    pair = read[0].pair
    if pair.source == pair.target or any(each.pair != pair for each in read):
        return None
    route = catalogue.route(pair, request.model)
    if len(route) > 1:
        return None
    (directed,) = route
    marked = [each.marked for each in read]
    texts = await reader.prepared(marked, directed, Job.of(request), request.caller)
    work = work_of(texts, route, request)
    decode = DecodeRequest(
        directed.model.name,
        directed.model.manifest.version,
        pair,
        tuple((each.source_ids, each.options) for text in texts for each in text.sentences),
        work,
        request.priority,
        request.cache_scope,
        request.caller,
    )
    return PreparedRequest(directed, read, texts, decode, time.perf_counter() - started)


async def finish_plain(prepared: PreparedRequest, decoded: Sequence[Decoded]) -> list[Translation]:
    """The translations of a prepared request, whose sentences were decoded in order.

    Raises the errors of ``AttentionReader.read``.
    """
    directed, results = prepared.directed, iter(decoded)
    translations = []
    for read, text in zip(prepared.read, prepared.texts, strict=True):
        sentences = [
            await translated_sentence(
                directed,
                sentence,
                chosen(directed, sentence, sentence.options, result),
                sentence.options,
                prepared.decode.caller,
            )
            for sentence, result in zip(
                text.sentences, islice(results, len(text.sentences)), strict=True
            )
        ]
        leg = joined_leg(directed, text, sentences)
        translations.append(
            Translation(read.pair, (leg,), detection=read.detection, preparing=prepared.seconds)
        )
    return translations
