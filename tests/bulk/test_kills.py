"""End-to-end tests of ``dragoman translate`` processes that are killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from random import Random

import pytest

from models.bundle.bundle import Bundle
from tests.bulk.quick import translated
from tests.support.programs import ROOT
from tests.support.toy import put_bundle

BUNDLE = ROOT / "bundles" / "general-de-en"


def start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", module, "translate", *arguments, "--from", "de", "--to", "en"],
        stderr=subprocess.PIPE,
        env={k: v for k, v in os.environ.items() if not k.startswith("DRAGOMAN_")},
        cwd=ROOT,
    )


def resident(process: subprocess.Popen[bytes]) -> int:
    """Resident memory in megabytes; 0 once the process has ended."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) >> 10
    return 0


def killed_at(process: subprocess.Popen[bytes], unfinished: Path, size: int) -> list[int]:
    """Kill a process once its output has ``size`` bytes; returns samples of its memory in MB, from
    when it has written something.

    Returns also if the process ends by itself.
    """
    taken = []
    before = _size(unfinished)
    while process.poll() is None:
        if _size(unfinished) > before:
            taken.append(resident(process))
        if _size(unfinished) >= size:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.01)
    process.wait()
    return taken


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.mark.slow
def test_a_large_file_survives_three_kills_with_constant_memory(tmp_path: Path) -> None:
    put_bundle(tmp_path / "bundles", "quick")
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"Zeile {number}" for number in range(40_000)]
    source.write_text("\n".join(lines))
    expected = "\n".join(map(translated, lines))
    random = Random(1)
    arguments = (str(source), "-o", str(target), "--bundles", str(tmp_path / "bundles"))
    unfinished = tmp_path / "out.txt.unfinished"
    begun = 0
    for number in (1, 2, 3):
        at = int(len(expected) * (number - random.random() * 0.5) / 4)
        with start("tests.bulk.quick", *arguments, "--beam-size", "1") as process:
            killed_at(process, unfinished, at)
            assert process.returncode == -signal.SIGKILL
        assert not target.exists()
        assert begun <= unfinished.stat().st_size
        begun = at
    with start("tests.bulk.quick", *arguments, "--beam-size", "1") as process:
        taken = killed_at(process, unfinished, 1 << 40)
        assert process.stderr is not None
        assert b"lines already; continuing after that" in process.stderr.read()
        assert process.returncode == 0
    assert target.read_text() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundles", "in.txt", "out.txt"]
    early, late = taken[: len(taken) // 2], taken[-len(taken) // 5 : -1]
    assert max(late) - max(early) < 24


@pytest.mark.slow
def test_a_killed_and_resumed_job_gives_the_same_output_with_a_real_model(tmp_path: Path) -> None:
    if not BUNDLE.is_dir():
        pytest.skip("the committed bundle is not here")
    captions = [example.source for example in Bundle.open(BUNDLE).manifest.examples]
    source = tmp_path / "in.txt"
    # Long lines give a dozen blocks, so that much is left to do after the last kill.
    made = (f"{caption} {n}{' ' * 24_000}\n" for n, caption in enumerate(cycle(captions)))
    source.write_text("".join(islice(made, 500)))
    whole, broken = tmp_path / "whole.txt", tmp_path / "broken.txt"
    with start("service", str(source), "-o", str(whole), "--beam-size", "1") as process:
        assert process.wait() == 0
    unfinished = tmp_path / "broken.txt.unfinished"
    for part in (0.0, 0.3, 0.6):
        with start("service", str(source), "-o", str(broken), "--beam-size", "1") as process:
            killed_at(process, unfinished, int(whole.stat().st_size * part))
            assert process.returncode == -signal.SIGKILL
    with start("service", str(source), "-o", str(broken), "--beam-size", "1") as process:
        assert process.wait() == 0
    assert broken.read_bytes() == whole.read_bytes()
