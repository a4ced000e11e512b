from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.faithfulness import closest_by_figures, corrected_time, has_figures
from service.text.text_edits import applied


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


def with_time(source: str, target: str) -> str:
    found = corrected_time(source, target)
    return target if found is None else applied(target, [found])


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("See you at 2 p.m.", "Bis 18 Uhr", "Bis 14 Uhr"),
        ("The meeting is at 2:30 pm.", "Es ist um 18:30 Uhr.", "Es ist um 14:30 Uhr."),
        ("Open until 7:30 p.m.", "Bis 7:30 Uhr", "Bis 19:30 Uhr"),
        ("At 12 a.m.", "Um 12 Uhr", "Um 0 Uhr"),
        ("Um 14 Uhr.", "At 14 p.m.", "At 2 p.m."),
        ("Um 15 Uhr?", "At 15 a.m.?", "At 3 p.m.?"),
        ("Um 14:30 Uhr", "At 2:30 AM", "At 2:30 PM"),
        ("Um 9 Uhr", "At 8 p.m.", "At 9 p.m."),
        ("From 2 p.m. to 3 p.m.", "Von 14 Uhr bis 18 Uhr", "Von 14 Uhr bis 15 Uhr"),
        ("Um 08:05", "At 08:50", "At 08:05"),
        # Right, or not certain.
        ("At 9:45 am", "Um 9:45 Uhr", None),
        ("Um 9 Uhr", "At 9 p.m.", None),
        ("Um 14.30 Uhr", "At 2:30 p.m.", None),
        ("At 2:30 p.m.", "Um halb drei", None),
        ("At 2 p.m. and 3 p.m.", "Um 18 und 19 Uhr", None),
        ("At 2 p.m. and 3 p.m.", "Um 18 Uhr und 19 Uhr", None),
        ("At 99 Uhr", "At 8 p.m.", None),
        ("3.50 and 2:1", "3,50 und 1:2", None),
    ],
)
def test_only_wrong_time_of_day_becomes_that_of_the_source(
    source: str, target: str, expected: str | None
) -> None:
    assert with_time(source, target) == (target if expected is None else expected)


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 23), st.integers(0, 59))
def test_time_of_twelve_hours_is_corrected_to_24_and_back(
    hour: int, minute: int, other: int, wrong: int
) -> None:
    twelve, full = (
        f"at {(hour - 1) % 12 + 1}:{minute:02} {'ap'[hour >= 12]}.m.",
        f"um {hour}:{minute:02} Uhr",
    )
    assert with_time(twelve, f"um {other}:{wrong:02} Uhr") == full
    found = with_time(full, f"at {(other - 1) % 12 + 1}:{wrong:02} {'ap'[other >= 12]}.m.")
    # 9:15 Uhr may be in the evening.
    assert found == twelve or (1 <= hour <= 12 and found.split()[1] == twelve.split()[1])


@given(st.text("0123456789:.apm Uhr", max_size=30), st.text("0123456789:.apm Uhr", max_size=30))
def test_correction_of_a_time_needs_no_other(source: str, target: str) -> None:
    assert corrected_time(source, with_time(source, target)) is None
