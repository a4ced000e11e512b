"""Tests of reading and translating documents: batches, limits, crashes, cancellation."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import docx
import pytest

from service.documents import (
    BrokenDocument,
    DocumentFailed,
    DocumentReader,
    DocumentTooDemanding,
    ReadingLimits,
    UnsupportedDocument,
    translate_document,
)
from service.documents.batches import TEXTS, numbers_of_batches
from service.documents.reading.worker import MOST_BYTES_OF_TEXTS
from service.documents.types import MarkedSource, MarkupLost
from service.text.markup import Markup
from tests.documents.translations import ReaderHere, shout
from tests.documents.word import saved, with_entry

ENDLESS = b"*a* " * 12_000 + b"\n"
"""A paragraph that takes about a second to read."""


def wordy(paragraphs: int) -> bytes:
    """A small Word file with many paragraphs."""
    more = b"<w:body>" + b"<w:p><w:r><w:t>a b</w:t></w:r></w:p>" * paragraphs
    empty = saved(docx.Document())
    return with_entry(empty, "word/document.xml", lambda body: body.replace(b"<w:body>", more))


@asynccontextmanager
async def reading(**limits: Any) -> AsyncIterator[DocumentReader]:
    reader = DocumentReader(ReadingLimits(**limits))
    try:
        yield reader
    finally:
        await reader.close()
        assert reader._helpers.processes == []


async def test_a_document_is_read_and_written_by_the_same_process() -> None:
    async with reading() as reader:
        opened = await reader.read("A.MD ", "# Höhe\n\n*zwei*\n".encode())
        (process,) = reader._helpers.processes
        assert opened.filename == "A.MD "
        assert await translate_document(reader, opened, shout) == "# HÖHE\n\n*ZWEI*\n".encode()
        assert reader._helpers.processes == [process]


async def test_errors_of_a_document_reach_the_caller_from_the_helper() -> None:
    async with reading() as reader:
        with pytest.raises(UnsupportedDocument):
            await reader.read("a.exe", b"")
        assert reader._helpers.processes == []
        with pytest.raises(BrokenDocument, match="character 3 is a null character"):
            await reader.read("a.txt", b"caf\0 noir")


@pytest.mark.parametrize("times", [1, 2])
async def test_document_is_read_again_by_another_helper_once_after_the_first_was_killed(
    times: int,
) -> None:
    async with reading(at_once=1) as reader:
        await reader.read("a.txt", b"one")
        task = asyncio.create_task(reader.read("a.docx", wordy(5_000)))
        killed: set[int] = set()
        while len(killed) < times:
            await asyncio.sleep(0.01)
            for process in set(reader._helpers.processes) - killed:
                os.kill(process, signal.SIGKILL)
                killed.add(process)
        if times == 1:
            assert (await task).batches
        else:
            with pytest.raises(DocumentFailed):
                await task
        assert (await reader.read("a.txt", b"two")).sample == "two"
        assert not killed & set(reader._helpers.processes)


async def test_a_document_over_the_time_limit_is_refused() -> None:
    async with reading(seconds=0.05) as reader:
        with pytest.raises(DocumentTooDemanding, match="send it in parts"):
            await reader.read("a.md", ENDLESS * 20)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound memory")
@pytest.mark.parametrize("name", ["a.md", "a.docx"])
async def test_a_document_over_the_memory_limit_is_refused_and_the_next_is_read(name: str) -> None:
    async with reading(at_once=1, memory_bytes=48 << 20) as reader:
        content = b"a b\n\n" * 40_000 if name == "a.md" else wordy(200_000)
        with pytest.raises(DocumentTooDemanding):
            await reader.read(name, content)
        assert (await reader.read("a.txt", b"two")).sample == "two"


async def test_a_document_with_too_much_text_or_too_long_a_paragraph_is_refused() -> None:
    async with reading() as reader:
        for name, content, limit in (
            (
                "a.txt",
                b"word " * (MOST_BYTES_OF_TEXTS // 5 + 1_000),
                str(MOST_BYTES_OF_TEXTS >> 20),
            ),
            ("a.txt", b"x" * 200_000, "100000"),
            ("a.html", b"<b>word</b> " * 26_000, "100000"),
            ("a.html", b"a <!--%b--> word" % (b"x" * 5_000_000), "4194304"),
        ):
            with pytest.raises(BrokenDocument, match=limit):
                await reader.read(name, content)
        page = b"<p>word <img src='data:image/png;base64,%b'></p>" % (b"A" * 150_000)
        assert (await reader.read("a.html", page)).characters == len("word ")


async def test_a_file_that_cannot_be_read_again_is_not_written() -> None:
    async with reading() as reader:
        opened = replace(await reader.read("a.txt", b"one"), content=b"one\0 two")
        with pytest.raises(DocumentFailed):
            await translate_document(reader, opened, shout)


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
    recorder.batches.clear()
    empty = await reader.read("a.txt", b"\n")
    assert await translate_document(reader, empty, recorder) == b"\n"
    assert recorder.batches == []


def test_batches_are_limited_by_texts_and_characters() -> None:
    texts = [MarkedSource(text) for text in ["word"] * 10 + ["w" * 100] + ["word"] * 3]
    batches = list(numbers_of_batches(texts, most_texts=4, most_characters=20))
    assert [len(numbers) for numbers in batches] == [4, 4, 2, 1, 3]
    assert [number for numbers in batches for number in numbers] == list(range(14))


@pytest.mark.parametrize(
    ("translations", "error"),
    [(LookupError(), LookupError), ([], ValueError), (["two three"], MarkupLost)],
    ids=["refused", "too few", "without tags"],
)
async def test_failed_translations_raise(
    translations: list[str] | LookupError, error: type[Exception]
) -> None:
    async def translate(texts: tuple[str, ...], markup: Markup) -> list[str]:
        if isinstance(translations, LookupError):
            raise translations
        return translations

    reader = ReaderHere()
    document = await reader.read("a.md", b"two *three*\n")
    with pytest.raises(error):
        await translate_document(reader, document, translate)


async def test_other_work_has_a_turn_after_each_batch_whose_translations_are_at_hand() -> None:
    turns: list[str] = []

    async def translate(texts: tuple[str, ...], markup: Markup) -> list[str]:
        turns.append("batch")
        return list(texts)

    async def other() -> None:
        while True:
            turns.append("other")
            await asyncio.sleep(0)

    reader = ReaderHere()
    document = await reader.read("a.md", b"one\n\n" * 3 * TEXTS)
    task = asyncio.create_task(other())
    await translate_document(reader, document, translate)
    task.cancel()
    assert [each for each, _ in itertools.groupby(turns)] == ["batch", "other"] * 3
