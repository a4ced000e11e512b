from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.evaluation.texts import BAD, BITEXT, GOOD, REFERENCES
from training.evaluation.bitext import Bitext
from training.evaluation.diagnostics import diagnose, has_loop, is_copied, repeats


def test_bad_translations_are_counted_by_defect() -> None:
    found = diagnose(BAD, BITEXT)
    counts = (found.sentences, found.empty, found.too_short, found.copied, found.loops)
    assert (*counts, found.exact, found.unknown) == (6, 1, 2, 1, 1, 1, 0)
    assert diagnose(["x" * 3 + " ⁇ "] * 6, BITEXT).unknown == 6
    assert diagnose([f"{text} {text} {text}" for text in REFERENCES], BITEXT).too_long == 6


def test_good_translations_have_no_defects() -> None:
    found = diagnose(GOOD, BITEXT)
    counts = (found.too_short, found.too_long, found.empty, found.loops, found.repetitions)
    assert (*counts, found.copied, found.unknown) == (0,) * 7
    assert found.exact == 3
    assert 0.9 < found.length_ratio <= 1.0


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("very very very good", True),
        ("very very good", False),
        ("on the beach on the beach on the beach", True),
        (". . . .", False),
        ("a , a , a ,", True),
        ("", False),
        ("one two three four five one two three four five one two three four five", False),
    ],
)
def test_loop_is_three_repetitions_in_succession(text: str, loop: bool) -> None:
    assert has_loop(text.split()) is loop


def test_loop_that_is_also_in_the_reference_is_not_counted() -> None:
    bitext = Bitext("x", "de", "en", ("ha ha ha !",), None)
    assert diagnose(["ha ha ha !"], bitext).loops == 0
    assert diagnose(["ha ha ha !"], replace(bitext, references=("ha !",))).loops == 1


def test_repetitions_and_copies() -> None:
    assert repeats([*"abcdxabcd"])
    assert not repeats([*"abcdxabc"])
    # Names that the reference keeps are not copied.
    assert not is_copied(["Tom"], ["Tom"], ["Tom"])
    assert is_copied(["Hallo"], ["Hello"], ["Hallo"])
    assert not is_copied(["."], ["x"], ["."])


def test_without_sources_copies_are_unknown_and_buckets_use_reference_lengths() -> None:
    found = diagnose(GOOD, replace(BITEXT, sources=None))
    assert found.copied is None
    assert sum(bucket.sentences for bucket in found.buckets) == 6


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.text(alphabet="ab .\u2028", max_size=60),
            st.text(alphabet="ab .", min_size=1, max_size=60).filter(str.strip),
            st.text(alphabet="ab .", max_size=60),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_every_sentence_is_in_one_bucket_and_one_bar(lines: list[tuple[str, str, str]]) -> None:
    hypotheses, references, sources = zip(*lines, strict=True)
    found = diagnose(hypotheses, Bitext("x", "de", "en", references, sources))
    assert sum(bucket.sentences for bucket in found.buckets) == len(lines)
    assert sum(bar.sentences for bar in found.ratios) == len(lines)
    for count in (found.empty, found.exact, found.loops, found.too_long, found.too_short):
        assert 0 <= count <= len(lines)
