"""Attention, word alignment, searches and scores of stored translations and of pairs of texts.

Each call leases one model, which stays loaded until the call ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from service.catalogue.errors import UnknownModel, UnsupportedPair
from service.catalogue.loaded_model import DirectedModel
from service.catalogue.permission import Permission
from service.catalogue.repository import ModelRepository
from service.inspection.attention import (
    Maps,
    MapSelection,
    TokenPair,
    align,
    select_maps,
    select_maps_and_align,
)
from service.inspection.kept_translations import KeptTranslations
from service.inspection.recorded_search import RecordedSearch, record_search
from service.inspection.scoring import Score, score
from service.text.alignment import Alignment
from service.text.errors import TranslationError
from service.text.text_edits import edited
from service.text.types import LanguagePair
from service.translation.admission import Admission
from service.translation.errors import InvalidOption
from service.translation.forced_pass import written_ids
from service.translation.request_reader import require_unicode
from service.translation.types import Leg, TranslatedSentence, Translation


class ModelGone(TranslationError):
    """The model that made a translation is not on offer, so its attention is not available."""

    def __init__(self, model: str, version: str) -> None:
        super().__init__(
            f"version {version} of the model {model}, which made this translation, is no longer on "
            "offer: translate again"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Address of a sentence in a stored translation; numbers count from 0."""

    translation: str
    text: int = 0
    leg: int = 0
    sentence: int = 0
    scope: str = ""
    """The scope in which the translation is stored."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and a target text, each read as one sentence."""

    source_text: str
    target_text: str


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Requested languages in any spelling, and model name; ``None`` takes any model."""

    source: str
    target: str
    model: str | None = None
    permission: Permission | None = None
    """The languages and models that the caller may use; ``None`` is all."""


@dataclass(frozen=True, slots=True)
class AlignedPair:
    pair: Pair
    alignment: Alignment


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
    """A stored translation of one text, and the sentences and layers that have attention maps."""

    translation: Translation
    legs: tuple[LegView, ...]


class Inspector:
    """Serves up to ``most`` requests at a time; refuses more with ``Overloaded``.

    Requests count in ``Admission`` as tokens do, so that one caller cannot fill it for all. A
    request queues one sentence at a time, so that large requests do not block small ones.
    ``caller`` is whose turns are used; an unknown caller is empty.
    """

    def __init__(
        self, repository: ModelRepository, store: KeptTranslations, *, most: int = 64
    ) -> None:
        self._repository = repository
        self._store = store
        self._admission = Admission(most)

    async def texts(self, translation: str, scope: str = "") -> tuple[TextView, ...]:
        """The parts of a stored translation; raises ``UnknownTranslation`` or ``ModelGone``."""
        texts = await self._store.get(translation, scope)
        directed: dict[tuple[LanguagePair, str, str], DirectedModel] = {}
        async with AsyncExitStack() as leases:
            for leg in (leg for text in texts for leg in text.legs):
                if _model_of(leg) not in directed:
                    lease = self._leased_for(leg)
                    directed[_model_of(leg)] = await leases.enter_async_context(lease)
            return await asyncio.to_thread(_views, texts, directed)

    async def attention(self, place: Place, selection: MapSelection, caller: str = "") -> Maps:
        """Maps of a stored sentence; raises the errors of ``select_maps`` and ``texts``."""
        async with self._kept(place, caller) as (_, tokens):
            return await select_maps(tokens, selection)

    async def alignment(self, place: Place, caller: str = "") -> AlignedPair:
        """Alignment of a stored sentence; raises the errors of ``align`` and ``texts``."""
        async with self._kept(place, caller) as (sentence, tokens):
            decoded = tokens.directed.model.tokenizers.target.decode(sentence.target_ids)
            alignment = await align(tokens, sentence.source, decoded)
        changed = edited(decoded, alignment, sentence.edits)
        return AlignedPair(Pair(sentence.source, changed.text), changed.alignment)

    async def search(self, place: Place, caller: str = "") -> RecordedSearch:
        """The search of a stored sentence; raises the errors of ``record_search`` and ``texts``."""
        async with self._kept(place, caller) as (sentence, tokens):
            return await record_search(tokens.directed, sentence, caller)

    async def attention_of(
        self, pair: Pair, choice: ModelChoice, selection: MapSelection, caller: str = ""
    ) -> Maps:
        """Maps of two texts; raises the errors of ``select_maps`` and ``ModelRepository.lease``."""
        async with self._encoded(pair, choice, caller) as tokens:
            return await select_maps(tokens, selection)

    async def attention_and_alignment_of(
        self, pair: Pair, choice: ModelChoice, selection: MapSelection, caller: str = ""
    ) -> tuple[Maps, AlignedPair]:
        """Maps and alignment, from one run of one model; raises as ``attention_of``."""
        async with self._encoded(pair, choice, caller) as tokens:
            maps, alignment = await select_maps_and_align(
                tokens, selection, pair.source_text, pair.target_text
            )
        return maps, AlignedPair(pair, alignment)

    async def alignment_of(self, pair: Pair, choice: ModelChoice, caller: str = "") -> AlignedPair:
        """Alignment of two texts; raises the errors of ``align`` and ``ModelRepository.lease``."""
        async with self._encoded(pair, choice, caller) as tokens:
            alignment = await align(tokens, pair.source_text, pair.target_text)
        return AlignedPair(pair, alignment)

    async def scores(
        self,
        pairs: Sequence[Pair],
        choice: ModelChoice,
        caller: str = "",
        *,
        confidence: bool = False,
    ) -> tuple[Score, ...]:
        """Token log-probabilities of each target given its source; raises as ``attention_of``.

        ``confidence`` adds the probabilities of the target's words.
        """
        require_unicode([pair.source_text for pair in pairs])
        require_unicode([pair.target_text for pair in pairs])
        with self._admission.admitted(1, caller):
            async with self._leased(choice) as directed:
                encoded = [await _encode(directed, pair, caller) for pair in pairs]
                return tuple(
                    [
                        await score(tokens, pair.target_text if confidence else None)
                        for tokens, pair in zip(encoded, pairs, strict=True)
                    ]
                )

    @asynccontextmanager
    async def _kept(
        self, place: Place, caller: str
    ) -> AsyncIterator[tuple[TranslatedSentence, TokenPair]]:
        """A stored sentence, with its tokens and the leased model that translated it."""
        texts = await self._store.get(place.translation, place.scope)
        text = texts[_index("text", place.text, len(texts))]
        leg = text.legs[_index("leg", place.leg, len(text.legs))]
        sentence = leg.sentences[_index("sentence", place.sentence, len(leg.sentences))]
        with self._admission.admitted(1, caller):
            async with self._leased_for(leg) as directed:
                tokens = TokenPair(directed, sentence.source_ids, sentence.target_ids, caller)
                yield sentence, tokens

    @asynccontextmanager
    async def _leased_for(self, leg: Leg) -> AsyncIterator[DirectedModel]:
        """Leases the same version of the model that translated a leg; raises ``ModelGone``."""
        try:
            lease = self._repository.lease(leg.pair, leg.model)
            async with lease as (directed, *_):
                if directed.model.manifest.version != leg.version:
                    raise ModelGone(leg.model, leg.version)
                yield directed
        except (UnknownModel, UnsupportedPair) as error:
            raise ModelGone(leg.model, leg.version) from error

    @asynccontextmanager
    async def _leased(self, choice: ModelChoice) -> AsyncIterator[DirectedModel]:
        catalogue = self._repository.catalogue
        pair = catalogue.pair(choice.source, choice.target)
        async with self._repository.lease(pair, choice.model, choice.permission) as (
            directed,
            *others,
        ):
            if others:
                # A pivot route has no attention between the two texts.
                direct = [p.target for p in catalogue.direct_pairs() if p.source == pair.source]
                raise UnsupportedPair(pair.source, pair.target, direct)
            yield directed

    @asynccontextmanager
    async def _encoded(
        self, pair: Pair, choice: ModelChoice, caller: str
    ) -> AsyncIterator[TokenPair]:
        require_unicode([pair.source_text, pair.target_text])
        with self._admission.admitted(1, caller):
            async with self._leased(choice) as directed:
                yield await _encode(directed, pair, caller)


async def _encode(directed: DirectedModel, pair: Pair, caller: str) -> TokenPair:
    """Both texts, valid Unicode, as token ids; raises ``SentenceTooLong``."""
    # A thread encodes, because a long text takes a while, and its length is known only afterwards.
    tokens = await asyncio.to_thread(
        lambda: TokenPair(
            directed,
            directed.source_ids(pair.source_text),
            directed.model.tokenizers.target.encode(pair.target_text),
            caller,
        )
    )
    directed.model.attention.check(tokens.source_ids, directed.written(tokens.target_ids))
    return tokens


def _model_of(leg: Leg) -> tuple[LanguagePair, str, str]:
    return leg.pair, leg.model, leg.version


def _views(
    texts: Sequence[Translation], directed: Mapping[tuple[LanguagePair, str, str], DirectedModel]
) -> tuple[TextView, ...]:
    return tuple(
        TextView(text, tuple(_leg_view(directed[_model_of(leg)], leg) for leg in text.legs))
        for text in texts
    )


def _leg_view(directed: DirectedModel, leg: Leg) -> LegView:
    manifest, tokenizers = directed.model.manifest, directed.model.tokenizers
    dimensions, eos = manifest.dimensions, manifest.special_ids.eos
    sentences = tuple(
        SentenceView(
            sentence,
            tokenizers.source.pieces(sentence.source_ids),
            # A translation of the network's full length has no row for its ending.
            tokenizers.target.pieces(
                (*directed.written(sentence.target_ids), eos)[
                    : len(written_ids(directed, sentence.target_ids)) + 1
                ]
            ),
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
