"""Tests of the arguments of ``dragoman translate``, of documents, and of ``--url``."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from models.bundle.manifest import InvalidBundle
from service import cli
from service.catalogue.errors import NotReady
from service.catalogue.loaded_model import LoadedModel
from service.commands import lines
from service.local_models import LocalModels
from service.settings import Settings
from service.text.types import LanguagePair
from tests.support.server import running
from tests.support.toy import load_shouting, put_bundle

PAGE = "<p>Der <b>Hund</b> bellt.</p>"
LOUD = "<p>DER <b>HUND</b> BELLT.</p>"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shouting_command: None) -> Path:
    """A working directory with documents, and a model in ``bundles`` that upper-cases."""
    put_bundle(tmp_path / "bundles", "shout", "de", "en")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    for name in ("a.html", "folder/b.html", "folder/.hidden.html", "folder/deep/c.html"):
        (tmp_path / name).write_text(PAGE, "utf-8")
    (tmp_path / "folder" / "d.txt").write_text("Das Haus\nDer Hund\n", "utf-8")
    (tmp_path / "folder" / "picture.png").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def translate(*arguments: str) -> int:
    return cli.main(["translate", *arguments, "--to", "en"])


def test_words_that_are_no_files_are_a_phrase(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["Guten Tag"],
        ["Guten", "Tag"],
        ["--text", "Guten Tag"],
        ["Guten Tag", "--from", "de-AT"],
    ):
        assert translate(*arguments) == 0
        assert capfd.readouterr() == ("GUTEN TAG\n", "")
    assert translate("folder", "--text", "--from", "de") == 0
    assert capfd.readouterr().out == "FOLDER\n"
    assert translate("Guten", "Tag.txt", "--from", "de") == 0
    assert capfd.readouterr().out == "GUTEN TAG.TXT\n"


@pytest.mark.parametrize("text", ["", "\n\n", "123\n"])
@pytest.mark.parametrize("to", ["en", "en-GB"])
def test_lines_without_letters_are_copied(
    here: Path, capfd: pytest.CaptureFixture[str], text: str, to: str
) -> None:
    (here / "lines.txt").write_text(text)
    assert cli.main(["translate", "lines.txt", "-o", "out.txt", "--to", to]) == 0
    assert (here / "out.txt").read_text() == text


def test_text_that_a_locale_cannot_write_is_written_as_utf_8(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (here / "out").open("w", encoding="latin-1") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert translate("Straße – 5 €", "--from", "de") == 0
    assert (here / "out").read_text("utf-8") == "STRAßE – 5 €\n"


def test_a_closed_standard_input_is_named(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert translate("--from", "de") == 2
    assert capfd.readouterr().err == "dragoman: standard input is closed\n"


@pytest.mark.parametrize(
    ("name", "loud"), [("a.html", LOUD), ("folder/d.txt", "DAS HAUS\nDER HUND\n")]
)
def test_files_are_written_to_standard_output(
    here: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    loud: str,
) -> None:
    assert translate(name, "-o", "-", "--from", "de") == 0
    assert capfd.readouterr().out == loud
    assert not (here / "-").exists()
    monkeypatch.setattr("sys.stdout", None)
    assert translate(name, "-o", "-", "--from", "de") == 2
    assert "standard output is closed" in capfd.readouterr().err


def test_documents_a_pattern_and_a_folder_are_translated_beside_or_into_a_folder(
    here: Path,
) -> None:
    assert translate("a.html") == translate("folder", "-o", "out") == 0
    assert (here / "a.en.html").read_text("utf-8") == LOUD
    made = {str(path.relative_to(here / "out")) for path in (here / "out").rglob("*.*")}
    assert made == {"b.html", "d.txt", "deep/c.html"}
    assert (here / "out" / "d.txt").read_text() == "DAS HAUS\nDER HUND\n"
    assert translate("folder/*.html", "--from", "de") == 0
    assert (here / "folder" / "b.en.html").read_text("utf-8") == LOUD


def test_messages_of_programs_are_documents_and_other_xml_is_refused(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "app.json").write_text('{"key": "Der Hund"}')
    (here / "other.xml").write_text("<page/>")
    assert translate("app.json", "other.xml", "-o", "out", "--from", "de") == 1
    assert (here / "out" / "app.json").read_text() == '{"key": "DER HUND"}'
    assert "other.xml: " in capfd.readouterr().err


def test_files_are_replaced_only_with_force_and_left_out_with_skip_existing(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "out.html").write_text("mine")
    assert translate("a.html", "-o", "out.html") == 2
    assert translate("a.html", "-o", "out.html", "--skip-existing") == 0
    assert (here / "out.html").read_text() == "mine"
    assert translate("a.html", "-o", "out.html", "--force") == 0
    assert (here / "out.html").read_text("utf-8") == LOUD
    for option in ("--skip-existing", "--skip-existing", "--force"):
        # The pattern finds the translations of the first run, too.
        assert translate("*.html", option) == 0
    assert {path.name for path in here.glob("*.html")} == {
        *("a.html", "a.en.html", "out.html", "out.en.html")
    }


def test_of_several_files_the_broken_ones_are_named_and_the_code_is_1(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.docx").write_bytes(b"no archive")
    (here / "odd.txt").write_bytes(b"gut\n\xff\n")
    assert translate("a.html", "broken.docx", "odd.txt", "-o", "out", "--from", "de") == 1
    assert [path.name for path in (here / "out").glob("*.html")] == ["a.html"]
    errors = capfd.readouterr().err
    assert "broken.docx: " in errors and "odd.txt: line 2: " in errors


def test_files_of_lines_share_a_model_that_is_loaded_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    async def load(path: Path, *others: Any) -> LoadedModel:
        loaded.append(path)
        return await load_shouting(path, *others)

    monkeypatch.setattr(lines, "LocalModels", partial(LocalModels, load=load))
    names = [f"{number}.txt" for number in range(3)]
    for name in names:
        (here / name).write_text("Guten Tag\n")
    assert translate(*names, "-o", "out") == 0
    assert [(here / "out" / name).read_text() for name in names] == ["GUTEN TAG\n"] * 3
    assert len(loaded) == 1


async def test_a_model_that_cannot_be_loaded_is_named_although_another_one_is(here: Path) -> None:
    async def load(path: Path, *others: Any) -> LoadedModel:
        if path.name == "broken":
            raise InvalidBundle("the file is damaged")
        return await load_shouting(path, *others)

    put_bundle(here / "bundles", "broken", "fr", "en")
    models = LocalModels(Settings(bundles=here / "bundles"), load)
    await models.need(LanguagePair("de", "en"))
    for _ in range(2):
        with pytest.raises(NotReady, match=r"broken: .*the file is damaged"):
            await models.need(LanguagePair("fr", "en"))
    await models.close()


def test_the_language_of_a_pipe_is_named_because_it_is_read_once(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"Guten Tag\n")
    os.close(writing)
    pipe = f"/proc/self/fd/{reading}"
    assert translate(pipe, "-o", "out.txt") == 2
    assert f"name the language with --from: {pipe} is read once only" in capfd.readouterr().err
    assert translate(pipe, "-o", "out.txt", "--from", "de") == 0
    os.close(reading)
    assert (here / "out.txt").read_text() == "GUTEN TAG\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["absent.docx"],
        ["absent.docx", "absent.txt"],
        ["a.html", "folder/../a.html", "-o", "out"],
        ["folder", "other", "-o", "out"],
        ["a.html", "-o", "absent/a.html"],
        ["folder/d.txt", "-o", "absent/d.txt", "--from", "de"],
        ["a.html", "folder/b.html", "-o", "-"],
        ["a.html", "--to", "../../en"],
        ["a.html", "absent"],
        ["folder"],
        ["Hallo", "-o", "out"],
        ["a.html", "a.en.html", "-o", "a.html"],
        ["a.html", "-o", "a.html", "--force"],
        ["-", "a.html"],
        ["-", "-o", "out.txt"],
        ["--text", "Hallo", "-o", "out.txt"],
        ["Hallo", "--url", "nowhere"],
        ["Hallo", "--url", "http://127.0.0.1:1", "--threads", "1"],
        ["Hallo", "--api-key", "k"],
        ["Guten Tag", "--model", "other"],
    ],
)
def test_invalid_arguments_exit_2_with_one_line(
    here: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (here / "a.en.html").write_text(PAGE, "utf-8")
    shutil.copytree(here / "folder", here / "other")
    assert cli.main(["translate", "--to", "en", *arguments, "--force"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_every_file_of_a_folder_that_fails_is_named_and_the_same_error_printed_twice_at_most(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert translate("folder", "-o", "out", "--model", "other", "--from", "de") == 2
    first, last = capfd.readouterr().err.splitlines()
    _, file, error = first.split(": ", 2)
    _, others, same = last.split(": ", 2)
    assert "other" in error and same == error
    names = {file, *others.split(", ")}
    assert names == {"folder/b.html", "folder/d.txt", "folder/deep/c.html"}
    for name in names - {file}:
        (here / name).unlink()
    assert translate("folder", "-o", "out", "--model", "other", "--from", "de") == 2
    assert capfd.readouterr().err == first + "\n"


@pytest.mark.slow
def test_a_running_service_translates_phrases_lines_and_documents(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "lines.txt").write_text("eins\nzwei\n")
    with running(here / "bundles") as server:
        ask: Callable[..., int] = lambda *given: translate(*given, "--url", server.address)  # noqa: E731
        assert ask("Guten Tag", "--from", "de") == ask("lines.txt", "--from", "de") == 0
        assert capfd.readouterr() == ("GUTEN TAG\nEINS\nZWEI\n", "")
        assert ask("a.html") == ask("lines.txt", "-o", "out.txt", "--from", "de") == 0
        assert (here / "a.en.html").read_text("utf-8") == LOUD
        assert (here / "out.txt").read_text() == "EINS\nZWEI\n"
        (here / "odd.txt").write_bytes(b"gut\n\xff\n")
        address = server.address.replace("://", "://ann:secret@")
        assert translate("odd.txt", "-o", "odd.en.txt", "--from", "de", "--url", address) == 2
        journal = (here / "odd.en.txt.journal").read_text()
        assert "secret" not in journal
        assert json.loads(journal)["made_with"]["models"].keys() == {"shout"}
        odd = os.fsdecode(b"\xfcber.html")
        (here / odd).write_text(PAGE, "utf-8")
        assert ask(odd, "-o", "odd.html") == 0
        assert ask("Guten Tag", "--model", "other") == 2
        assert "there is no model other" in capfd.readouterr().err
        (here / "lines.txt").write_text("12\n")
        assert ask("lines.txt", "-o", "out.txt", "--force") == 0
        assert (here / "out.txt").read_text() == "12\n"


def test_completion_has_every_command_and_help_ends_with_examples(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for shell in ("bash", "zsh"):
        assert cli.main(["completion", shell]) == 0
        assert "--skip-existing" in capfd.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["translate", "--help"])
    assert "dragoman translate angebot.docx -o offer.docx" in capfd.readouterr().out
