from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from service.loading import discover
from service.translation.admission import Admission
from service.translation.detection import LinguaDetector
from service.translation.lines import LineFailed, translate_lines
from service.translation.repository import ModelRepository
from service.translation.translator import Translator
from service.translation.types import LanguagePair, Translation
from tests.support.shouting import load_found, put_bundle

pytestmark = pytest.mark.anyio


async def these(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


async def shout(directory: Path, lines: Iterable[bytes], delivered: list[str]) -> None:
    put_bundle(directory, "a")
    repository = ModelRepository(lambda: discover(directory), load_found)
    await repository.reload()

    def deliver(translation: Translation) -> None:
        delivered.append(translation.text)

    try:
        translator = Translator(repository, Admission(100_000), LinguaDetector())
        await translate_lines(translator, LanguagePair("de", "en"), these(lines), deliver)
    finally:
        await repository.close()


async def test_lines_come_back_in_order_and_in_number(tmp_path: Path) -> None:
    lines = [f"zeile {'x' * (n % 7)} {n}\n" for n in range(600)] + ["\n", " \r\n", "ende"]
    delivered: list[str] = []
    await shout(tmp_path, [line.encode() for line in lines], delivered)
    assert delivered == [line.upper() for line in lines]


async def test_a_line_that_fails_is_named_and_those_before_it_are_delivered(
    tmp_path: Path,
) -> None:
    delivered: list[str] = []
    with pytest.raises(LineFailed, match=r"^line 3: sentence has 71 tokens"):
        await shout(tmp_path, [b"a\n", b"b\n", b"x" * 70 + b"\n", b"c\n"], delivered)
    assert delivered == ["A\n", "B\n"]


async def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    with pytest.raises(LineFailed, match=r"^line 2: is not UTF-8"):
        await shout(tmp_path, [b"a\n", b"\xff\n"], [])
