from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from service.catalogue.errors import UnknownModel, UnsupportedPair
from service.catalogue.repository import ModelRepository
from service.engine.errors import SentenceTooLong
from service.engine.types import DecodingOptions, FinishReason
from service.inspection.attention import MapSelection
from service.inspection.inspector import Inspector, ModelChoice, ModelGone, Pair, Place
from service.inspection.kept_translations import KeptTranslations
from service.inspection.scoring import Score, ScoredToken
from service.inspection.translation_store import TranslationStore, UnknownTranslation
from service.loading.discovery import discover
from service.text.types import LanguagePair
from service.translation.errors import InvalidOption, InvalidText, Overloaded
from service.translation.types import Leg, TranslatedSentence, Translation
from tests.support.toy import BOS, EOS, ByteTokenizer, load_found, log_softmax, put_bundle, shouting
from tests.support.waiting import cancelled, until

TOKENIZER = ByteTokenizer()
DE_EN = LanguagePair("de", "en")
CHOICE = ModelChoice("de", "en")


@pytest.fixture
async def repository(tmp_path: Path) -> AsyncIterator[ModelRepository]:
    put_bundle(tmp_path, "a", "de", "en")
    put_bundle(tmp_path, "b", "fr", "de")
    repository = ModelRepository(lambda: discover(tmp_path), load_found)
    await repository.reload()
    yield repository
    await repository.close()


@pytest.fixture
def store() -> TranslationStore:
    return TranslationStore(1)


@pytest.fixture
def inspector(repository: ModelRepository, store: TranslationStore) -> Inspector:
    return Inspector(repository, KeptTranslations(store), most=4)


def translated(*sources: str, version: str = "1", model: str = "a") -> Translation:
    sentences = tuple(
        TranslatedSentence(
            source,
            source.upper(),
            (*TOKENIZER.encode(source), EOS),
            TOKENIZER.encode(source.upper()),
            (source.upper(),),
            (-0.05,),
            FinishReason.COMPLETE,
            DecodingOptions(beam_size=2, min_decoding_length=0),
        )
        for source in sources
    )
    separators = ("", *[" "] * (len(sources) - 1), "")
    return Translation(DE_EN, (Leg(model, version, DE_EN, separators, sentences, 3),))


async def test_stored_translation_has_maps_and_alignment(
    inspector: Inspector, store: TranslationStore
) -> None:
    kept = store.put([translated("ja"), translated("eins", "zwei drei")])
    (first, second) = await inspector.texts(kept)
    assert first.translation.text == "JA"
    (leg,) = second.legs
    assert (leg.encoder_layers, leg.decoder_layers, leg.heads) == (1, 1, 2)
    assert leg.sentences[0].source_pieces == ("e", "i", "n", "s", "</s>")
    assert leg.sentences[1].target_pieces[-2:] == ("I", "</s>")
    maps = await inspector.attention(Place(kept, 1, 0, 1), MapSelection())
    assert maps.rows == leg.sentences[1].target_pieces
    search = await inspector.search(Place(kept, 1, 0, 1))
    assert (search.source_pieces, search.reproduced) == ((*"zwei drei", "</s>"), True)
    aligned = await inspector.alignment(Place(kept, 1, 0, 1))
    assert aligned.pair == Pair("zwei drei", "ZWEI DREI")
    assert [(link.source, link.target) for link in aligned.alignment.links()] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (Place("", 2), "text 2 does not exist; this translation has 2, counted from 0"),
        (Place("", 0, 1), "leg 1 does not exist; this translation has 1"),
        (Place("", 0, 0, 7), "sentence 7 does not exist; this translation has 1"),
        (Place("", 1), "leg 0 does not exist; this translation has none"),
    ],
)
async def test_nonexistent_place_is_refused_with_the_counts(
    inspector: Inspector, store: TranslationStore, place: Place, problem: str
) -> None:
    kept = store.put([translated("ja"), Translation(LanguagePair("en", "en"), unchanged="x")])
    place = Place(kept, place.text, place.leg, place.sentence)
    with pytest.raises(InvalidOption, match=problem):
        await inspector.attention(place, MapSelection())
    with pytest.raises(InvalidOption, match=problem):
        await inspector.alignment(place)
    with pytest.raises(InvalidOption, match=problem):
        await inspector.search(place)


async def test_unknown_translation_id_raises_unknown_translation(inspector: Inspector) -> None:
    for looking in (
        inspector.texts("x"),
        inspector.alignment(Place("x")),
        inspector.search(Place("x")),
    ):
        with pytest.raises(UnknownTranslation):
            await looking


@pytest.mark.parametrize("gone", [{"version": "0"}, {"model": "c"}, {"model": "b"}])
async def test_other_model_or_version_raises_model_gone(
    inspector: Inspector, store: TranslationStore, gone: dict[str, str]
) -> None:
    kept = store.put([translated("ja", **gone)])
    for looking in (
        inspector.texts(kept),
        inspector.attention(Place(kept), MapSelection()),
        inspector.alignment(Place(kept)),
        inspector.search(Place(kept)),
    ):
        with pytest.raises(ModelGone, match="no longer on offer: translate again"):
            await looking


async def test_search_that_finds_another_translation_says_so(
    inspector: Inspector, store: TranslationStore
) -> None:
    kept = translated("ja")
    (leg,) = kept.legs
    other = replace(leg.sentences[0], target_ids=TOKENIZER.encode("NEIN"))
    kept = replace(kept, legs=(replace(leg, sentences=(other,)),))
    search = await inspector.search(Place(store.put([kept])))
    assert not search.reproduced
    best = search.tree.steps[-1][0]
    assert search.winner == best.id
    assert TOKENIZER.decode(search.tree.token_ids(best)) == "JA"


async def test_cancelled_search_leaves_the_engine(
    inspector: Inspector, store: TranslationStore, repository: ModelRepository
) -> None:
    kept = store.put([translated("ja")])
    async with repository.lease(DE_EN) as (directed,):
        (engine,) = directed.model.engine._general
        searching = asyncio.create_task(inspector.search(Place(kept)))
        await until(lambda: engine.load, 0)
        await cancelled(searching)
        assert engine.load == 0


async def test_any_pair_of_texts_has_maps_and_alignment(inspector: Inspector) -> None:
    pair = Pair("ja. nein.", "NO")
    maps = await inspector.attention_of(
        pair, ModelChoice("DE", "eng", "a"), MapSelection("cross", head="0-1")
    )
    assert maps.columns == (*"ja. nein.", "</s>")
    assert maps.heads == (0, 1)
    aligned = await inspector.alignment_of(pair, CHOICE)
    assert aligned.alignment.weights_TS.shape == (1, 4)


async def test_the_score_is_the_log_probability_of_every_token(inspector: Inspector) -> None:
    (score,) = await inspector.scores([Pair("ab", "Ab")], CHOICE)
    source_ids = (*TOKENIZER.encode("ab"), EOS)
    target_ids = (*TOKENIZER.encode("Ab"), EOS)
    expected = [
        float(log_softmax(shouting(source_ids, (BOS, *target_ids[:t])))[token])
        for t, token in enumerate(target_ids)
    ]
    assert [token.log_prob for token in score.tokens] == pytest.approx(expected)
    assert [token.piece for token in score.tokens] == ["A", "b", "</s>"]
    assert score.log_prob == pytest.approx(sum(expected))
    assert score.score == pytest.approx(sum(expected) / 3)
    assert score.perplexity == pytest.approx(math.exp(-sum(expected) / 3))


async def test_confidence_of_a_word_is_the_product_of_its_tokens(inspector: Inspector) -> None:
    (score,) = await inspector.scores([Pair("ab cd.", "Ab CD.")], CHOICE, confidence=True)
    assert score.confidence is not None
    found = score.confidence.words
    assert [(word.text, word.start, word.end) for word in found] == [
        ("Ab", 0, 2),
        ("CD", 3, 5),
        (".", 5, 6),
    ]
    # The tokens are characters; a blank belongs to the word after it.
    of_tokens = [math.exp(token.log_prob) for token in score.tokens]
    expected = [math.prod(of_tokens[start:end]) for start, end in ((0, 2), (2, 5), (5, 6))]
    assert [word.probability for word in found] == pytest.approx(expected)
    source_ids = (*TOKENIZER.encode("ab cd."), EOS)
    for word, first in zip(found, (0, 2, 5), strict=True):
        fed = (BOS, *TOKENIZER.encode("Ab CD.")[:first])
        log_probs_V = log_softmax(shouting(source_ids, fed)).astype(np.float64)
        assert word.entropy == pytest.approx(-(np.exp(log_probs_V) * log_probs_V).sum(), rel=1e-4)
    assert score.confidence.mean == pytest.approx(math.prod(expected) ** (1 / 3))
    assert score.confidence.lowest == pytest.approx(min(expected))


async def test_confidence_without_words_has_no_summary(inspector: Inspector) -> None:
    (score,) = await inspector.scores([Pair("ab", "")], CHOICE, confidence=True)
    assert score.confidence is not None
    assert (score.confidence.words, score.confidence.mean, score.confidence.lowest) == (
        (),
        None,
        None,
    )


async def test_empty_target_has_the_score_of_eos(inspector: Inspector) -> None:
    (score,) = await inspector.scores([Pair("ab", "")], CHOICE)
    assert [token.piece for token in score.tokens] == ["</s>"]


def test_perplexity_of_an_improbable_target_is_finite() -> None:
    assert math.isfinite(Score((ScoredToken("x", -1e6),)).perplexity)


async def test_too_long_or_invalid_text_is_refused(
    inspector: Inspector, repository: ModelRepository
) -> None:
    with pytest.raises(SentenceTooLong):
        await inspector.scores([Pair("a", "A"), Pair("a" * 70, "A")], CHOICE)
    with pytest.raises(InvalidText, match="text 1"):
        await inspector.scores([Pair("\ud800", "A"), Pair("a", "A")], CHOICE)
    with pytest.raises(InvalidText, match="text 2"):
        await inspector.scores([Pair("a", "A"), Pair("a", "\ud800")], CHOICE)


async def test_pair_without_a_direct_model_raises_unsupported_pair(inspector: Inspector) -> None:
    with pytest.raises(UnsupportedPair, match=r"on offer: German \(de\)"):
        await inspector.alignment_of(Pair("a", "b"), ModelChoice("fr", "en"))
    with pytest.raises(UnsupportedPair):
        await inspector.alignment_of(Pair("a", "b"), ModelChoice("de", "de"))
    with pytest.raises(UnknownModel):
        await inspector.alignment_of(Pair("a", "b"), ModelChoice("de", "en", "missing"))


async def test_one_caller_does_not_exhaust_the_limit_for_another(
    repository: ModelRepository, store: TranslationStore
) -> None:
    inspector = Inspector(repository, KeptTranslations(store), most=16)
    pairs = [Pair("a", "A")] * 3
    asked = [inspector.scores(pairs, CHOICE, "a") for _ in range(17)]
    asked.append(inspector.scores(pairs, CHOICE, "b"))
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(outcome, Overloaded) for outcome in outcomes] == [
        *([False] * 16),
        True,
        False,
    ]


async def test_requests_beyond_the_limit_raise_overloaded_and_release_their_place(
    inspector: Inspector,
) -> None:
    pairs = [Pair("a", "A")] * 3
    outcomes = await asyncio.gather(
        *(inspector.scores(pairs, CHOICE) for _ in range(6)), return_exceptions=True
    )
    assert [isinstance(outcome, Overloaded) for outcome in outcomes] == [False] * 4 + [True] * 2
    with pytest.raises(SentenceTooLong):
        await inspector.scores([Pair("a" * 70, "A")], CHOICE)
    outcomes = await asyncio.gather(*(inspector.scores(pairs, CHOICE) for _ in range(4)))
    assert [len(scores) for scores in outcomes] == [3] * 4
