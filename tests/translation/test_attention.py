from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.manifest import AlignmentSource
from service.catalogue.attention_reader import TargetTooLong
from service.catalogue.loaded_model import DirectedModel
from service.engine.errors import SentenceTooLong
from service.inspection.attention import (
    Kind,
    MapSelection,
    TokenPair,
    align,
    choose,
    numbered,
    select_maps,
)
from service.translation.errors import InvalidOption
from tests.support.toy import EOS, TARGET_LENGTH, ByteTokenizer, make_manifest, make_model

TOKENIZER = ByteTokenizer()


@pytest.fixture
async def directed() -> AsyncIterator[DirectedModel]:
    model = await make_model(make_manifest("a", "de", "en"))
    (directed,) = model.directed
    yield directed
    await model.close()


def tokens_of(directed: DirectedModel, source: str, target: str) -> TokenPair:
    return TokenPair(directed, (*TOKENIZER.encode(source), EOS), TOKENIZER.encode(target))


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        ("0", (0,)),
        ("5", (5,)),
        ("0-2", (0, 1, 2)),
        ("2,0", (0, 2)),
        ("4,0-1,1", (0, 1, 4)),
        ("all", (0, 1, 2, 3, 4, 5)),
        ("mean", "mean"),
    ],
)
def test_layers_and_heads_are_chosen_by_number_range_list_or_name(
    choice: str, chosen: object
) -> None:
    assert choose("layer", choice, 6) == chosen


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ("6", "layer 6 does not exist; this model has 6, counted from 0"),
        ("0-9999", "layer 0-9999 does not exist"),
        ("2-1", "layer 2-1 is an empty range"),
        ("-1", "layer must be a number, a range"),
        ("99999999999", "layer must be"),
        ("1,", "layer must be"),
        ("first", "layer must be"),
        ("", "layer must be"),
        ("٣", "does not exist|must be"),
    ],
)
def test_invalid_choice_is_refused_with_the_valid_ones(choice: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        choose("layer", choice, 6 if choice != "٣" else 2)


@given(st.text(alphabet="0123456789-,meanl", max_size=12), st.integers(1, 8))
def test_any_choice_selects_existing_numbers_or_raises_invalid_option(
    choice: str, count: int
) -> None:
    try:
        chosen = choose("head", choice, count)
    except InvalidOption:
        return
    assert chosen == "mean" or (chosen and set(chosen) <= set(range(count)))


async def test_maps_have_the_pieces_of_their_rows_and_columns(directed: DirectedModel) -> None:
    tokens = tokens_of(directed, "ab", "ABC")
    expected: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "cross": (("A", "B", "C", "</s>"), ("a", "b", "</s>")),
        "decoder": (("<s>", "A", "B", "C"), ("<s>", "A", "B", "C")),
        "encoder": (("a", "b", "</s>"), ("a", "b", "</s>")),
    }
    for kind, (rows, columns) in expected.items():
        maps = await select_maps(tokens, MapSelection(kind))
        assert (maps.model, maps.kind, maps.rows, maps.columns) == ("a", kind, rows, columns)
        assert maps.weights_LHRC.shape == (1, 1, len(rows), len(columns))
        assert (maps.layers, maps.heads) == ((0,), "mean")
        np.testing.assert_allclose(maps.weights_LHRC.sum(-1), 1, atol=1e-6)


async def test_mean_averages_all_layers_or_heads(directed: DirectedModel) -> None:
    tokens = tokens_of(directed, "ab", "AB")
    every = await select_maps(tokens, MapSelection(layer="all", head="all"))
    assert every.weights_LHRC.shape[:2] == (1, 2)
    for layer, head in product(("all", "mean"), repeat=2):
        maps = await select_maps(tokens, MapSelection(layer=layer, head=head))
        expected = every.weights_LHRC
        expected = expected.mean(0, keepdims=True) if layer == "mean" else expected
        expected = expected.mean(1, keepdims=True) if head == "mean" else expected
        np.testing.assert_allclose(maps.weights_LHRC, expected, atol=1e-6)
        assert len(numbered(maps.heads)) == expected.shape[1]


async def test_truncated_translation_is_read_without_its_last_token(
    directed: DirectedModel,
) -> None:
    tokens = tokens_of(directed, "ab", "X" * TARGET_LENGTH)
    maps = await select_maps(tokens, MapSelection())
    assert len(maps.rows) == TARGET_LENGTH
    alignment = await align(tokens, "ab", "X" * TARGET_LENGTH)
    assert alignment.weights_TS.shape == (1, 1)
    with pytest.raises(TargetTooLong):
        await directed.model.attention.read(tokens.source_ids, tokens.target_ids)


async def test_words_are_aligned_with_words(directed: DirectedModel) -> None:
    source, target = "ja, das", "JA, DAS"
    alignment = await align(tokens_of(directed, source, target), source, target)
    assert alignment.source_words == alignment.target_words == ((0, 2), (2, 3), (4, 7))
    assert [(link.source, link.target) for link in alignment.links()] == [(0, 0), (1, 1), (2, 2)]


async def test_manifest_sets_the_layer_and_shift_of_alignments(directed: DirectedModel) -> None:
    """The scripted model attends ahead, so the next row is aligned with the next token."""
    source, target = "a b c", "A B C"
    shifted = AlignmentSource(layer=0, shifted=True)
    directed.model.manifest = directed.model.manifest.model_copy(update={"alignment": shifted})
    alignment = await align(tokens_of(directed, source, target), source, target)
    assert alignment.weights_TS[0].argmax() == 1


async def test_letters_of_several_bytes_are_aligned_whole(directed: DirectedModel) -> None:
    source, target = "süß ist", "SÜẞ IST"
    alignment = await align(tokens_of(directed, source, target), source, target)
    words = [target[start:end] for start, end in alignment.target_words]
    assert words == ["SÜẞ", "IST"]
    assert {(link.source, link.target) for link in alignment.links()} == {(0, 0), (1, 1)}


@pytest.mark.parametrize(("source", "target"), [("", "A"), ("a", ""), ("", ""), (" ", "A")])
async def test_text_without_words_has_an_empty_alignment(
    directed: DirectedModel, source: str, target: str
) -> None:
    alignment = await align(tokens_of(directed, source, target), source, target)
    assert alignment.links() == ()
    assert alignment.weights_TS.shape == (len(target), len(source.strip()))


async def test_ids_of_another_text_raise_value_error(directed: DirectedModel) -> None:
    with pytest.raises(ValueError, match="source_ids are not the prefix"):
        await align(tokens_of(directed, "ab", "AB"), "abc", "AB")
    with pytest.raises(ValueError, match="target_ids are not the tokens of target_text"):
        await align(tokens_of(directed, "ab", "AB"), "ab", "ABC")


async def test_too_long_source_raises_sentence_too_long(directed: DirectedModel) -> None:
    with pytest.raises(SentenceTooLong):
        await select_maps(tokens_of(directed, "a" * 70, "A"), MapSelection())
