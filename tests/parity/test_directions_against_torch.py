"""Compares a served bundle of two directions and two vocabularies with beam search in PyTorch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from models.bundle.bundle import Bundle
from models.bundle.manifest import Direction
from models.reference.beam import Searching
from models.reference.transformer import log_softmax
from service.catalogue.loaded_model import DirectedModel
from service.inspection.attention import TokenPair, align
from service.loading.loader import load_model
from service.observability.metrics import Metrics
from service.settings import Settings
from service.translation.decoding import DecodingOverrides
from service.translation.local_translator import LocalTranslator
from service.translation.types import TranslateRequest
from tests.support.networks import CONFIG, numpy_network, random_network, write_bundle
from tests.support.prefix_decoder import PrefixDecoder
from tests.support.toy import offering, translator_of

NETWORK = random_network(replace(CONFIG, source_vocabulary=40, tying="none", max_length=24), seed=3)
DIRECTIONS = (
    Direction(source="de", target="en", source_prefix=(38,)),
    Direction(source="en", target="de", source_prefix=(39,), target_prefix=(29, 28)),
    Direction(source="fr", target="en", source_eos=False),
)
BEAM = 2


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("bundles") / "both"
    return write_bundle(NETWORK, path, ("fp32",), name="both", directions=DIRECTIONS)


@pytest.fixture
async def translator(bundle: Bundle) -> AsyncIterator[LocalTranslator]:
    settings = Settings(precision="fp32", threads=1, slots=8, max_beam_size=4)

    model = await load_model(bundle.path, settings, Metrics().observer)
    async with offering(model) as repository:
        yield translator_of(repository)


async def test_confidences_equal_numpy_in_every_direction(
    bundle: Bundle, translator: LocalTranslator
) -> None:
    reference, special = numpy_network(NETWORK), bundle.manifest.special_ids
    tokenizer, words_read = bundle.tokenizers().target, 0
    for direction in DIRECTIONS:
        request = TranslateRequest(
            ("w1 w2 w3\nw4 w5",), direction.target, direction.source, confidence=True
        )
        (translation,) = await translator.translate(request)
        assert translation.confidences is not None
        sentences = translation.legs[0].sentences
        for sentence, found in zip(sentences, translation.confidences, strict=True):
            prefix = direction.target_prefix
            # The last token of a truncated translation leaves no room for bos.
            fed = (special.bos, *prefix, *sentence.target_ids)[: NETWORK.config.max_length]
            logits_TV, _ = reference.attention_maps(sentence.source_ids, fed)
            log_probs_TV = log_softmax(logits_TV)[len(prefix) :]
            # Each piece is a word; the text lacks unknown tokens.
            known = [
                (place, token)
                for place, token in enumerate(fed[1 + len(prefix) :])
                if token != special.unk
            ]
            assert [word.text for word in found.words] == [
                tokenizer.decode((token,)) for _, token in known
            ]
            for word, (place, token) in zip(found.words, known, strict=True):
                log_probs_V = log_probs_TV[place]
                assert translation.text[word.start : word.end] == word.text
                assert word.probability == pytest.approx(np.exp(log_probs_V[token]), rel=1e-3)
                entropy = -(np.exp(log_probs_V) * log_probs_V).sum()
                assert word.entropy == pytest.approx(entropy, abs=1e-4)
                words_read += 1
    assert words_read > 5


async def test_served_translations_equal_pytorch_in_every_direction(
    bundle: Bundle, translator: LocalTranslator
) -> None:
    rng = random.Random(4)
    texts = [" ".join(f"w{rng.randrange(34)}" for _ in range(rng.randint(2, 6))) for _ in range(8)]
    decoding = DecodingOverrides(beam_size=BEAM)

    async def served(direction: Direction, text: str) -> tuple[tuple[int, ...], float]:
        request = TranslateRequest((text,), direction.target, direction.source, decoding=decoding)
        (translation,) = await translator.translate(request)
        # Unknown tokens, which the random network writes, are removed from the text only.
        assert "\u2047" not in translation.text
        return translation.legs[0].sentences[0].target_ids, translation.scores[0]

    asked = [(direction, text) for text in texts for direction in DIRECTIONS]
    answers = await asyncio.gather(*(served(*each) for each in asked))
    tokenizers, special = bundle.tokenizers(), bundle.manifest.special_ids
    for (direction, text), (target_ids, score) in zip(asked, answers, strict=True):
        end = (special.eos,) if direction.source_eos else ()
        source_ids = (*direction.source_prefix, *tokenizers.source.encode(text), *end)
        searching = Searching(special, BEAM, 1.0, target_prefix=direction.target_prefix)
        best = searching.best(PrefixDecoder(NETWORK), source_ids, CONFIG.max_length)[0]
        assert target_ids == best.token_ids
        assert score == pytest.approx(best.score, abs=1e-4)
    assert len({target_ids for target_ids, _ in answers}) > len(asked) // 2, (
        "a network that tells them apart"
    )


async def test_words_are_aligned_where_no_eos_ends_the_source(bundle: Bundle) -> None:
    model = await load_model(bundle.path, Settings(precision="fp32", threads=1), Metrics().observer)
    directed = DirectedModel(model, DIRECTIONS[2])
    source, target_ids = "w5 w6 w7", (8, 9)
    tokens = TokenPair(directed, directed.source_ids(source), target_ids)
    assert directed.text_tokens(tokens.source_ids) == 3
    aligned = await align(tokens, source, model.tokenizers.target.decode(target_ids))
    await model.close()
    np.testing.assert_allclose(aligned.weights_TS.sum(axis=1), [1, 1], atol=1e-5)
    assert aligned.weights_TS.shape == (2, 3)
