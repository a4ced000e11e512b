"""Translates files with a bundle in a subprocess, ``python -m service translate``.

A subprocess, because training and service never import each other.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from training.refusal import Refusal

_KEPT = 4096
"""Bytes kept of the subprocess's standard error, to report its last line."""


class TranslationFailed(Refusal):
    """A bundle did not translate a file; the message ends with the service's last line."""


def translate_file(
    bundle: Path,
    source: str,
    target: str,
    input: Path,
    output: Path,
    *,
    beam_size: int | None = None,
    threads: int = 0,
    skip: bool = False,
) -> None:
    """Translate the lines of ``input`` from ``source`` to ``target`` with exactly this bundle.

    A rename creates ``output`` when complete. Partial results lie beside it, and the same call
    resumes from them after an interruption (see docs/bulk.md). Names ending in ``.gz`` are
    compressed. ``beam_size`` defaults to the bundle's; ``threads`` 0 is every core. With ``skip``,
    lines that cannot be translated are left empty and named on standard error; otherwise the first
    one ends the work. Raises ``TranslationFailed``.
    """
    command = [sys.executable, "-m", "service", "translate", str(input), "--output", str(output)]
    command += ["--from", source, "--to", target, "--format", "lines", "--threads", str(threads)]
    command += ["--on-error", "skip" if skip else "stop"]
    if beam_size is not None:
        command += ["--beam-size", str(beam_size)]
    if sys.stderr.isatty():
        command.append("--progress")
    if not bundle.is_dir():
        raise TranslationFailed(f"{bundle} is not a bundle: there is no such directory")
    with tempfile.TemporaryDirectory(prefix="dragoman-bundle-") as directory:
        # The service takes a directory of bundles, so it gets one that holds this bundle only.
        Path(directory, bundle.resolve().name.lstrip(".")).symlink_to(bundle.resolve())
        status, words = _run([*command, "--bundles", directory])
    if status != 0:
        raise TranslationFailed(
            f"{bundle} did not translate {input} from {source} to {target}: {words}"
        )


def _run(command: list[str]) -> tuple[int, str]:
    """Run a command, passing on its standard error; returns its status and last line."""
    output = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while part := process.stderr.read1(_KEPT):  # type: ignore[attr-defined]
            output = (output + part)[-_KEPT:]
            sys.stderr.write(part.decode("utf-8", errors="replace"))
            sys.stderr.flush()
    lines = output.decode("utf-8", errors="replace").replace("\r", "\n").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    if last is None:
        return process.returncode, f"the service ended with {process.returncode} and said nothing"
    return process.returncode, last.removeprefix("dragoman: ")
