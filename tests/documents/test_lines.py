"""Tests of splitting texts into lines and of the limit on their number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents import open_document
from service.documents.fragments.lines import MOST_LINES, lines_of
from service.documents.types import BrokenDocument


@given(st.text(alphabet="a \r\n", max_size=30))
def test_joined_lines_are_the_whole_text(text: str) -> None:
    lines = lines_of(text)
    assert "".join(line for _, line in lines) == text
    assert all(text[start:].startswith(line) for start, line in lines)


@pytest.mark.parametrize("name", ["a.md", "a.srt"])
def test_a_file_with_too_many_lines_is_refused(name: str) -> None:
    assert open_document(name, b"\n" * 1000).texts == ()
    with pytest.raises(BrokenDocument, match=r"more than 100000 lines.*: send it in parts"):
        open_document(name, b"\n" * (MOST_LINES + 1))
