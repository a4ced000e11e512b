from __future__ import annotations

import gzip
import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.bulk.reading import Block, BlockSize, Place, blocks
from service.bulk.rows import Lines
from service.bulk.source import BadSource, Source

SIZE = BlockSize(lines=4, bytes=64)
CONTENT = st.lists(st.binary(max_size=30), max_size=30).map(b"\n".join)


def cut(path: Path, since: Place | None = None) -> list[Block]:
    with closing(Source(str(path))) as source:
        return list(blocks(source, Lines(), SIZE, since))


@given(content=CONTENT, members=st.integers(1, 4))
def test_blocks_keep_every_byte_in_order_also_from_gzip(content: bytes, members: int) -> None:
    length = len(content) // members + 1
    parts = [content[n : n + length] for n in range(0, len(content) or 1, length)]
    with TemporaryDirectory() as directory:
        plain, packed = Path(directory) / "in", Path(directory) / "in.gz"
        plain.write_bytes(content)
        packed.write_bytes(b"".join(map(gzip.compress, parts)))
        found, unpacked = cut(plain), cut(packed)
        lines = [line for block in found for line in block.lines]
        assert b"".join(lines) == content
        assert all(line.count(b"\n") <= 1 for line in lines)
        assert [block.lines for block in unpacked] == [block.lines for block in found]
        for number, block in enumerate(found):
            rest = cut(packed, block.place(len(block.rows)))
            assert [b.lines for b in rest] == [b.lines for b in found[number + 1 :]]


def test_a_block_ends_at_a_multiple_of_its_lines_or_at_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"a\n" * 6 + b"b" * 70 + b"\n" + b"c\n" * 6)
    found = cut(tmp_path / "in")
    assert [len(block.lines) for block in found] == [4, 3, 1, 4, 1]
    assert [block.number(0) for block in found] == [1, 5, 8, 9, 13]
    # After a stop in the middle of a block, the later block boundaries are unchanged.
    rest = cut(tmp_path / "in", found[0].place(2))
    assert [len(block.lines) for block in rest] == [2, 3, 1, 4, 1]


def test_prompt_yields_a_block_at_every_pause_of_the_input() -> None:
    reading, writing = os.pipe()
    with closing(Source(f"/proc/self/fd/{reading}")) as source:
        os.close(reading)
        found = blocks(source, Lines(), SIZE, prompt=True)
        for line in (b"eins\n", b"zwei\n"):
            os.write(writing, line + b"half a li")
            assert next(found).lines[-1].endswith(line)
        os.close(writing)
        assert next(found).lines == (b"half a li",)
        assert next(found, None) is None


def test_truncated_or_invalid_gzip_raises_bad_source(tmp_path: Path) -> None:
    packed = gzip.compress(b"zeile\n" * 1000, mtime=0)
    for content in (packed[:-9], packed + b"rest", b"zeile\n"):
        (tmp_path / "in.gz").write_bytes(content)
        with pytest.raises(BadSource):
            cut(tmp_path / "in.gz")
