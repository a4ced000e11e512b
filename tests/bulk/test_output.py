from __future__ import annotations

import gzip
import os
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.bulk.disk import Disk
from service.bulk.journal import Journal, Progress, UnusableJournal
from service.bulk.output import OutputTaken, ResumableFile
from service.bulk.reading import BlockSize
from service.bulk.rows import Columns, Format, Lines
from service.bulk.source import BadSource
from tests.bulk.crashing import MADE_WITH, TARGET, CrashingDisk, PowerCut, run

SMALL = BlockSize(lines=3, bytes=40)


def shouted(content: bytes) -> bytes:
    """Output of an uninterrupted run."""
    disk = CrashingDisk(Random(0))
    run_through([], disk, content, Lines())
    return disk.names[TARGET].safe


def run_through(
    cuts: list[int], disk: CrashingDisk, content: bytes, *run_with: Any, **more: Any
) -> None:
    """Run a job that loses power after each number of operations, and then to its end."""
    with TemporaryDirectory() as directory:
        source = Path(directory) / ("in.gz" if more else "in")
        source.write_bytes(content)
        for cut in [*cuts, None]:
            disk.restart(cut)
            with suppress(PowerCut):
                run(source, *run_with, disk, SMALL, **more)
                break


@settings(max_examples=150)
@given(
    lines=st.lists(st.text(max_size=12).filter(lambda t: "\n" not in t), max_size=20),
    end=st.sampled_from(["", "\n", "\r\n"]),
    cuts=st.lists(st.integers(0, 25), max_size=6),
    random=st.randoms(use_true_random=False),
)
def test_power_cuts_lose_and_duplicate_no_lines(
    lines: list[str], end: str, cuts: list[int], random: Random
) -> None:
    content = "\n".join(lines).encode() + end.encode()
    disk = CrashingDisk(random)
    run_through(cuts, disk, content, Lines())
    assert disk.names[TARGET].safe == shouted(content)
    assert set(disk.names) == {TARGET}


@settings(max_examples=50)
@given(cuts=st.lists(st.integers(0, 25), max_size=4), random=st.randoms(use_true_random=False))
def test_power_cuts_spare_compressed_files_and_headers(cuts: list[int], random: Random) -> None:
    disk = CrashingDisk(random)
    content = b"id\ttext\n" + b"".join(b"%d\tzeile %d\n" % (n, n) for n in range(20))
    packed = gzip.compress(content[:50]) + gzip.compress(content[50:])
    rows = Columns("text", header=False, into="shouted", replace=False)
    run_through(cuts, disk, packed, rows, compressed=True)
    lines = [b"%d\tzeile %d\tZEILE %d\n" % (n, n, n) for n in range(20)]
    assert gzip.decompress(disk.names[TARGET].safe) == b"id\ttext\tshouted\n" + b"".join(lines)


def begun(tmp_path: Path) -> tuple[Path, Path]:
    """A source, and the output of a run that stopped after six of its lines."""
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"".join(b"zeile %d\n" % n for n in range(6)) + b"x" * (5 << 20))
    with pytest.raises(Exception, match="line 7: is longer than 4 MiB"):
        run(source, Lines(), Disk(), SMALL, target=target)
    assert not target.exists()
    return source, target


def again(source: Path, target: Path, rows: Format | None = None, **more: object) -> int:
    return run(source, rows or Lines(), Disk(), SMALL, target=target, **more)  # type: ignore[arg-type]


def test_source_lines_after_the_finished_ones_may_change(tmp_path: Path) -> None:
    source, target = begun(tmp_path)
    source.write_bytes(source.read_bytes()[: 6 * 8] + b"sieben\n")
    assert again(source, target) == 6
    assert target.read_bytes().endswith(b"ZEILE 5\nSIEBEN\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_a_change_in_finished_source_lines_is_refused(tmp_path: Path) -> None:
    source, target = begun(tmp_path)
    source.write_bytes(b"Zeile" + source.read_bytes()[5:])
    for _ in ("changed", "shorter"):
        with pytest.raises(BadSource):
            again(source, target)
        source.write_bytes(b"zeile 0\n")
    assert again(source, target, restart=True) == 0
    assert target.read_bytes() == b"ZEILE 0\n"


def test_restart_removes_the_old_journal_before_writing(tmp_path: Path) -> None:
    _, target = begun(tmp_path)
    disk = LeavingDisk()
    killed = ResumableFile(target, MADE_WITH, compressed=False, restart=True, disk=disk)
    killed.write(b"more than had been there. " * 10)
    disk.leave()
    after = ResumableFile(target, MADE_WITH, compressed=False)
    assert after.progress == Progress()
    after.close()


class LeavingDisk(Disk):
    """Disk whose process can end without closing its files."""

    def open(self, path: Path) -> int:
        self.latest = super().open(path)
        return self.latest

    def leave(self) -> None:
        os.close(self.latest)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [("journal", b"{"), ("journal", b"[]"), ("journal", b'{"journal": 2}'), ("unfinished", b"Z")],
)
def test_a_damaged_journal_or_an_output_shorter_than_it_is_refused(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    source, target = begun(tmp_path)
    (tmp_path / f"out.txt.{suffix}").write_bytes(content)
    with pytest.raises(UnusableJournal):
        again(source, target)


def test_a_second_writer_of_the_same_file_is_refused(tmp_path: Path) -> None:
    first = ResumableFile(tmp_path / "out", MADE_WITH, compressed=False)
    with pytest.raises(OutputTaken, match="is being written by another process"):
        ResumableFile(tmp_path / "out", MADE_WITH, compressed=False)
    first.close()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_source_gives_an_empty_output(tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    run(tmp_path / "in", Lines(), Disk(), SMALL, target=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b""
    run(tmp_path / "in", Lines(), Disk(), SMALL, target=tmp_path / "out.gz", compressed=True)
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b""


class FullDisk(Disk):
    """Disk with room for ``room`` bytes of all files together."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, content: bytes) -> None:
        super().write(descriptor, content[: self.room])
        self.room -= len(content)
        if self.room < 0:
            raise OSError(28, "No space left on device")


def test_a_full_disk_stops_the_job_and_it_resumes_with_more_room(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"".join(b"zeile %d\n" % n for n in range(9)))
    journal = len(Journal(MADE_WITH, Progress()).to_json())
    for room in (10, journal // 2, journal * 3 // 2):
        with pytest.raises(OSError, match="No space left"):
            run(source, Lines(), FullDisk(room), SMALL, target=target)
    assert again(source, target) == 3
    assert target.read_bytes() == source.read_bytes().upper()
