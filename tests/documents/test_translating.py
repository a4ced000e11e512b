from __future__ import annotations

import pytest

from service.documents import translate_document
from service.documents.batches import numbers_of_batches
from service.documents.types import MarkedSource, MarkupLost
from service.text.markup import Markup
from tests.documents.here import ReaderHere
from tests.documents.translations import shout


class Recorder:
    def __init__(self) -> None:
        self.batches: list[tuple[tuple[str, ...], Markup]] = []

    async def __call__(self, texts: tuple[str, ...], markup: Markup) -> list[str]:
        self.batches.append((texts, markup))
        return await shout(texts, markup)


async def test_texts_are_batched_by_markup_and_written_in_their_places() -> None:
    reader, recorder = ReaderHere(), Recorder()
    document = await reader.read("a.md", b"# one\n\ntwo *three*\n\nfour\n")
    assert (document.media_type, document.characters, document.sample) == (
        "text/markdown",
        len("onetwo threefour"),
        "one\ntwo three\nfour",
    )
    written = await translate_document(reader, document, recorder)
    assert written == b"# ONE\n\nTWO *THREE*\n\nFOUR\n"
    assert [texts for texts, _ in recorder.batches] == [
        ("one", "four"),
        ('two <g id="1">three</g>',),
    ]
    assert [markup.kind for _, markup in recorder.batches] == ["text", "xml"]


def test_batches_are_limited_by_texts_and_characters() -> None:
    texts = [MarkedSource(text) for text in ["word"] * 10 + ["w" * 100] + ["word"] * 3]
    batches = list(numbers_of_batches(texts, most_texts=4, most_characters=20))
    assert [len(numbers) for numbers in batches] == [4, 4, 2, 1, 3]
    assert [number for numbers in batches for number in numbers] == list(range(14))


async def test_a_document_without_texts_calls_no_translator() -> None:
    reader, recorder = ReaderHere(), Recorder()
    document = await reader.read("a.txt", b"\n")
    assert await translate_document(reader, document, recorder) == b"\n"
    assert recorder.batches == []


async def test_exceptions_of_the_translator_propagate() -> None:
    async def fail(texts: tuple[str, ...], markup: Markup) -> list[str]:
        raise LookupError("no such language")

    async def forget(texts: tuple[str, ...], markup: Markup) -> list[str]:
        return []

    reader = ReaderHere()
    document = await reader.read("a.txt", b"one")
    with pytest.raises(LookupError, match="no such language"):
        await translate_document(reader, document, fail)
    with pytest.raises(ValueError, match="1 texts have 0 translations"):
        await translate_document(reader, document, forget)


async def test_a_translation_without_its_tags_raises_markup_lost() -> None:
    async def strip(texts: tuple[str, ...], markup: Markup) -> list[str]:
        return ["two three"] * len(texts)

    reader = ReaderHere()
    document = await reader.read("a.md", b"two *three*\n")
    with pytest.raises(MarkupLost):
        await translate_document(reader, document, strip)
