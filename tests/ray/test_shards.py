"""Cutting corpora into shards, resuming, and atomic parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.bulk.reading import LINE_BYTES
from service.ray.shards import (
    CorpusError,
    CorpusPlan,
    Shard,
    bounds,
    cut,
    files_of,
    names_of,
    sweep,
    undone,
    write_atomically,
)

PLAN = CorpusPlan({"source": "de", "shard_bytes": 10}, {"a.txt": (3, 5)})


@given(
    st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    st.booleans(),
    st.integers(1, 40),
)
def test_every_line_is_in_one_shard_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    content = b"\n".join(lines) + (b"\n" if ends else b"")
    path.write_bytes(content)
    shards = list(cut("a.txt", path, Path("out"), size, len(content)))
    ranges = [bounds(shard) for shard in shards]
    assert b"".join(content[begin:end] for begin, end in ranges) == content
    for shard, (begin, end) in zip(shards, ranges, strict=True):
        assert begin == 0 or content[begin - 1 : begin] == b"\n" or begin == len(content)
        # No line begins before the shard, and none at its end or later.
        assert begin >= shard.begin
        assert b"\n" not in content[shard.end - 1 : (end or 0) - 1]
    assert [shard.part for shard in shards] == sorted(shard.part for shard in shards)


def test_compressed_file_is_one_shard_with_uncompressed_part() -> None:
    (shard,) = cut("a.txt.gz", Path("in/a.txt.gz"), Path("out"), 10, 1000)
    assert shard.part == "out/a.txt.gz/part-00000.txt"
    assert bounds(shard) == (0, None)


def test_too_long_line_at_the_end_of_a_shard_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a" * (LINE_BYTES + 10))
    with pytest.raises(CorpusError, match=r"a\.txt"):
        bounds(Shard(str(path), "part", 0, 10))


def test_files_are_found_below_a_directory_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b.txt", "more/a.txt", ".hidden", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files = files_of(tmp_path)
    assert list(names_of(files, tmp_path)) == ["b.txt", "more/a.txt"]
    assert list(names_of(files_of(tmp_path / "b.txt"), tmp_path / "b.txt")) == ["b.txt"]
    (tmp_path / "empty").mkdir()
    for name in ("nothing", "empty"):
        with pytest.raises(CorpusError, match=name):
            files_of(tmp_path / name)


def test_only_the_same_corpus_is_resumed_in_a_directory_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for _ in range(2):
        PLAN.keep(tmp_path / "out")
    for other in (
        CorpusPlan({"source": "de", "shard_bytes": 11}, PLAN.files),
        CorpusPlan(PLAN.made_with, {"a.txt": (3, 6)}),
        CorpusPlan(PLAN.made_with, {**PLAN.files, "b.txt": (1, 1)}),
    ):
        with pytest.raises(CorpusError, match="other files, or made otherwise"):
            other.keep(tmp_path / "out")
    with pytest.raises(CorpusError, match="is not empty"):
        PLAN.keep(tmp_path)


def test_existing_parts_are_skipped_and_unfinished_ones_removed(tmp_path: Path) -> None:
    shards = list(cut("a.txt", Path("a.txt"), tmp_path, 10, 30))
    with write_atomically(Path(shards[1].part)):
        pass
    assert undone(shards) == [shards[0], shards[2]]
    left = tmp_path / "a.txt" / ".part-00000.txt.host.1.unfinished"
    left.touch()
    sweep(tmp_path)
    assert list(left.parent.iterdir()) == [Path(shards[1].part)]


def test_a_part_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.txt" / "part-00000.txt"
    with pytest.raises(RuntimeError), write_atomically(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert list(path.parent.iterdir()) == []
    with write_atomically(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
