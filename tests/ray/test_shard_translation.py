"""Translation of shards with a fake translator that returns upper case."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from service.bulk.rows import Columns, Format, Lines
from service.engine.errors import EngineStopped, SentenceTooLong
from service.ray.shard_translation import ShardDone, translate_lines
from service.ray.shards import CorpusError, cut
from service.text.types import LanguagePair
from service.translation.local_translator import LocalTranslator
from service.translation.types import Part, TranslateRequest

PAIR = LanguagePair("de", "en")


@dataclass
class Shouted:
    """The used fields of a ``Translation``."""

    text: str
    truncated: bool
    legs: tuple[()] = ()
    sentence_count: int = 1


class Shouter:
    """Fake translator."""

    async def translate(
        self, request: TranslateRequest, deliver: Callable[[Part], None] | None, **_: Any
    ) -> list[Shouted]:
        if "long" in request.texts:
            raise SentenceTooLong(9, 5)
        if "death" in request.texts:
            raise EngineStopped("it has died")
        return [Shouted(text.upper(), text == "endless") for text in request.texts]

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        return {n: SentenceTooLong(9, 5) for n, text in enumerate(request.texts) if text == "long"}


async def translated(
    path: Path, size: int = 1 << 20, format_: Format | None = None
) -> tuple[str, list[ShardDone]]:
    output, done = path.parent / "out", []
    shards = list(cut(path.name, path, output, size, path.stat().st_size))
    translator = cast(LocalTranslator, Shouter())
    for shard in shards:
        done.append(await translate_lines(translator, PAIR, shard, format_ or Lines()))
    return "".join(Path(shard.part).read_text() for shard in shards), done


@pytest.mark.parametrize("size", [3000, 1 << 20])
async def test_rows_keep_their_order_whatever_the_shards(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {n}\n" for n in range(3000)))
    text, done = await translated(path, size)
    assert text == path.read_text().upper()
    assert sum(each.rows for each in done) == 3000


class Meeting(Shouter):
    """Answers once two requests are in translation at once."""

    def __init__(self) -> None:
        self.two = asyncio.Barrier(2)

    async def translate(
        self, request: TranslateRequest, deliver: Callable[[Part], None] | None, **_: Any
    ) -> list[Shouted]:
        async with asyncio.timeout(10):
            await self.two.wait()
        return await super().translate(request, deliver)


async def test_blocks_of_a_shard_are_translated_concurrently(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("line\n" * 4096)
    (shard,) = cut("a.txt", path, tmp_path / "out", 1 << 20, 1)
    await translate_lines(cast(LocalTranslator, Meeting()), PAIR, shard, Lines())
    assert Path(shard.part).read_text() == "LINE\n" * 4096


async def test_a_header_is_in_the_first_part_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("id\ttext\n" + "".join(f"{n}\trow {n}\n" for n in range(9)))
    columns = Columns("text", header=False, into="loud", replace=False)
    text, done = await translated(path, 20, columns)
    assert len(done) > 3
    assert sum(each.rows for each in done) == 9
    rows = "".join(f"{n}\trow {n}\tROW {n}\n" for n in range(9))
    assert text == "id\ttext\tloud\n" + rows


async def test_a_row_that_cannot_be_translated_is_left_empty_and_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\nlong\n\xff\nendless\n")
    text, (done,) = await translated(path)
    assert text == "ONE\n\n\nENDLESS\n"
    assert (done.rows, done.unfit, done.cut) == (4, 2, 1)
    assert done.first_unfit.startswith(f"{done.part}, line 2")
    assert ShardDone.kept(done.part) == replace(done, rows=0)
    (tmp_path / "b.txt").write_bytes(b"one\n")
    _, (done,) = await translated(tmp_path / "b.txt")
    assert ShardDone.kept(done.part) is None


async def test_engine_failure_ends_the_shard_without_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ndeath\nthree\n")
    with pytest.raises(CorpusError, match="it has died"):
        await translated(path)
    assert list((tmp_path / "out" / "a.txt").iterdir()) == []


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\n" * 999)[:-9])
    with pytest.raises(CorpusError, match=r"a\.txt\.gz"):
        await translated(path)
