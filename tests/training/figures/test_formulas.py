"""Tests of the numbers in the figures, and of learning curves read from logs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from models.transformer.layers import sinusoids
from tests.support.tiny_training import tiny_config
from training.data.batching import Planned
from training.evaluation.diagnostics import Bucket
from training.figures.by_length import bleu_by_length
from training.figures.curves import Average, History, binned, learning_curves
from training.figures.gradients import measure
from training.figures.lengths import in_any_order, padding, wasted
from training.figures.material import Material
from training.figures.positions import positions
from training.figures.reversal import reversal
from training.figures.smoothing import ODDS, penalty
from training.figures.style import label_of, write
from training.refusal import Refusal
from training.run_directory import RunDirectory

PAD = 0


def test_learned_positions_are_drawn_below_the_sinusoids() -> None:
    table = sinusoids(12, 16)
    assert len(positions(table, table, "a run").axes) == 2 * len(positions(table).axes)


@pytest.mark.parametrize("amount", [0.05, 0.1, 0.4])
def test_penalty_is_zero_at_the_smoothed_share(amount: float) -> None:
    losses = penalty(ODDS.tolist(), 5, amount, PAD).numpy()
    # One right token and three wrong ones: x / (x + 3) = 1 − ε.
    best = (1 - amount) * 3 / amount
    assert ODDS[np.argmin(losses)] == pytest.approx(best, rel=0.03)
    assert float(penalty([best], 5, amount, PAD)) == pytest.approx(0, abs=1e-5)
    assert losses.min() >= -1e-5 and losses[0] > 0.1 and losses[-1] > 0.05


def test_with_post_norm_lowest_layers_have_the_smallest_first_gradients() -> None:
    config = tiny_config(encoder_layers=12, decoder_layers=12, width=32, heads=4, feed_forward=64)
    after, before = (measure(config, norm, sentences=4, length=9) for norm in ("after", "before"))
    assert after.decoder[-1] > 5 * after.decoder[0]
    assert max(before.decoder) < 5 * min(before.decoder)
    # Dropout does not change the measurement.
    config = tiny_config()
    dropping = replace(config, residual_dropout=0.5, attention_dropout=0.5)
    assert measure(config, "after", length=9) == measure(dropping, "after", length=9)


def test_pieces_within_a_word_are_marked() -> None:
    assert [label_of(piece) for piece in ("▁a", "b", "▁", "</s>")] == ["a", "·b", "▁", "</s>"]


def test_head_with_most_attention_on_the_antidiagonal_is_shown() -> None:
    other, backwards = torch.eye(4), torch.eye(4).flip(1).roll(-1, 1)
    figure = reversal(
        [torch.stack((other, backwards))], ["<s>", *"XYZ"], [*"ZYX", "</s>"], {3: 1.0}
    )
    (shown,) = (axes.images[0] for axes in figure.axes if axes.images)
    np.testing.assert_array_equal(shown.get_array(), backwards.numpy())


def test_padding_share_counts_cells_without_tokens() -> None:
    source, target = np.array([1, 3]), np.array([2, 2])
    # Rows of lengths 2 and 4 in one 2 × 4 tensor, and of 3 and 3 in another.
    assert padding(source, target, [Planned(np.array([0, 1]), 2)]) == pytest.approx(2 / 14)
    # The same with lengths rounded up to 4 and three rows.
    assert padding(source, target, [Planned(np.array([0, 1]), 3)], 4) == pytest.approx(12 / 24)


def test_sorting_reduces_padding() -> None:
    rng = np.random.default_rng(1)
    source = rng.integers(3, 60, 2000)
    target = np.maximum(1, source + rng.integers(-3, 4, 2000))
    budgets = (200, 1000)
    ways = wasted(source, target, budgets)
    any_order, in_order, bucketed = ways.values()
    assert all(a > 2 * b for a, b in zip(any_order, in_order, strict=True))
    assert all(a > b for a, b in zip(any_order, bucketed, strict=True))


def test_unsorted_batches_hold_each_row_once_within_the_budget() -> None:
    rng = np.random.default_rng(2)
    order, sizes = rng.permutation(300), rng.integers(1, 40, 300)
    batches = in_any_order(order, sizes[order], 100)
    assert np.concatenate([batch.indices for batch in batches]).tolist() == order.tolist()
    assert all((sizes[b.indices].max() + 1) * b.rows <= 100 for b in batches)
    assert len(batches) < 300 * math.ceil(40 / 20)


def test_bars_of_few_sentences_are_pale() -> None:
    buckets = {
        "one": (Bucket(1, 5, 400, 30.0), Bucket(6, None, 3, 20.0)),
        "two": (Bucket(6, None, 100, 25.0),),
    }
    (axes,) = bleu_by_length("a set", buckets).axes
    assert [bar.get_alpha() is None for bar in axes.patches] == [True, False, True]


def test_largest_figure_has_bounded_size(tmp_path: Path) -> None:
    figure = Figure(figsize=(1, 1000))
    write(figure, tmp_path / "long.png")
    with Image.open(tmp_path / "long.png") as image:
        assert image.size == (16, 16_000)


def write_log(path: Path, steps: int, scale: float, **valid: float) -> Path:
    lines = [{"event": "train", "step": s, "loss": scale / s} for s in range(1, steps + 1)]
    lines.append({"event": "valid", "step": steps, **valid})
    lines.append({"event": "speed", "step": steps, "tokens_per_second": 5.0, "device": "cpu"})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_every_run_has_its_curves(tmp_path: Path) -> None:
    average = Average((20, 25), 40.0, "a/test")
    histories = [
        History.read(write_log(tmp_path / "a", 30, 2.0, bleu=30.0), "a", average),
        History.read(write_log(tmp_path / "b", 20, 3.0, bleu=20.0, loss=1.0), "b"),
    ]
    panels = {axes.get_title(loc="left"): axes for axes in learning_curves(histories).axes}
    assert [title.split(",")[0] for title in panels] == [
        "Loss in training",
        "Loss on the validation set",
        "BLEU on the validation set",
        "Speed",
    ]
    losses, valid_losses, bleus, speeds = (
        [str(line.get_label()) for line in axes.lines] for axes in panels.values()
    )
    assert (losses, valid_losses, len(speeds)) == (["a", "b"], ["b"], 2)
    assert "averaged, on test: 40.0" in bleus


def test_thousands_of_steps_are_drawn_as_means() -> None:
    steps, values = binned((np.arange(1000.0), np.arange(1000.0) ** 2), 10)
    assert len(steps) == len(values) == 10
    assert steps[0] == np.arange(100).mean() and values[0] == (np.arange(100.0) ** 2).mean()


def test_log_of_an_active_run_is_read_to_its_last_complete_line(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", 3, 1.0)
    with path.open("a") as file:
        file.write('{"event": "train", "st')
    steps, _ = History.read(path, "a").curves["train", "loss"]
    assert steps.tolist() == [1, 2, 3]
    path.write_text("")
    with pytest.raises(Refusal, match="no step"):
        History.read(path, "a")
    for damaged in (b"[]\n", b"\xff\n", b'{"event": "train", "step": "x"}\n'):
        path.write_bytes(damaged)
        with pytest.raises(Refusal, match="damaged line"):
            History.read(path, "a")


def test_runs_with_equal_names_are_labelled_by_their_directories() -> None:
    runs = [RunDirectory(Path(path)) for path in ("a/deep", "b/deep", "a/flat")]
    material = Material(tuple(runs), toy=runs[2], data=Path("data"))
    assert [material.name_of(run) for run in runs] == ["a/deep", "b/deep", "flat"]
