from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import threading
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.bulk.reading import Block, BlockSize, Place, blocks, opened
from service.bulk.rows import Columns, Format, Lines, Objects, UnknownColumn, guessed
from service.bulk.source import BadSource, Source
from tests.support.waiting import cancelled

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


def test_an_input_that_does_not_block_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(reading) as standard, closing(open(writing, "wb", buffering=0)) as file:
        monkeypatch.setattr(sys, "stdin", standard)
        pieces = Source("-").pieces()
        file.write(b"eins")
        assert next(pieces) == b"eins"
        later = threading.Timer(0.05, file.write, [b"zwei"])
        later.start()
        assert next(pieces) == b"zwei"
        later.join()
        file.close()
        assert next(pieces, None) is None


async def test_a_pipe_without_another_end_holds_up_no_interrupt(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    waiting = asyncio.create_task(opened(lambda: pipe.open("rb")))
    await asyncio.sleep(0.05)
    await cancelled(waiting)
    # Ends the thread, whose file is closed.
    with pipe.open("wb", buffering=0) as writer, pytest.raises(BrokenPipeError):
        while True:
            await asyncio.sleep(0.001)
            writer.write(b"a")
    with pytest.raises(FileNotFoundError):
        await opened(lambda: (tmp_path / "absent").open("rb"))


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


def test_padding_behind_gzip_is_ignored(tmp_path: Path) -> None:
    packed = gzip.compress(b"zeile\n", mtime=0)
    (tmp_path / "in.gz").write_bytes(packed + bytes(100) + packed + bytes(1 << 20))
    (block,) = cut(tmp_path / "in.gz")
    assert block.lines == (b"zeile\n", b"zeile\n")


def test_byte_order_mark_stays_at_the_beginning_of_the_file() -> None:
    columns = Columns(1, header=False, into="t", replace=False)
    assert written(columns, b"\xef\xbb\xbfHund\t1\n", "dog") == b"\xef\xbb\xbfHund\t1\tdog\n"
    assert columns.read(b"\xef\xbb\xbfHund\t1\n").text == "Hund"
    line = b'\xef\xbb\xbf{"a": "Hund", "b": 1}\n'
    assert written(Objects("a", "a"), line, "dog") == b'\xef\xbb\xbf{"a": "dog", "b": 1}\n'


def test_truncated_or_invalid_gzip_raises_bad_source(tmp_path: Path) -> None:
    packed = gzip.compress(b"zeile\n" * 1000, mtime=0)
    for content in (packed[:-9], packed + b"rest", b"zeile\n", bytes(100) + packed):
        (tmp_path / "in.gz").write_bytes(content)
        with pytest.raises(BadSource):
            cut(tmp_path / "in.gz")


ENDS = st.sampled_from([b"", b"\n", b"\r\n"])


def written(rows: Format, line: bytes, translation: str) -> bytes:
    return rows.write(rows.read(line), translation)


@given(body=st.binary().filter(lambda b: b"\n" not in b), end=ENDS)
def test_an_untranslated_line_keeps_its_bytes(body: bytes, end: bytes) -> None:
    row = Lines().read(body + end)
    if row.problem is None:
        assert Lines().write(row, row.text) == body + end
    else:
        assert (row.problem, row.text) == ("the text is not UTF-8", "")


@given(text=st.text(), translation=st.text())
def test_a_translation_never_becomes_two_lines(text: str, translation: str) -> None:
    line = text.replace("\n", "").encode() + b"\n"
    column = Columns(1, header=False, into="t", replace=False)
    for rows in (Lines(), column, Objects("text", "translation")):
        made = written(rows, line, translation)
        assert made.count(b"\n") == 1
        assert made.endswith(b"\n")


@given(
    columns=st.lists(st.binary(max_size=5), min_size=1),
    index=st.integers(1, 6),
    end=ENDS,
)
def test_other_columns_keep_their_bytes(columns: list[bytes], index: int, end: bytes) -> None:
    columns = [column.translate(None, b"\t\n\r") for column in columns]
    line = b"\t".join(columns) + end
    appended = written(Columns(index, header=False, into="t", replace=False), line, "JA")
    assert appended == b"\t".join(columns) + b"\tJA" + end
    replacing = Columns(index, header=False, into="t", replace=True)
    row = replacing.read(line)
    if index <= len(columns):
        expected = [*columns[: index - 1], b"JA", *columns[index:]]
        assert replacing.write(row, "JA") == b"\t".join(expected) + end
    else:
        assert row.problem is not None
        assert replacing.write(row, "") == line


def test_a_column_is_found_by_its_name() -> None:
    rows = Columns("text", header=False, into="english", replace=False)
    assert rows.header(b"\xef\xbb\xbfid\ttext\r\n") == b"\xef\xbb\xbfid\ttext\tenglish\r\n"
    assert rows.read(b"1\tgut\r\n").text == "gut"
    with pytest.raises(UnknownColumn, match="no column 'body'; the header has id, text"):
        Columns("body", header=False, into="t", replace=False).header(b"id\ttext\n")


def test_a_header_is_kept_if_the_column_is_a_number() -> None:
    assert Columns(2, header=True, into="t", replace=True).header(b"a\tb\n") == b"a\tb\n"
    assert Columns(2, header=False, into="t", replace=True).header(b"a\tb\n") is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    other=st.dictionaries(st.text(), values),
    text=st.text(),
    into=st.text(),
    plain=st.booleans(),
    end=ENDS,
)
def test_an_object_gains_a_field_and_keeps_all_other_fields(
    other: dict[str, object], text: str, into: str, plain: bool, end: bytes
) -> None:
    found = other | {"text": text}
    line = json.dumps(found, ensure_ascii=plain).encode() + end
    made = written(Objects("text", into), line, 'zwei\n"Zeilen"')
    assert json.loads(made) == found | {into: 'zwei\n"Zeilen"'}
    assert made.endswith(end)


@pytest.mark.parametrize(
    ("line", "made"),
    [
        (b'{"n":1.00,"text":"a"}\n', b'{"n":1.00,"text":"a", "t": "X"}\n'),
        (b' {"text": "a" } \r\n', b' {"text": "a", "t": "X"} \r\n'),
        (b'{"t":0,"text":"a"}', b'{"t": "X", "text": "a"}'),
        (b'{"t":0,"text":"a","b":"\\ud800"}', b'{"t": "X", "text": "a", "b": "\\ud800"}'),
        (b"\n", b"\n"),
    ],
)
def test_an_object_keeps_its_bytes_if_a_field_is_added(line: bytes, made: bytes) -> None:
    assert written(Objects("text", "t"), line, "X") == made


@pytest.mark.parametrize(
    ("line", "problem", "left_empty"),
    [
        (b"kaputt\n", "not JSON", b"kaputt\n"),
        (b"[" * 100_000 + b"\n", "not JSON", b"[" * 100_000 + b"\n"),
        (b'["text"]\n', "not a JSON object", b'["text"]\n'),
        (b'{"text": "\xff"}\n', "not UTF-8", b'{"text": "\xff"}\n'),
        (b"{}\n", "missing", b'{"t": ""}\n'),
        (b'{"text": 1}\n', "not text", b'{"text": 1, "t": ""}\n'),
        (b'{"text": "\\ud800"}\n', "surrogate", b'{"text": "\\ud800", "t": ""}\n'),
    ],
)
def test_an_object_that_cannot_be_translated_has_a_problem(
    line: bytes, problem: str, left_empty: bytes
) -> None:
    rows = Objects("text", "t")
    row = rows.read(line)
    assert row.problem is not None and problem in row.problem
    assert rows.write(row, "") == left_empty


def test_file_names_determine_the_format() -> None:
    assert guessed("a.tsv") == guessed("-", "A.TSV.GZ") == "tsv"
    assert guessed("a.jsonl.gz") == guessed("a.ndjson") == "jsonl"
    assert guessed("a.txt", "-") == guessed("a.gz", "tsv") == "lines"
