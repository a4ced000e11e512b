from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

import service
from models.bundle.bundle import Bundle
from service import cli
from service.commands import serve
from service.runtime.sessions import DeviceNotReady
from service.state.database import Database
from service.state.keys import KeyStore
from tests.models.tiny import MANIFEST, tiny_files
from tests.support.local_server import answering
from tests.support.programs import python
from tests.support.raising import raiser
from tests.support.server import LISTENS
from tests.support.toy import put_broken_bundle, put_bundle


@pytest.fixture
def bundles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shouting_command: None) -> Path:
    """Bundle directory with an upper-casing model, and the command line configured for it."""
    directory = tmp_path / "bundles"
    put_bundle(directory, "shout", "de", "en")
    monkeypatch.setenv("DRAGOMAN_BUNDLES", str(directory))
    return directory


def translate(source: Path, *more: str) -> int:
    return cli.main(["translate", str(source), "--from", "DE", "--to", "en", *more])


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_file_is_translated_line_by_line(
    bundles: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], end: str
) -> None:
    text = "".join(f"zeile {n}\r\n" if n % 3 else "\n" for n in range(500)) + f"\u2028ende{end}"
    (tmp_path / "in.txt").write_bytes(text.encode())
    assert translate(tmp_path / "in.txt") == 0
    out, err = capfdbinary.readouterr()
    assert (out.decode(), err) == (text.upper(), b"")


def error_line(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The only line that a refused command prints."""
    assert cli.main([*arguments]) == 2
    err = capfd.readouterr().err
    assert err.startswith("dragoman: ")
    assert err.count("\n") == 1
    return err


def test_refused_translations_print_one_error_line(
    bundles: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    contents = {"good": b"gut\n", "long": b"gut\n" + b"x" * 100, "odd": b"gut\n\xff\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for name, source, target, more, sentence in (
        ("long", "de", "en", (), "line 2: sentence has 101 tokens; the model reads at most 64"),
        ("odd", "de", "en", (), "line 2: the text is not UTF-8"),
        ("absent", "de", "en", (), "No such file or directory"),
        ("good", "en", "de", (), "on offer: de-en; get one: dragoman models add en-de"),
        ("good", "12", "de", (), "'12' is not"),
        ("good", "de", "en", ("--bundles", "nowhere"), "nowhere is not a directory"),
    ):
        asked = ("translate", str(tmp_path / name), "--from", source, "--to", target, *more)
        assert sentence in error_line(capfd, *asked)
    put_broken_bundle(bundles, "shout")
    asked = ("translate", str(tmp_path / "good"), "--from", "de", "--to", "en")
    assert "shout: manifest has schema 7" in error_line(capfd, *asked)


def test_refused_starts_print_one_error_line(
    bundles: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        in_use = f"port {port} on 127.0.0.1 is in use; choose another with --port"
        assert in_use in error_line(capfd, "serve", "--port", str(port))
    elsewhere = error_line(capfd, "serve", "--host", "192.0.2.1", "--port", "0")
    assert "192.0.2.1 is not an address of this machine" in elsewhere
    with monkeypatch.context() as starting:
        not_ready = DeviceNotReady("the NVIDIA driver is not ready")
        starting.setattr(serve, "available_device", raiser(not_ready))
        starting.setattr(serve, "build", raiser(AssertionError("it serves")))
        assert str(not_ready) in error_line(capfd, "serve", "--port", "0")
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("DRAGOMAN_STATE", str(state))
    (state / "dragoman.db").write_text("no database, " * 100, encoding="utf-8")
    broken = error_line(capfd, "serve", "--port", "0")
    assert broken.startswith(f"dragoman: {state / 'dragoman.db'}: file is not a database; ")
    monkeypatch.setenv("DRAGOMAN_PROT", "1")
    assert "DRAGOMAN_PROT is not a setting; did you" in error_line(capfd, "serve")


def keys(directory: Path, *arguments: str) -> int:
    return cli.main(["keys", *arguments, "--state", str(directory / "state")])


def test_a_key_is_printed_once_and_works_until_it_is_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert keys(tmp_path, "add", "weblate", "--requests-per-minute", "60") == 0
    out, err = capfd.readouterr()
    key = out.removesuffix("\n")
    logged, warning = err.splitlines()
    assert "service.audit: key added actor=user" in logged and logged.endswith("key=weblate")
    assert warning == "dragoman: keep this key; it is stored nowhere else"
    assert key not in err
    assert keys(tmp_path, "add", "mastodon", "--characters-per-month", "5000") == 0
    assert keys(tmp_path, "limit", "weblate", "--models", "a, b", "--languages", "de-en") == 0
    assert keys(tmp_path, "limit", "mastodon", "--bulk", "--characters-per-month", "default") == 0
    assert keys(tmp_path, "limit", "mastodon", "--requests-per-minute", "9") == 0
    assert keys(tmp_path, "limit", "weblate", "--languages", "") == 0
    capfd.readouterr()
    assert keys(tmp_path, "list") == 0
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert capfd.readouterr().out == (
        f"mastodon: added {today}, 9 requests a minute behind others, 0 of unlimited characters "
        "and 0 documents this month\n"
        f"weblate: added {today}, 60 requests a minute, 0 of unlimited characters and "
        "0 documents this month, models a b only\n"
    )
    assert asyncio.run(holder(tmp_path, key)) == "weblate"
    assert keys(tmp_path, "remove", "weblate") == 0
    assert asyncio.run(holder(tmp_path, key)) is None
    assert keys(tmp_path, "remove", "mastodon") == 0
    assert keys(tmp_path, "list") == 0
    place = tmp_path / "state" / "dragoman.db"
    assert capfd.readouterr().out == f"{place} has no keys; see `dragoman keys add`\n"


async def holder(directory: Path, key: str) -> str | None:
    async with Database(directory / "state" / "dragoman.db") as database:
        found = await KeyStore(database).find(key)
    return found.name if found else None


def test_key_is_read_from_an_option_or_from_standard_input(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = "f63c02c5-f056-4a2e-9b3d:fx"
    assert keys(tmp_path, "add", "deepl", "--key", chosen) == 0
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), chosen in err) == (f"{chosen}\n", 1, False)
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert keys(tmp_path, "add", "short", "--key", "-") == 0
    out, err = capfd.readouterr()
    assert (out, err.splitlines()[1]) == ("short\n", "dragoman: a key this short can be guessed")
    for key, name in ((chosen, "deepl"), ("short", "short")):
        assert asyncio.run(holder(tmp_path, key)) == name


def test_failed_key_commands_print_one_error_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    state = ("--state", str(tmp_path / "state"))
    assert keys(tmp_path, "add", "weblate") == 0
    capfd.readouterr()
    for arguments, sentence in (
        (("add", "weblate"), "there is a key named 'weblate' already; rotate, limit or remove it"),
        (("add", "a b"), "'a b' is no name for a key"),
        (("add", "b", "--requests-per-minute", "-1"), "-1 is no limit"),
        (("limit", "weblate", "--languages", "en"), "en permits no pair by itself"),
        (("remove", "b"), "there is no key named 'b'; see `dragoman keys list`"),
    ):
        err = error_line(capfd, "keys", *arguments, *state)
        assert err.startswith(f"dragoman: {sentence}")
    (tmp_path / "state" / "dragoman.db").write_text("no database" * 100)
    assert "file is not a database" in error_line(capfd, "keys", "list", *state)


def test_bundles_are_listed_and_verified_and_the_version_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "bundles"
    Bundle.write(directory / "tiny", MANIFEST, tiny_files(tmp_path / "files"))
    assert cli.main(["models", "verify", "--bundles", str(directory)]) == 0
    line = "tiny: digits → reversed (x-digits-x-reversed), version 1, fp32, "
    assert capfd.readouterr().out.startswith(line)
    (directory / "tiny" / "weights.fp32.bin").unlink()
    assert cli.main(["models", "verify", "--bundles", str(directory)]) == 2
    out = capfd.readouterr().out
    assert out.startswith("tiny: broken: ")
    assert "lacks weights.fp32.bin" in out
    (tmp_path / "empty").mkdir()
    assert cli.main(["models", "verify", "--bundles", str(tmp_path / "empty")]) == 0
    assert capfd.readouterr().out.startswith(f"{tmp_path / 'empty'} holds no bundle; get")
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capfd.readouterr().out == f"dragoman {service.__version__}\n"


def test_numpy_has_one_thread() -> None:
    program = (
        "import os, sys; from service.__main__ import main;"
        "assert 'numpy' not in sys.modules; sys.argv = ['dragoman', 'models', 'list'];"
        "main(); import numpy; print(len(os.listdir('/proc/self/task')))"
    )
    environment = {name: v for name, v in os.environ.items() if name != "OMP_NUM_THREADS"}
    assert python("-c", program, env=environment).splitlines()[-1] == "1"


def start(*program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={k: v for k, v in os.environ.items() if not k.startswith("DRAGOMAN_")},
        cwd=Path(__file__).parent.parent,
        # Tests that run in the background of a shell ignore SIGINT, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_server_prints_its_address_and_stops_without_errors(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    with start("-m", "service", "serve", "--bundles", str(tmp_path), "--port", "0") as server:
        assert server.stderr is not None
        try:
            lines = iter(server.stderr.readline, b"")
            address = next(found[1] for line in lines if (found := LISTENS.match(line.decode())))
            with httpx.Client(base_url=address) as client:
                response = client.get("/livez")
                assert response.status_code == 200
                assert "server" not in response.headers
                assert client.get("/readyz").status_code == 503
            server.send_signal(sent)
            _, err = server.communicate(timeout=20)
        finally:
            server.kill()
    assert server.returncode == code
    assert b"Traceback" not in err
    assert b"uvicorn" not in err


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signal_during_the_imports_of_serve_ends_it_without_a_word(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    with start("-m", "service", "serve", "--bundles", str(tmp_path), "--port", "0") as server:
        status = Path(f"/proc/{server.pid}/status")
        # Python catches SIGINT from the beginning.
        while not caught(status.read_text(), signal.SIGTERM):
            assert server.poll() is None
            time.sleep(0.001)
        server.send_signal(sent)
        _, err = server.communicate(timeout=20)
    assert (server.returncode, err) == (code, b"")


def caught(status: str, number: signal.Signals) -> bool:
    """Whether a process has a handler of the signal, by its file ``status`` of Linux."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return bool(int(mask, 16) & 1 << number - 1)


SHOUTING = """
import sys
import time
from functools import partial
from service import cli
from service.commands import lines
from tests.support.toy import load_shouting
lines.LocalModels = partial(lines.LocalModels, load=load_shouting)
sys.exit(cli.main())
"""


@pytest.mark.slow
def test_line_is_translated_before_next_input_and_interrupt_prints_nothing(tmp_path: Path) -> None:
    put_bundle(tmp_path, "shout", "de", "en")
    languages = ("--from", "de", "--to", "en")
    with start("-c", SHOUTING, "translate", "-", *languages, "--bundles", str(tmp_path)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in (b"eins\n", b"zwei\n"):
                process.stdin.write(line)
                process.stdin.flush()
                assert process.stdout.readline() == line.upper()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 130
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_closed_standard_error_changes_no_output() -> None:
    command = f"{sys.executable} -m service translate absent.txt other.txt --to en 2>&-"
    ran = subprocess.run(command, shell=True, stdout=subprocess.PIPE)
    assert (ran.returncode, ran.stdout) == (2, b"")


def test_closed_standard_output_is_named() -> None:
    command = f"{sys.executable} -m service translate 'Guten Tag' --to en >&-"
    ran = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (2, "dragoman: standard output is closed\n")


@pytest.mark.slow
def test_closed_output_pipe_exits_with_0_and_no_error(tmp_path: Path) -> None:
    put_bundle(tmp_path, "shout", "de", "en")
    (tmp_path / "in.txt").write_text("zeile\n" * 20_000)
    arguments = ("translate", str(tmp_path / "in.txt"), "--from", "de", "--to", "en")
    with start("-c", SHOUTING, *arguments, "--bundles", str(tmp_path)) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ZEILE\n"
            process.stdout.close()
            assert process.wait(timeout=20) == 0
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_client_only_installation_translates_phrases_and_names_the_missing_extra() -> None:
    program = (
        "import sys; sys.modules['pydantic'] = None; from service.__main__ import main; "
        "sys.argv = ['dragoman', *sys.argv[1:]]; sys.exit(main())"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    # Refuses at once; a server that cannot be reached is asked for ten seconds.
    with answering(BaseHTTPRequestHandler) as url:
        for phrase in ("Guten Tag.", "Ja", "Windows.11"):
            ran = run("translate", phrase, "--to", "en", "--url", url)
            assert "Unsupported method ('POST')" in ran.stderr and "pydantic" not in ran.stderr
    ran = run("models", "list")
    assert ran.returncode == 2
    assert ran.stderr == (
        "dragoman: pydantic is not installed; this installation has the client only. "
        "All commands but `translate --url` need the extra cpu or gpu: "
        "pip install 'dragoman-translate[cpu]'\n"
    )
