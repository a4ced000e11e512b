from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from service import cli
from service.bulk.output import ResumableFile
from service.bulk.reading import BlockSize
from service.bulk.translating import BlockTranslator
from service.commands import lines as command
from service.engine.errors import EngineStopped
from tests.support.raising import raiser
from tests.support.toy import put_bundle


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shouting_command: None) -> Path:
    """A working directory with a model in ``bundles`` that translates to upper case."""
    put_bundle(tmp_path / "bundles", "shout", "de", "en")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def translate(*arguments: str) -> int:
    return cli.main(["translate", *arguments, "--from", "de", "--to", "en"])


def test_file_names_determine_format_and_compression(here: Path) -> None:
    (here / "in.tsv.gz").write_bytes(gzip.compress(b"id\ttext\n1\tgut\n2\t\n"))
    assert translate("in.tsv.gz", "-o", "out.tsv", "--column", "text") == 0
    assert (here / "out.tsv").read_bytes() == b"id\ttext\ttranslation\n1\tgut\tGUT\n2\t\t\n"
    (here / "in.jsonl").write_bytes(b'{"text": "gut", "n": 1}\n')
    assert translate("in.jsonl", "-o", "out.jsonl.gz", "--into", "en") == 0
    made = gzip.decompress((here / "out.jsonl.gz").read_bytes())
    assert json.loads(made) == {"text": "gut", "n": 1, "en": "GUT"}
    assert translate("in.jsonl", "-o", "out.txt", "--gzip", "out", "--format", "lines") == 0
    assert gzip.decompress((here / "out.txt").read_bytes()) == b'{"TEXT": "GUT", "N": 1}\n'


def test_on_error_skip_leaves_bad_lines_empty_and_reports_their_numbers(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "in.txt").write_bytes(b"gut\n\xff\n" + b"x" * 100 + b"\ngut")
    assert translate("in.txt", "-o", "out.txt") == 2
    assert capfd.readouterr().err == (
        f"dragoman: {here / 'out.txt'} keeps 1 line; the same command continues after that\n"
        "dragoman: line 2: the text is not UTF-8\n"
    )
    assert translate("in.txt", "-o", "out.txt", "--on-error", "skip") == 0
    assert (here / "out.txt").read_bytes() == b"GUT\n\n\nGUT"
    assert capfd.readouterr().err == (
        f"dragoman: {here / 'out.txt'} has 1 line already; continuing after that\n"
        "dragoman: left empty because they cannot be translated: line 2, 3\n"
    )


def test_a_job_with_other_options_or_bundles_is_not_resumed(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRAGOMAN_THREADS")
    (here / "in.txt").write_bytes(b"gut\n\xff\n")
    assert translate("in.txt", "-o", "out.txt") == 2
    capfd.readouterr()
    assert translate("in.txt", "-o", "out.txt", "--beam-size", "1", "--threads", "3") == 2
    message = "begun otherwise: beam_size was unset, not 1; threads was 0, not 3; do the same, or"
    assert message in capfd.readouterr().err
    put_bundle(here / "bundles", "shout", "de", "en", version="2")
    assert translate("in.txt", "-o", "out.txt") == 2
    assert "models was " in capfd.readouterr().err
    (here / "in.txt").write_bytes(b"neu\n")
    assert translate("in.txt", "-o", "out.txt", "--restart") == 0
    assert (here / "out.txt").read_bytes() == b"NEU\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["in.txt", "--column", "1", "--format", "lines"],
        ["in.jsonl", "--column", "1", "--format", "jsonl"],
        ["in.tsv", "--replace", "--into", "b"],
        ["in.tsv", "--column", "0"],
        ["in.txt", "--precision", "int4"],
        ["in.txt", "-o", "./in.txt"],
        ["in.txt", "--gzip", "in"],
        ["in.txt", "--column", "name"],
        ["in.txt", "-o", "missing/out"],
    ],
)
def test_invalid_arguments_exit_2_with_one_line(
    here: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    for suffix in ("txt", "tsv", "jsonl"):
        (here / f"in.{suffix}").write_bytes(b"gut\n")
    assert translate(*arguments) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_output_to_a_pipe_is_written_directly_and_a_symbolic_link_is_followed(here: Path) -> None:
    os.mkfifo(here / "pipe")
    reading = os.open(here / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    (here / "out.txt").symlink_to(here / "far.txt")
    (here / "in.txt").write_bytes(b"gut\n")
    for output in ("pipe", "out.txt"):
        assert translate("in.txt", "-o", output) == 0
    assert os.read(reading, 100) == (here / "far.txt").read_bytes() == b"GUT\n"
    os.close(reading)
    assert (here / "pipe").is_fifo() and (here / "out.txt").is_symlink()


def test_an_interrupt_keeps_finished_lines_and_the_same_command_resumes(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "in.txt").write_bytes(b"".join(b"zeile %d\n" % n for n in range(9)))
    monkeypatch.setattr(command, "_IN_A_FILE", BlockSize(lines=3))
    write = ResumableFile.write

    def interrupted(file: ResumableFile, content: bytes) -> int:
        if b"ZEILE 3" in content:
            raise KeyboardInterrupt
        return write(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(ResumableFile, "write", interrupted)
        assert translate("in.txt", "-o", "out.txt") == 130
    assert "keeps 3 lines; the same command continues after that" in capfd.readouterr().err
    assert translate("in.txt", "-o", "out.txt") == 0
    assert (here / "out.txt").read_bytes() == (here / "in.txt").read_bytes().upper()


@pytest.mark.parametrize("end", ["", ".gz"])
def test_a_failure_before_any_line_leaves_the_header(
    here: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    (here / "in.tsv").write_bytes(b"id\ttext\n1\tgut\n")
    command = ["in.tsv", "-o", f"out.tsv{end}", "--column", "text"]
    with monkeypatch.context() as broken:
        broken.setattr(BlockTranslator, "rows", raiser(EngineStopped("the engine has stopped")))
        assert translate(*command) == 2
    assert translate(*command) == 0
    made = (here / f"out.tsv{end}").read_bytes()
    whole = b"id\ttext\ttranslation\n1\tgut\tGUT\n"
    assert (gzip.decompress(made) if end else made) == whole


def test_progress_option_shows_the_bar(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "in.txt").write_bytes(b"gut\n" * 20)
    assert translate("in.txt", "-o", "out.txt", "--progress") == 0
    err = capfd.readouterr().err
    assert "100%|" in err
    assert "sentences/s" in err
