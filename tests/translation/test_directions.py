"""Models with several directions: their prefixes reach the network but no text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.bundle.manifest import Example, InvalidBundle
from service.catalogue.errors import UnsupportedPair
from service.catalogue.loaded_model import DirectedModel, LoadedModel
from service.engine.errors import SentenceTooLong
from service.inspection.attention import MapSelection, TokenPair, align, select_maps
from service.inspection.inspector import Inspector, ModelChoice, Pair, Place
from service.inspection.kept_translations import KeptTranslations
from service.inspection.translation_store import TranslationStore
from service.loading.loader import OpenedBundle, load_model
from service.observability.metrics import Metrics
from service.settings import Settings
from service.text.markup import Markup
from service.text.types import LanguagePair, Term
from service.translation.decoding import DecodingOverrides
from service.translation.local_translator import LocalTranslator
from service.translation.types import TranslateRequest
from tests.support.toy import (
    EOS,
    LOUD,
    LOUD_PIECE,
    SOFT,
    SOFT_PIECE,
    SOURCE_LENGTH,
    Both,
    ByteTokenizer,
    OneEach,
    ScriptedAttention,
    ScriptedBackend,
    directed,
    make_attention,
    make_limits,
    make_manifest,
    make_model,
    offering,
    shifting,
    translator_of,
    two_directions,
)

DE_EN, EN_DE = LanguagePair("de", "en"), LanguagePair("en", "de")
TOKENIZER = ByteTokenizer()


async def both(backend: ScriptedBackend | None = None, result_bytes: int = 0) -> LoadedModel:
    backend = backend or ScriptedBackend(directed, make_limits())
    return await make_model(two_directions(), backend, result_bytes=result_bytes)


@asynccontextmanager
async def translating(*models: LoadedModel) -> AsyncIterator[LocalTranslator]:
    async with offering(*models) as repository:
        yield translator_of(repository)


def request(text: str, pair: LanguagePair, **more: object) -> TranslateRequest:
    return replace(TranslateRequest((text,), pair.target, pair.source), **more)  # type: ignore[arg-type]


async def one(translator: LocalTranslator, text: str, pair: LanguagePair, **more: object) -> str:
    (translation,) = await translator.translate(request(text, pair, **more))
    return translation.text


# --- translating


async def test_directions_share_batches_and_cache_and_never_mix() -> None:
    backend = ScriptedBackend(directed, make_limits())
    texts = [f"Satz Nummer {n}" for n in range(6)]
    async with translating(await both(backend, result_bytes=1 << 20)) as translator:
        for _ in range(2):
            loud, soft = await asyncio.gather(
                asyncio.gather(*(one(translator, text, DE_EN) for text in texts)),
                asyncio.gather(*(one(translator, text, EN_DE) for text in texts)),
            )
            assert loud == [text.upper() for text in texts]
            assert soft == [text.lower() for text in texts]
    assert max(backend.encode_sizes) > len(texts), "both directions entered the batch together"
    assert sum(backend.encode_sizes) == 2 * len(texts), "the second time came from memory"


async def test_token_counts_exclude_prefixes() -> None:
    async with translating(await both()) as translator:
        for pair in (DE_EN, EN_DE):
            (translation,) = await translator.translate(request("Abc", pair))
            assert (translation.source_tokens, translation.target_tokens) == (3, 3)
            assert translation.pair == translation.legs[0].pair == pair


async def test_target_prefix_of_a_request_follows_that_of_the_direction() -> None:
    async with translating(await both()) as translator:
        forced = DecodingOverrides(target_prefix="NO")
        assert await one(translator, "ABC", EN_DE, decoding=forced) == "NOc"
        favoured = DecodingOverrides(target_prefix="AB", prefix_bias_beta=0.99)
        assert await one(translator, "ABC", EN_DE, decoding=favoured) == "ABc"


async def test_requested_lengths_do_not_count_prefixes() -> None:
    async with translating(await both()) as translator:
        for pair, text in ((DE_EN, "ABC"), (EN_DE, "abc")):
            cut = DecodingOverrides(max_decoding_length=3)
            (translation,) = await translator.translate(request("Abcde", pair, decoding=cut))
            assert (translation.text, translation.truncated) == (text, True)


async def test_prefixes_count_towards_the_source_length_limit() -> None:
    async with translating(await both()) as translator:
        longest = "a" * (SOURCE_LENGTH - 2)
        assert await one(translator, longest, DE_EN) == longest.upper()
        with pytest.raises(SentenceTooLong):
            await one(translator, longest + "a", DE_EN)


async def test_tags_and_terms_are_placed_in_a_direction_with_prefixes() -> None:
    async with translating(await both()) as translator:
        html = Markup("html")
        assert await one(translator, "Ja <b>Nein</b> So", EN_DE, markup=html) == (
            "ja <b>nein</b> so"
        )
        terms = (Term("Nein", "doch"),)
        assert await one(translator, "Ja Nein So", EN_DE, terms=terms) == "ja doch so"


@pytest.mark.parametrize("prefix", ["", "NO"])
async def test_search_of_a_direction_with_prefixes_finds_the_translation_again(
    prefix: str,
) -> None:
    async with offering(await both()) as repository:
        store = TranslationStore(1)
        decoding = DecodingOverrides(target_prefix=prefix)
        asked = request("Ja Nein So", EN_DE, decoding=decoding)
        (translation,) = await translator_of(repository).translate(asked)
        search = await Inspector(repository, KeptTranslations(store)).search(
            Place(store.put([translation]))
        )
    assert search.reproduced
    path, winner = [], search.winner
    every = [each for step in search.tree.steps for each in step]
    while winner:
        path.insert(0, every[winner - 1])
        winner = path[0].parent
    written = [search.pieces[each.token] for each in path]
    assert written == [SOFT_PIECE, *translation.text, "</s>"]
    # Forced tokens add nothing to the sum.
    forced = [each.log_probability for each in path].count(0)
    assert forced == 1 + len(prefix)


async def test_one_model_serves_both_legs_of_a_pivot() -> None:
    manifest = two_directions()
    there, back = manifest.directions
    directions = (there, back.model_copy(update={"target": "fr"}))
    backend = ScriptedBackend(directed, make_limits())
    model = await make_model(manifest.model_copy(update={"directions": directions}), backend)
    async with translating(model) as translator:
        pair = LanguagePair("de", "fr")
        (translation,) = await translator.translate(request("Ja", pair))
        assert translation.text == "ja"
        assert [leg.pair for leg in translation.legs] == [DE_EN, LanguagePair("en", "fr")]
    assert model.leases == 0


async def test_unsupported_direction_is_refused_with_the_supported_ones() -> None:
    french = await make_model(make_manifest("french", "fr", "en"))
    async with translating(await both(), french) as translator:
        with pytest.raises(UnsupportedPair, match=r"on offer with both: de-en, en-de$"):
            await one(translator, "Oui", LanguagePair("fr", "en"), model="both")
        assert await one(translator, "Oui", LanguagePair("fr", "en")) == "OUI"


async def test_each_side_has_its_own_tokenizer() -> None:
    backend = ScriptedBackend(shifting, make_limits())
    model = await make_model(make_manifest("a", "de", "en"), backend)
    model.tokenizers = OneEach()
    async with translating(model) as translator:
        assert await one(translator, "ja", DE_EN) == "JA"
        prefix = DecodingOverrides(target_prefix="so")
        assert await one(translator, "abc", DE_EN, decoding=prefix) == "soC"
        marked = await one(translator, "ja <b>das</b>", DE_EN, markup=Markup("html"))
        assert marked == "JA <b>DAS</b>"
        (directed,) = model.directed
        tokens = TokenPair(directed, directed.source_ids("ab"), OneEach().target.encode("AB"))
        maps = await select_maps(tokens, MapSelection())
        assert (maps.rows, maps.columns) == (("A", "B", "</s>"), ("a", "b", "</s>"))
        assert (await align(tokens, "ab", "AB")).weights_TS.shape == (1, 1)


# --- inspection


@pytest.fixture
async def soft() -> AsyncIterator[DirectedModel]:
    model = await both()
    yield model.directed[1]
    await model.close()


def tokens_of(soft: DirectedModel, source: str, target: str) -> TokenPair:
    return TokenPair(soft, (SOFT, *TOKENIZER.encode(source), EOS), TOKENIZER.encode(target))


async def test_maps_show_prefixes_by_their_pieces(soft: DirectedModel) -> None:
    cross = await select_maps(tokens_of(soft, "AB", "ab"), MapSelection())
    assert cross.columns == (SOFT_PIECE, "A", "B", "</s>")
    assert cross.rows == (SOFT_PIECE, "a", "b", "</s>")
    assert cross.weights_LHRC.shape == (1, 1, 4, 4)
    decoder = await select_maps(tokens_of(soft, "AB", "ab"), MapSelection("decoder"))
    assert decoder.rows == ("<s>", SOFT_PIECE, "a", "b")


async def test_prefixes_are_not_aligned(soft: DirectedModel) -> None:
    source, target = "JA DAS SO", "ja das so"
    alignment = await align(tokens_of(soft, source, target), source, target)
    assert [(link.source, link.target) for link in alignment.links()] == [(0, 0), (1, 1), (2, 2)]
    np.testing.assert_allclose(alignment.weights_TS.sum(1), 1, atol=1e-6)


async def test_score_of_a_translation_equals_that_of_the_search() -> None:
    async with offering(await both()) as repository:
        translator = translator_of(repository)
        store = TranslationStore(1)
        inspector = Inspector(repository, KeptTranslations(store))
        for pair, piece in ((DE_EN, LOUD_PIECE), (EN_DE, SOFT_PIECE)):
            (translation,) = await translator.translate(request("Abc", pair))
            kept = store.put([translation])
            ((leg,),) = [view.legs for view in await inspector.texts(kept)]
            assert leg.sentences[0].source_pieces == (piece, "A", "b", "c", "</s>")
            choice = ModelChoice(pair.source, pair.target)
            (score,) = await inspector.scores([Pair("Abc", translation.text)], choice)
            assert score.score == pytest.approx(translation.scores[0], abs=1e-5)
            pieces = [token.piece for token in score.tokens]
            forced = [SOFT_PIECE] if pair == EN_DE else []
            assert pieces == [*forced, *translation.text, "</s>"]
            assert tuple(pieces) == leg.sentences[0].target_pieces


# --- loading


class Opened:
    def __init__(self, *examples: Example) -> None:
        self.manifest = two_directions().model_copy(update={"examples": examples})
        self.backend = ScriptedBackend(directed, make_limits())
        self.attention: ScriptedAttention = make_attention(self.manifest)

    def __call__(self, path: Path, settings: Settings) -> OpenedBundle:
        both = Both(TOKENIZER)
        return OpenedBundle(self.manifest, "int8", both, {"cpu": self.backend}, self.attention)


def example(direction: int, tag: int, source: str, target: str) -> Example:
    return Example(
        source=source,
        target=target,
        source_ids=(tag, *TOKENIZER.encode(source), EOS),
        target_ids={"int8": TOKENIZER.encode(target)},
        direction=direction,
    )


async def test_each_example_is_verified_in_its_direction() -> None:
    opened = Opened(example(0, LOUD, "Ab", "AB"), example(1, SOFT, "Ab", "ab"))
    model = await load_model(Path("both"), Settings(), Metrics().observer, open_bundle=opened)
    await model.close()


async def test_example_with_the_prefix_of_another_direction_is_refused() -> None:
    opened = Opened(example(0, SOFT, "Ab", "ab"))
    with pytest.raises(InvalidBundle, match="does not read its example 'Ab' as it should"):
        await load_model(Path("both"), Settings(), Metrics().observer, open_bundle=opened)
