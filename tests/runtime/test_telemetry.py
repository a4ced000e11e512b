"""Tests that ONNX Runtime telemetry is disabled and stores no machine identifier."""

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
    [("service.runtime.sessions", "open_session"), ("models.export.session", "open_graph")],
)
def test_onnx_runtime_writes_no_telemetry_files(module: str, name: str, tmp_path: Path) -> None:
    graph = str(ROOT / "bundles" / "general-de-en" / "encoder.int8.onnx")
    (tmp_path / "temporary").mkdir()
    # A minimal environment, because ONNX Runtime also disables telemetry in tests and CI.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment["TMPDIR"] = str(tmp_path / "temporary")
    subprocess.run(
        [sys.executable, "-c", RUN.format(module=module, name=name, graph=graph)],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
