from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.alignment import Alignment, Floats, Link, Side, Span, align_words, pharaoh

# "Zwei Hun|de ." and "Two dog|s ."
SOURCE = Side(((0, 4), (5, 10), (10, 11)), ((0, 4), (4, 8), (8, 10), (10, 11)))
TARGET = Side(((0, 3), (4, 8), (8, 9)), ((0, 3), (3, 7), (7, 8), (8, 9)))


def one_hot(*columns: int, of: int = 5) -> Floats:
    return np.eye(of, dtype=np.float32)[list(columns)]


def weights(side: Side, count: int) -> Floats:
    rows = np.random.default_rng(count).random((count, len(side.tokens) + 1)) + 0.01
    normalised: Floats = (rows / rows.sum(1, keepdims=True)).astype(np.float32)
    return normalised


def test_unshifted_alignment_reads_the_row_that_predicts_the_token() -> None:
    alignment = align_words(one_hot(0, 1, 2, 3, 4), SOURCE, TARGET, shifted=False)
    assert [(link.source, link.target) for link in alignment.links()] == [(0, 0), (1, 1), (2, 2)]
    np.testing.assert_array_equal(alignment.weights_TS, np.eye(3))


def test_shifted_alignment_reads_the_row_whose_input_is_the_token() -> None:
    alignment = align_words(one_hot(4, 0, 1, 2, 3), SOURCE, TARGET, shifted=True)
    np.testing.assert_array_equal(alignment.weights_TS, np.eye(3))


def test_weights_are_summed_over_source_tokens_and_averaged_over_target_tokens() -> None:
    cross = np.zeros((5, 5), np.float32)
    cross[0] = [0.5, 0.2, 0.2, 0.1, 0]
    cross[1] = [1, 0, 0, 0, 0]
    cross[2] = [0, 0, 1, 0, 0]
    cross[3] = [0.1, 0, 0, 0.1, 0.8]
    alignment = align_words(cross, SOURCE, TARGET, shifted=False)
    expected = [[0.5, 0.4, 0.1], [0.5, 0.5, 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(alignment.weights_TS, expected, atol=1e-6)


def test_blank_token_belongs_to_the_word_after_it() -> None:
    source = Side(((0, 1), (2, 3)), ((0, 1), (1, 2), (2, 3)))
    alignment = align_words(one_hot(1, 3, of=4), source, Side(((0, 1),), ((0, 1),)), shifted=False)
    np.testing.assert_array_equal(alignment.weights_TS, [[0, 1]])


def test_tokens_of_one_character_belong_to_its_word() -> None:
    """An ellipsis is three full stops to the model, of which only the last has the character."""
    source = Side(((0, 1), (1, 2)), ((0, 1), (1, 1), (1, 1), (1, 2)))
    target = Side(((0, 1),), ((0, 1),))
    for column in (1, 2, 3):
        alignment = align_words(one_hot(column, 4), source, target, shifted=False)
        np.testing.assert_array_equal(alignment.weights_TS, [[0, 1]])


def test_a_token_of_two_words_is_shared_between_them() -> None:
    source = Side(((0, 3), (3, 4)), ((0, 4),))
    target = Side(((0, 1),), ((0, 1),))
    alignment = align_words(one_hot(0, 1, of=2), source, target, shifted=False)
    np.testing.assert_allclose(alignment.weights_TS, [[0.75, 0.25]])


def test_word_without_tokens_has_zero_weights_and_no_link() -> None:
    target = Side(((0, 3), (4, 8), (9, 10)), ((0, 3), (3, 8)))
    alignment = align_words(one_hot(0, 1, 2), SOURCE, target, shifted=False)
    np.testing.assert_array_equal(alignment.weights_TS[2], 0)
    assert {link.target for link in alignment.links()} == {0, 1}


def test_map_of_wrong_shape_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"a map of \(2, 5\) does not fit 4 target and 4 source"):
        align_words(one_hot(0, 1), SOURCE, TARGET, shifted=False)


def test_a_link_is_mutual_or_has_more_than_half_of_the_attention() -> None:
    matrix = np.array([[0.4, 0.3, 0.3], [0.1, 0.45, 0.45], [0.0, 0.4, 0.6], [0.45, 0.35, 0.2]])
    spans = tuple((i, i + 1) for i in range(4))
    alignment = Alignment(spans[:3], spans, matrix.astype(np.float32))
    assert [(link.source, link.target) for link in alignment.links()] == [(0, 3), (1, 1), (2, 2)]


def test_links_in_pharaohs_notation() -> None:
    assert pharaoh([Link(0, 0, 0.9), Link(1, 2, 0.5)]) == "0-0 1-2"
    assert pharaoh([]) == ""


def test_side_without_words_has_no_links() -> None:
    assert Alignment((), ((0, 1),), np.zeros((1, 0), np.float32)).links() == ()
    assert Alignment(((0, 1),), (), np.zeros((0, 1), np.float32)).links() == ()


def side(lengths: list[int], cuts: list[int]) -> Side:
    """Words of these lengths with a blank between them, cut into tokens at any characters."""
    words: list[Span] = []
    for length in lengths:
        start = words[-1][1] + 1 if words else 0
        words.append((start, start + length))
    end = words[-1][1]
    borders = sorted({0, end, *(cut % (end + 1) for cut in cuts)})
    return Side(tuple(words), tuple(pairwise(borders)))


sides = st.builds(
    side,
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.lists(st.integers(0, 60), max_size=20),
)


@given(source=sides, target=sides, shifted=st.booleans())
def test_rows_sum_to_one_for_any_tokenisation(source: Side, target: Side, shifted: bool) -> None:
    alignment = align_words(
        weights(source, len(target.tokens) + 1), source, target, shifted=shifted
    )
    assert alignment.weights_TS.shape == (len(target.words), len(source.words))
    assert alignment.weights_TS.dtype == np.float32
    np.testing.assert_allclose(alignment.weights_TS.sum(1), 1, atol=1e-5)
    links = alignment.links()
    assert links
    assert len({link.target for link in links}) == len(links)
    assert all(0 < link.weight <= 1.0001 for link in links)
