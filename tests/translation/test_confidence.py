import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.confidence import confidence_of
from service.text.words import words


@given(st.text("aB .é-", max_size=20), st.data())
def test_words_have_the_product_of_their_tokens(text: str, data: st.DataObject) -> None:
    inner = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)))))
    cuts = [0, *(cut for cut in inner if cut < len(text)), len(text)] if text else [0]
    spans = list(pairwise(cuts))
    log_probs = data.draw(st.lists(st.floats(-9, 0), min_size=len(spans), max_size=len(spans)))
    found = confidence_of(text, spans, log_probs)
    assert [(word.start, word.end) for word in found.words] == list(words(text))
    for word in found.words:
        assert word.text == text[word.start : word.end]
        inside = [
            log_prob
            for (start, end), log_prob in zip(spans, log_probs, strict=True)
            if start < word.end and end > word.start
        ]
        # Tokens of blanks alone belong to the word after them.
        assert word.probability <= math.exp(math.fsum(inside)) * (1 + 1e-9)
    if found.words:
        assert found.lowest is not None
        assert found.mean is not None
        assert found.lowest <= found.mean * (1 + 1e-9)


def test_token_of_two_words_counts_in_both() -> None:
    found = confidence_of('a."', [(0, 1), (1, 3)], [math.log(0.5), math.log(0.25)])
    assert [word.probability for word in found.words] == pytest.approx([0.5, 0.25, 0.25])


def test_entropy_of_a_word_is_that_of_its_first_token() -> None:
    tokens = [(0, 1), (1, 2), (2, 4)], [-1.0, -2.0, -3.0]
    found = confidence_of("ab c", *tokens, [0.5, 0.25, -1e-9])
    assert [word.entropy for word in found.words] == [0.5, 0.0]
    assert [word.entropy for word in confidence_of("ab c", *tokens).words] == [None, None]


def test_word_without_tokens_is_left_out() -> None:
    found = confidence_of("a b", [(0, 1)], [math.log(0.5)])
    assert [word.text for word in found.words] == ["a"]


def test_vanishing_probability_has_a_mean_of_zero() -> None:
    assert confidence_of("a", [(0, 1)], [-1e6]).mean == 0.0
