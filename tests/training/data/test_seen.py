from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from training.data.seen import Seen


@given(texts=st.lists(st.text(max_size=3)))
def test_add_returns_true_once_per_text(texts: list[str]) -> None:
    seen, plain = Seen(), set[str]()
    for text in texts:
        assert seen.add(text) == (text not in plain)
        plain.add(text)


def test_growth_keeps_all_texts() -> None:
    seen = Seen()
    assert all(seen.add(str(i)) for i in range(10_000))
    assert not any(seen.add(str(i)) for i in range(10_000))
    assert seen.add("10000")
