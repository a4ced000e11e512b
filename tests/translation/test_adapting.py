"""Adaptation of a unit of a memory to a similar sentence."""

from __future__ import annotations

import numpy as np
import pytest

from service.text.alignment import Alignment
from service.text.memory.adapting import AlignedTexts, adapted
from service.text.words import words


def in_order(source: str, target: str) -> AlignedTexts:
    """Texts in which the first word translates the first one, and so on."""
    spans = words(source), words(target)
    weights_TS = np.eye(len(spans[1]), len(spans[0]), dtype=np.float32)
    return AlignedTexts(source, target, Alignment(*spans, weights_TS))


@pytest.mark.parametrize(
    ("unit", "sentence", "expected"),
    [
        (
            ("der Hund bellt.", "my dog barks."),
            ("der Wolf bellt.", "a wolf barks."),
            "my wolf barks.",
        ),
        (("der alte Hund", "my old dog"), ("der Hund", "a dog"), "my dog"),
        (("der Hund", "my dog"), ("der alte Hund", "an old dog"), "my old dog"),
        # The first word of the other sentence would have to change.
        (("Alte Hunde bellen.", "Old dogs bark."), ("Hunde bellen.", "Dogs bark."), None),
        (("Hunde bellen.", "Dogs bark."), ("Alte Hunde bellen.", "Old dogs bark."), None),
        # Marks belong to their neighbours.
        (("Hunde bellen", "Dogs bark"), ("Hunde bellen!", "Dogs bark!"), None),
        (("Er bellt, ja.", "He barks, yes."), ("Er bellt.", "He barks."), None),
        (("Er (alt) bellt.", "He (old) barks."), ("Er bellt.", "He barks."), None),
    ],
)
def test_words_that_differ_are_exchanged_if_their_neighbours_can_stay(
    unit: tuple[str, str], sentence: tuple[str, str], expected: str | None
) -> None:
    assert adapted(in_order(*unit), in_order(*sentence)) == expected
