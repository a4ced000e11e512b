from __future__ import annotations

import math
import sys
import unicodedata

import pytest

from service.engine.types import Decoded, FinishReason, Hypothesis
from service.translation.figure_agreement import best_by_figures, has_figures


def chosen(source: str, *texts: str, reason: FinishReason = FinishReason.COMPLETE) -> Decoded:
    """Token ids are numbers of texts."""
    hypotheses = tuple(Hypothesis((n,), math.nan) for n in range(len(texts)))
    return best_by_figures(source, Decoded(hypotheses, reason), lambda ids: texts[ids[0]])


@pytest.mark.parametrize(
    ("source", "texts", "expected"),
    [
        ("Im Jahr 2026", ["In 20266", "In 2026", "It was 2026"], 1),
        ("1.000 Hunde", ["1,000 dogs", "1000 dogs"], 0),
        ("2 Hunde, 3 Katzen", ["2 dogs, 4 cats", "3 cats and 2 dogs"], 1),
        ("2 Hunde", ["Two dogs", "Two dogs, 2"], 1),
        ("£3 im Monat", ["3 a month", "£3 a month"], 1),
        ("aus सत्य", ["from स\ufffd", "from सत्य"], 1),
        ("C:\\Temp", ["C: Temp", "C:\\Temp"], 1),
        # Of equally wrong hypotheses, the one with the better score.
        ("42 Hunde", ["422 dogs", "43 dogs"], 0),
        ("42 Hunde", ["422 dogs", ""], 0),
        ("42 Hunde", ["422 dogs"], 0),
    ],
)
def test_hypothesis_with_fewest_different_figures_and_signs_is_chosen(
    source: str, texts: list[str], expected: int
) -> None:
    assert [h.token_ids for h in chosen(source, *texts).hypotheses] == [(expected,)]


def test_chosen_hypothesis_instead_of_cut_one_is_complete() -> None:
    cut = FinishReason.LENGTH
    assert chosen("42", "43", "42", reason=cut).finish_reason is FinishReason.COMPLETE
    assert chosen("42", "42", "43", reason=cut).finish_reason is FinishReason.LENGTH


def test_texts_are_decoded_until_one_keeps_every_figure() -> None:
    decoded: list[int] = []

    def decode(token_ids: tuple[int, ...]) -> str:
        decoded.extend(token_ids)
        return "42"

    hypotheses = tuple(Hypothesis((n,), 0.0) for n in range(4))
    best_by_figures("42", Decoded(hypotheses, FinishReason.COMPLETE), decode)
    assert decoded == [0]


def test_every_digit_currency_and_symbol_of_unicode_is_a_figure() -> None:
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Nd", "Sc", "So"):
            assert has_figures(f"a{chr(code)}b"), hex(code)
    assert has_figures("a_b") and not has_figures("Zwölf Hunde, „ein“ Ⅷ.")
