"""What is translated is nobody else's business, nor that it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RUN = """
from {module} import {name}
import onnxruntime
onnxruntime.InferenceSession({graph!r})
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [("service.runtime.sessions", "open_session"), ("training.export.session", "open_graph")],
)
def test_onnx_runtime_keeps_no_identifier_and_has_nothing_to_send(
    module: str, name: str, tmp_path: Path
) -> None:
    graph = str(ROOT / "bundles" / "everyday-de-en" / "encoder.int8.onnx")
    (tmp_path / "temporary").mkdir()
    # It is silent in tests and CI, too, which it knows by their variables.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment["TMPDIR"] = str(tmp_path / "temporary")
    subprocess.run(
        [sys.executable, "-c", RUN.format(module=module, name=name, graph=graph)],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
