from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from benchmarks import training
from benchmarks.plain_training import PlainLoop, PlainTransformer
from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.transformer import build
from tests.support.tiny_training import tiny_config
from training.data.batching import BatchLoader
from training.data.portions import PortionLoader

TINY = training.Size(tiny_config(max_length=128), 600, 600)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(training.SIZES, "small", TINY)
    monkeypatch.setattr(training, "PAIRS", 200)


def test_the_plain_loop_has_as_many_weights_and_learns(tmp_path: Path) -> None:
    shards = training._shards("small", argparse.Namespace(run=None), tmp_path / "shards")
    (batch,) = PortionLoader(BatchLoader(shards, SPECIAL_IDS, 600, 1), 1).next().batches
    loop = PlainLoop(TINY.config, torch.device("cpu"), None, rate=1e-2)
    # A stack of nn.Transformer always ends with a norm.
    plain = sum(parameter.numel() for parameter in PlainTransformer(TINY.config).parameters())
    assert plain == build(TINY.config, 1).num_parameters + 4 * TINY.config.width
    losses = [loop.step(batch) for _ in range(8)]
    assert losses[-1] < 0.95 * losses[0]


def test_result_is_printed_as_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rounds", "2", "--steps", "1", "--warm-up", "1", "--device", "cpu"]
    assert training.main([*options, "--precision", "fp32"]) == 0
    table, document = capsys.readouterr().out.splitlines()
    assert table.startswith("small  fp32    600 tokens a batch: ours ")
    (pair,) = json.loads(document)["pairs"]
    assert pair["least"] <= pair["ratio"] <= pair["greatest"]
    assert pair["ours"]["tokens_per_second"] > 0
    assert pair["ours"]["utilisation"] is None
