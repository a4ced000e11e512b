"""Test that importing needs the serving environment only."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.bundle.bundle import Bundle
from tests.support.checkpoints import sentences, write_m2m100, write_marian
from tests.support.programs import python

PROGRAM = """
import sys

for absent in ("torch", "transformers", "training"):
    sys.modules[absent] = None  # an import of it raises ModuleNotFoundError
from service.cli import main

sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["pickled MarianMT in int8", "M2M100"])
def test_models_are_imported_where_torch_cannot_be_imported(tmp_path: Path, kind: str) -> None:
    arguments = ["models", "add", str(tmp_path / "model"), "--bundles", str(tmp_path / "bundles")]
    if kind == "M2M100":
        write_m2m100(tmp_path / "model", encoder_layers=1, decoder_layers=1)
        arguments += ["--languages", "de", "en", "--precisions", "fp32", "fp16"]
    else:
        write_marian(tmp_path / "model", safe=False, encoder_layers=1, decoder_layers=1)
        (tmp_path / "text").write_text("\n".join(sentences("source", 12)), encoding="utf-8")
        arguments += ["--calibrate", str(tmp_path / "text")]
    assert "published" in python("-c", PROGRAM, *arguments)
    manifest = Bundle.open(tmp_path / "bundles" / "model").manifest
    expected = ("fp32", "fp16") if kind == "M2M100" else ("int8", "fp16")
    assert manifest.precisions == expected
