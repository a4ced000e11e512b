from __future__ import annotations

import pytest

from service.documents import open_document, translate_document
from service.translation.markup import Markup
from tests.documents.translations import shout

pytestmark = pytest.mark.anyio


class Recorder:
    def __init__(self) -> None:
        self.batches: list[tuple[tuple[str, ...], Markup]] = []

    async def __call__(self, texts: tuple[str, ...], markup: Markup) -> list[str]:
        self.batches.append((texts, markup))
        return await shout(texts, markup)


async def test_texts_are_grouped_by_markup_and_answered_in_their_places() -> None:
    document = open_document("a.md", b"# one\n\ntwo *three*\n\nfour\n")
    recorder = Recorder()
    written = await translate_document(document, recorder)
    assert written == b"# ONE\n\nTWO *THREE*\n\nFOUR\n"
    assert [texts for texts, _ in recorder.batches] == [
        ("one", "four"),
        ('two <g id="1">three</g>',),
    ]
    assert [markup.kind for _, markup in recorder.batches] == ["text", "xml"]


async def test_batches_are_bounded() -> None:
    document = open_document("a.md", b"\n\n".join([b"word"] * 10 + [b"w" * 100] + [b"word"] * 3))
    recorder = Recorder()
    await translate_document(document, recorder, texts_at_once=4, characters_at_once=20)
    assert [len(texts) for texts, _ in recorder.batches] == [4, 4, 2, 1, 3]


async def test_a_document_without_texts_asks_nobody() -> None:
    recorder = Recorder()
    assert await translate_document(open_document("a.txt", b"\n"), recorder) == b"\n"
    assert recorder.batches == []


async def test_what_translating_raises_is_raised() -> None:
    async def fail(texts: tuple[str, ...], markup: Markup) -> list[str]:
        raise LookupError("no such language")

    async def forget(texts: tuple[str, ...], markup: Markup) -> list[str]:
        return []

    with pytest.raises(LookupError, match="no such language"):
        await translate_document(open_document("a.txt", b"one"), fail)
    with pytest.raises(ValueError, match="zip"):
        await translate_document(open_document("a.txt", b"one"), forget)
