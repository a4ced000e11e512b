from __future__ import annotations

import sys
import unicodedata

import pytest

from service.text.faithfulness import closest_by_figures, has_figures


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
        ("Open until 7:30 p.m.", ["Bis 7:30 Uhr", "Bis 19.30 Uhr"], 1),
        ("Come at 2pm.", ["Komm um 2 Uhr.", "Komm um 14 Uhr."], 1),
        ("From 12 a.m. to 1 p.m.", ["Von 12 bis 1 Uhr", "Von 0:00 bis 13:00 Uhr"], 1),
        ("Um 18 Uhr", ["At 6 o'clock", "At 8 p.m.", "At 6 p.m."], 2),
        # Of equally wrong hypotheses, the one with the better score.
        ("42 Hunde", ["422 dogs", "43 dogs"], 0),
        ("42 Hunde", ["422 dogs", ""], 0),
        ("42 Hunde", ["422 dogs"], 0),
    ],
)
def test_hypothesis_with_fewest_different_figures_and_signs_is_chosen(
    source: str, texts: list[str], expected: int
) -> None:
    assert closest_by_figures(source, texts) == expected


def test_texts_are_decoded_until_one_keeps_every_figure() -> None:
    texts = iter(["42", "43"])
    assert closest_by_figures("42", texts) == 0
    assert list(texts) == ["43"]


def test_every_digit_currency_and_symbol_of_unicode_is_a_figure() -> None:
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Nd", "Sc", "So"):
            assert has_figures(f"a{chr(code)}b"), hex(code)
    assert has_figures("a_b") and not has_figures("Zwölf Hunde, „ein“ Ⅷ.")
