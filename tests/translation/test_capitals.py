"""Capital letters at the beginning of fragments in documents."""

from __future__ import annotations

import numpy as np
import pytest

from service.text.capitals import begins_with_capital, lost_capital
from service.text.markup import Markup
from service.translation.types import TranslateRequest
from tests.support.toy import (
    ScriptedBackend,
    make_limits,
    make_manifest,
    make_model,
    offering,
    shouting,
    translator_of,
)


def whispering(source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
    """Lower case, then the end."""
    small = tuple(
        token + 32 if 4 + ord("A") <= token <= 4 + ord("Z") else token for token in source
    )
    log_probs = shouting(small, prefix)
    return np.where(log_probs == -3.0, np.float32(-0.01), log_probs)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Vertraulich", True),
        ("vertraulich", False),
        ('<g id="1">Vertraulich</g>', True),
        ("1. Vertraulich", True),
        ("„Offen“", True),
        ("3 Hunde", False),
        ("{n} Hunde", False),
        ("%d Hunde", False),
        ('<w id="1">XY-1</w> Hunde', False),
        ('<x id="1"/> Hunde', False),
        ("", False),
    ],
)
def test_first_word_decides_whether_a_sentence_begins_with_a_capital(
    sentence: str, expected: bool
) -> None:
    assert begins_with_capital(sentence) is expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("Vertraulich", "confidential", 0),
        ("„Offen“", "“open”", 1),
        ("Vertraulich", "Confidential", None),
        ("Das iPhone", "iPhone", None),
        ("Das Programm kubectl", "kubectl, a program", None),
        ("Abends", "'s avonds", None),
        ("Größe", "ßa", None),
        ("Offen", "開く", None),
        ("Offen", "ღია", None),
        ("Hunde", "{n} dogs", None),
        ("Offen", "", None),
    ],
)
def test_small_letter_at_the_beginning_is_found(
    source: str, target: str, expected: int | None
) -> None:
    assert lost_capital(source, target) == expected


async def test_capitals_are_kept_if_requested() -> None:
    backend = ScriptedBackend(whispering, make_limits())
    model = await make_model(make_manifest("whisper", "de", "en"), backend)
    texts = ("<p>Offen. neu. <b>Zu</b></p>", "{n} Hunde. Ende")
    async with offering(model) as repository:
        translator = translator_of(repository)
        found = {
            keep: [
                each.text
                for each in await translator.translate(
                    TranslateRequest(texts, "en", "de", markup=Markup("html"), keep_capitals=keep)
                )
            ]
            for keep in (False, True)
        }
    assert found[False] == ["<p>offen. neu. <b>zu</b></p>", "{n} hunde. ende"]
    assert found[True] == ["<p>Offen. neu. <b>Zu</b></p>", "{n} hunde. Ende"]
