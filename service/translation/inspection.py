"""The use case of looking inside: attention, alignment and score of a pair of texts.

The texts are either a sentence of a translation that is still kept, or any that a caller gives.
Works with one model, which stays loaded meanwhile. Knows no wire format.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from service.translation.alignment import Alignment
from service.translation.attention import Maps, Wanted, align, look
from service.translation.edits import edited
from service.translation.errors import (
    InvalidOption,
    InvalidText,
    Overloaded,
    TranslationError,
    UnknownModel,
    UnsupportedPair,
)
from service.translation.loaded_model import DirectedModel
from service.translation.repository import ModelRepository
from service.translation.store import TranslationStore
from service.translation.types import Leg, TranslatedSentence, Translation

_LARGEST_EXPONENT = 700.0
"""Beyond it, there is no float for e to this power."""


class ModelGone(TranslationError):
    """What made a translation is no longer on offer, so nobody can say what it looked at."""

    def __init__(self, model: str, version: str) -> None:
        super().__init__(
            f"version {version} of the model {model}, which made this translation, is no longer on "
            "offer: translate again"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A sentence of a translation; all counted from 0."""

    translation: str
    text: int = 0
    leg: int = 0
    sentence: int = 0


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target to look at, each read as one sentence."""

    source_text: str
    target_text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is to look: languages in any spelling, and a model on offer by name or whichever."""

    source: str
    target: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class AlignedPair:
    pair: Pair
    alignment: Alignment


@dataclass(frozen=True, slots=True)
class ScoredToken:
    piece: str
    log_prob: float


@dataclass(frozen=True, slots=True)
class Score:
    """How likely a model finds a translation.

    The last token is ``eos``; the first are those that the decoder is fed before it may choose, if
    the direction has any, and cost nothing.
    """

    tokens: tuple[ScoredToken, ...]

    @property
    def log_prob(self) -> float:
        return math.fsum(token.log_prob for token in self.tokens)

    @property
    def per_token(self) -> float:
        """The score that a search with ``length_penalty`` 1 gives the same hypothesis."""
        return self.log_prob / len(self.tokens)

    @property
    def perplexity(self) -> float:
        return math.exp(min(-self.per_token, _LARGEST_EXPONENT))


@dataclass(frozen=True, slots=True)
class SentenceView:
    sentence: TranslatedSentence
    source_pieces: tuple[str, ...]
    """The direction's prefix first and ``eos`` last, as in ``target_pieces``."""
    target_pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LegView:
    leg: Leg
    encoder_layers: int
    decoder_layers: int
    heads: int
    sentences: tuple[SentenceView, ...]


@dataclass(frozen=True, slots=True)
class TextView:
    """A kept translation of one text, and what there is to look at in it."""

    translation: Translation
    legs: tuple[LegView, ...]


@dataclass(frozen=True, slots=True)
class _EncodedPair:
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]


class Inspector:
    """Serves no more than ``most`` requests at a time, and refuses more with ``Overloaded``.

    A request has one sentence in its model's line at a time, so large ones hold up nobody.
    """

    def __init__(
        self, repository: ModelRepository, store: TranslationStore, *, most: int = 64
    ) -> None:
        self._repository = repository
        self._store = store
        self._most = most
        self._looking = 0

    async def texts(self, translation: str) -> tuple[TextView, ...]:
        """What a kept translation is made of; raises ``UnknownTranslation`` or ``ModelGone``."""
        return tuple([await self._text(text) for text in self._store.get(translation)])

    async def attention(self, place: Place, wanted: Wanted) -> Maps:
        """Maps of a sentence of a kept translation; raises as ``look`` and ``texts`` do."""
        leg, sentence = self._sentence(place)
        with self._admitted():
            async with self._way_of(leg) as way:
                return await look(way, wanted, sentence.source_ids, sentence.target_ids)

    async def alignment(self, place: Place) -> AlignedPair:
        """The words of a sentence of a kept translation; raises as ``align`` and ``texts`` do."""
        leg, sentence = self._sentence(place)
        with self._admitted():
            async with self._way_of(leg) as way:
                decoded = way.model.tokenizers.target.decode(sentence.target_ids)
                alignment = await align(
                    way, sentence.source, decoded, sentence.source_ids, sentence.target_ids
                )
        changed = edited(decoded, alignment, sentence.edits)
        return AlignedPair(Pair(sentence.source, changed.text), changed.alignment)

    async def attention_of(self, pair: Pair, asked: Asked, wanted: Wanted) -> Maps:
        """Maps of a given pair of texts. Raises as ``look`` and ``ModelRepository.lease`` do."""
        with self._admitted():
            async with self._way_for(asked) as way:
                read = await _encode(way, pair)
                return await look(way, wanted, read.source_ids, read.target_ids)

    async def alignment_of(self, pair: Pair, asked: Asked) -> AlignedPair:
        """The words of a given pair of texts. Raises as ``attention_of`` does."""
        with self._admitted():
            async with self._way_for(asked) as way:
                read = await _encode(way, pair)
                alignment = await align(
                    way, pair.source_text, pair.target_text, read.source_ids, read.target_ids
                )
        return AlignedPair(pair, alignment)

    async def scores(self, pairs: Sequence[Pair], asked: Asked) -> tuple[Score, ...]:
        """How likely each target is, given its source. Raises as ``attention_of`` does."""
        with self._admitted():
            async with self._way_for(asked) as way:
                reads = [await _encode(way, pair, i) for i, pair in enumerate(pairs)]
                return tuple([await _score(way, read) for read in reads])

    async def _text(self, translation: Translation) -> TextView:
        legs = []
        for leg in translation.legs:
            async with self._way_of(leg) as way:
                legs.append(_leg_view(way, leg))
        return TextView(translation, tuple(legs))

    def _sentence(self, place: Place) -> tuple[Leg, TranslatedSentence]:
        texts = self._store.get(place.translation)
        text = texts[_index("text", place.text, len(texts))]
        leg = text.legs[_index("leg", place.leg, len(text.legs))]
        return leg, leg.sentences[_index("sentence", place.sentence, len(leg.sentences))]

    @asynccontextmanager
    async def _way_of(self, leg: Leg) -> AsyncIterator[DirectedModel]:
        """The very model that did a leg, in the leg's direction."""
        try:
            lease = self._repository.lease(leg.pair, leg.model)
            async with lease as (way, *_):
                if way.model.manifest.version != leg.version:
                    raise ModelGone(leg.model, leg.version)
                yield way
        except (UnknownModel, UnsupportedPair) as error:
            raise ModelGone(leg.model, leg.version) from error

    @asynccontextmanager
    async def _way_for(self, asked: Asked) -> AsyncIterator[DirectedModel]:
        offer = self._repository.offer
        pair = offer.pair(asked.source, asked.target)
        async with self._repository.lease(pair, asked.model) as (way, *others):
            if others:
                # Through a pivot there is no attention between the two texts.
                direct = [p.target for p in offer.direct_pairs() if p.source == pair.source]
                raise UnsupportedPair(pair.source, pair.target, direct)
            yield way

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        if self._looking >= self._most:
            raise Overloaded
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1


async def _encode(way: DirectedModel, pair: Pair, number: int = 0) -> _EncodedPair:
    """Both texts as token ids; raises ``InvalidText`` or ``SentenceTooLong``."""
    for text in (pair.source_text, pair.target_text):
        if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
            raise InvalidText(number)
    # A long text takes a while to encode, and is only then known to be too long.
    read = await asyncio.to_thread(
        lambda: _EncodedPair(
            way.source_ids(pair.source_text),
            way.model.tokenizers.target.encode(pair.target_text),
        )
    )
    way.model.attention.check(read.source_ids, way.written(read.target_ids))
    return read


async def _score(way: DirectedModel, read: _EncodedPair) -> Score:
    model, written = way.model, way.written(read.target_ids)
    maps = await model.attention.read(read.source_ids, written)
    pieces = model.tokenizers.target.pieces((*written, model.manifest.special_ids.eos))
    # What a decoder is fed before it may choose is free, as in a search.
    free = len(way.direction.target_prefix)
    log_probs = [0.0] * free + maps.log_probs_T[free:].tolist()
    return Score(tuple(map(ScoredToken, pieces, log_probs)))


def _leg_view(way: DirectedModel, leg: Leg) -> LegView:
    manifest, tokenizers = way.model.manifest, way.model.tokenizers
    dimensions, eos = manifest.dimensions, manifest.special_ids.eos
    sentences = tuple(
        SentenceView(
            sentence,
            tokenizers.source.pieces(sentence.source_ids),
            tokenizers.target.pieces((*way.written(sentence.target_ids), eos)),
        )
        for sentence in leg.sentences
    )
    return LegView(
        leg, dimensions.encoder_layers, dimensions.decoder_layers, dimensions.heads, sentences
    )


def _index(what: str, number: int, count: int) -> int:
    if number < count:
        return number
    has = f"has {count}, counted from 0" if count else "has none"
    raise InvalidOption(f"{what} {number} does not exist; this translation {has}")
