from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.faithfulness import added_full_stop


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Ein Hund", "A dog.", "A dog"),
        ("Ein Hund", "一只狗。", "一只狗"),
        ('"Ein Hund"', '"A dog."', '"A dog"'),
        ("„Ein Hund“", "“A dog.”", "“A dog”"),
        ("Ein Hund,", "A dog.", "A dog"),
        ("Kapitel 3", "Chapter 3.", "Chapter 3"),
        ("Liste von example.com", "List of example.com.", "List of example.com"),
    ],
)
def test_full_stop_that_fragment_lacks_is_found(source: str, target: str, expected: str) -> None:
    place = added_full_stop(source, target)
    assert place is not None
    assert target[:place] + target[place + 1 :] == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Ein Hund.", "A dog."),
        ("Ein Hund!", "A dog."),
        ("Ein Hund?", "A dog."),
        ("Ein Hund …", "A dog."),
        ("Ein Hund:", "A dog."),
        ("Ein Hund;", "A dog."),
        ("(Ein Hund.)", "(A dog.)"),
        ("„Ein Hund!“", "“A dog.”"),
        ("一只狗。", "A dog."),
        ("Ein Hund", "A dog"),
        ("Ein Hund", "A dog!"),
        ("Ein Hund", "A dog..."),
        ("Amerika", "The U.S."),
        ("um acht", "at 8 p.m."),
        ("the third", "der 3."),
        ("Hm", "."),
        ("Hm", ""),
        ("", "."),
    ],
)
def test_other_end_of_translation_is_left_alone(source: str, target: str) -> None:
    assert added_full_stop(source, target) is None


@given(st.text(max_size=20), st.text(max_size=20))
def test_place_is_that_of_a_full_stop(source: str, target: str) -> None:
    place = added_full_stop(source, target)
    assert place is None or target[place] in ".\u3002\uff61\uff0e"
