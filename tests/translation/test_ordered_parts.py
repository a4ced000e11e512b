from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from service.translation.ordered_parts import OrderedParts
from service.translation.preparing import Text
from service.translation.types import Part


def text_of(separators: Sequence[str]) -> Text:
    """A text with a sentence of one letter between any two separators."""
    sentences = [SimpleNamespace(text="a")] * (len(separators) - 1)
    return Text(tuple(separators), cast(Any, tuple(sentences)))


texts = st.lists(st.lists(st.text("ab ", max_size=3), min_size=1, max_size=5), max_size=5)


@given(texts, st.randoms())
def test_parts_are_delivered_in_order_for_any_order_of_completion(
    separators: list[list[str]], rng: random.Random
) -> None:
    delivered: list[Part] = []
    order = OrderedParts(len(separators), delivered.append)
    events = [(number, None) for number in range(len(separators))]
    rng.shuffle(events)
    for number, _ in events:
        order.begin(number, text_of(separators[number]))
    sentences = [(n, s) for n, text in enumerate(separators) for s in range(len(text) - 1)]
    rng.shuffle(sentences)
    for number, sentence in sentences:
        order.deliver(number, sentence, f"<{number}.{sentence}>")
    assert [part.text for part in delivered] == sorted(part.text for part in delivered)
    for number, text in enumerate(separators):
        whole = "".join(f"{before}<{number}.{s}>" for s, before in enumerate(text[:-1])) + text[-1]
        assert "".join(part.target for part in delivered if part.text == number) == whole


def test_part_is_delivered_as_soon_as_all_before_it_are_known() -> None:
    delivered: list[Part] = []
    order = OrderedParts(2, delivered.append)
    order.begin(0, text_of(["", " ", "!"]))
    order.deliver(0, 1, "b")
    assert delivered == []
    order.deliver(0, 0, "a")
    assert [part.target for part in delivered] == ["a", " b", "!"]
    assert [part.share for part in delivered] == [0.5, 0.5, 0.0]
    order.whole(1, "c")
    assert (delivered[-1], delivered[-1].share) == (Part(1, "c"), 1.0)
