from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from service import cli
from service.catalogue.loaded_model import LoadedModel
from service.commands import bench
from service.loading.choices import FILE_NAME
from service.loading.loader import load_model

BUNDLES = Path(__file__).parents[1] / "bundles"


def test_bench_prints_times_and_speeds_and_keeps_the_choice_of_a_quiet_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def loading(*arguments: Any) -> LoadedModel:
        model = await load_model(*arguments)
        print("a log line")
        return model

    monkeypatch.setattr(bench, "load_model", loading)
    monkeypatch.setattr(bench, "_SECONDS", 0)
    monkeypatch.setattr(bench.processor, "timed", lambda work: (work(), 1.0, 0.0))
    monkeypatch.setenv("DRAGOMAN_STATE", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_THREADS", "2")
    assert cli.main(["bench", "general-de-en", "--bundles", str(BUNDLES)]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^ +(4|16|64) +\d+\.\d\d", printed, re.MULTILINE) == ["4", "16", "64"]
    speeds = re.findall(r"^ +(\d+) +([\d,]+) +(\d+\.\d)$", printed, re.MULTILINE)
    assert [sentences for sentences, _, _ in speeds] == ["1", "8", "32", "64"]
    (choice,) = json.loads((tmp_path / FILE_NAME).read_text()).values()
    assert choice["many"]["threads"] in (1, 2)
    # The model is loaded before the header of its speeds.
    assert printed.index("a log line") < printed.index("sentences")
    assert cli.main(["bench", "missing", "--bundles", str(BUNDLES)]) == 2
    message = capsys.readouterr().err
    assert "missing" in message and "general-de-en" in message
