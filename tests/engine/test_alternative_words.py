"""Compares the search for alternative words with enumeration of all words of a toy vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.types import DecodingOptions, WordPieces
from service.runtime.backend import Limits
from tests.engine.batch_runner import decode_together
from tests.engine.toy import BOS, EOS, SPECIAL_IDS, VOCABULARY, random_model

LIMITS = Limits(slots=3, rows_per_slot=12, source_length=8, target_length=16)
STARTS = frozenset({3, 4, 5, EOS})
CLOSES = frozenset({5})
PIECES = WordPieces(STARTS, CLOSES)
NEVER = {SPECIAL_IDS.pad, BOS}
SOURCES = st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=8).map(tuple)
PREFIXES = st.lists(st.integers(3, VOCABULARY - 1), max_size=3).map(tuple)


def asked(prefix: tuple[int, ...], limit: int, **others: float) -> DecodingOptions:
    return DecodingOptions(
        beam_size=LIMITS.rows_per_slot,
        num_hypotheses=limit,
        length_penalty=0.0,
        target_prefix=prefix,
        min_decoding_length=0,
        max_decoding_length=10,
        alternative_words=PIECES,
        **others,
    )


def log_probs(source: tuple[int, ...], written: tuple[int, ...]) -> dict[int, float]:
    values = random_model(source, (BOS, *written)).astype(np.float64)
    values -= np.logaddexp.reduce(values)
    return {token: value for token, value in enumerate(values.tolist()) if token not in NEVER}


def words_of(
    source: tuple[int, ...], prefix: tuple[int, ...], least: float
) -> Iterator[tuple[tuple[int, ...], float]]:
    """All words above a log-probability, each with its log-probability."""
    begun = log_probs(source, prefix)
    goes_on = bool(prefix) and prefix[-1] not in CLOSES
    first = (STARTS if goes_on else set(begun)) - {EOS}
    open_words = [((t,), begun[t]) for t in first if begun[t] >= least]
    while open_words:
        word, total = open_words.pop()
        following = log_probs(source, (*prefix, *word))
        if word[-1] in CLOSES:
            yield word, total
            continue
        ending = float(np.logaddexp.reduce([following[t] for t in STARTS]))
        if total + ending >= least:
            yield word, total + ending
        for token, value in following.items():
            if token not in STARTS and total + value >= least:
                open_words.append(((*word, token), total + value))


@given(SOURCES, PREFIXES)
def test_words_are_those_of_an_enumeration(
    source: tuple[int, ...], prefix: tuple[int, ...]
) -> None:
    least = 0.05
    (found,) = decode_together(
        [(source, asked(prefix, 12, min_alternative_expansion_prob=least))], LIMITS
    )
    expected = {
        word: total
        for word, total in words_of(source, prefix, math.log(least))
        if len(prefix) + len(word) < 10
    }
    if not expected:
        return
    got = {}
    for hypothesis in found.hypotheses:
        assert hypothesis.token_ids[: len(prefix)] == prefix
        written = hypothesis.token_ids[len(prefix) :]
        (word,) = [
            each
            for each in expected
            if written[: len(each)] == each
            and (
                written[len(each) : len(each) + 1] == ()
                or each[-1] in CLOSES
                or written[len(each)] in STARTS
            )
        ]
        got[word] = hypothesis.score
    assert got == pytest.approx(expected, abs=1e-4)
    assert [h.score for h in found.hypotheses] == sorted(got.values(), reverse=True)


@settings(max_examples=40)
@given(st.lists(st.tuples(SOURCES, PREFIXES, st.integers(1, 12)), min_size=2, max_size=4))
def test_words_are_the_same_alone_and_in_a_batch(
    drawn: list[tuple[tuple[int, ...], tuple[int, ...], int]],
) -> None:
    requests = [(source, asked(prefix, limit)) for source, prefix, limit in drawn]
    assert decode_together(requests, LIMITS) == [
        decode_together([request], LIMITS)[0] for request in requests
    ]


@given(SOURCES, PREFIXES)
def test_each_word_is_continued_greedily(source: tuple[int, ...], prefix: tuple[int, ...]) -> None:
    (found,) = decode_together([(source, asked(prefix, 5))], LIMITS)
    for hypothesis in found.hypotheses:
        written = hypothesis.token_ids
        starts = [i for i in range(len(prefix) + 1, len(written)) if written[i] in STARTS]
        for at in range(starts[0] + 1 if starts else len(written), len(written)):
            following = log_probs(source, written[:at])
            assert written[at] == max(following, key=lambda token: following[token])


def test_without_a_likely_word_the_prefix_is_the_only_hypothesis() -> None:
    (found,) = decode_together([((3,), asked((4,), 3, min_alternative_expansion_prob=1.0))], LIMITS)
    assert [hypothesis.token_ids for hypothesis in found.hypotheses] == [(4,)]


@pytest.mark.parametrize(
    "others",
    [{"length_penalty": 1.0}, {"coverage_penalty": 0.5}, {"min_alternative_expansion_prob": 2.0}],
)
def test_contradicting_options_are_refused(others: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(others))):
        DecodingOptions(**{"length_penalty": 0.0, "alternative_words": PIECES, **others})
