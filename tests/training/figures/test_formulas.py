"""Tests that drawn data equals the formulas, read back from the figures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from PIL import Image

from models.transformer.attention import subsequent_mask
from models.transformer.layers import sinusoids
from tests.support.tiny_training import tiny_config
from training.data.batching import Planned
from training.evaluation.diagnostics import Bucket
from training.figures.attention import attention
from training.figures.by_length import bleu_by_length
from training.figures.gradients import gradients, measure
from training.figures.lengths import in_any_order, lengths, padding, wasted
from training.figures.masks import masks
from training.figures.positions import likeness, positions
from training.figures.reversal import reversal
from training.figures.schedules import Panel, schedules, steps_of
from training.figures.smoothing import ODDS, penalty, smoothing
from training.figures.style import label_of, write
from training.loop.objective import smoothed_targets
from training.loop.schedule import cosine, noam

PAD = 0


def axes_of(figure: Figure | SubFigure, title: str) -> Axes:
    """The panel whose title starts with ``title``."""
    (found,) = (axes for axes in figure.axes if axes.get_title(loc="left").startswith(title))
    return found


def image_of(axes: Axes) -> np.ndarray:
    (image,) = axes.images
    return np.asarray(image.get_array())


def curves_of(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines if line.get_label()[0] != "_"}


def test_drawn_masks_equal_those_of_attention() -> None:
    ids = torch.tensor([[1, 2, 3, 4], [1, 2, PAD, PAD]])
    pieces = [["<s>", "a", "b", "c"], ["<s>", "d", "<pad>", "<pad>"]]
    figure = masks(ids, PAD, pieces)
    subsequent = image_of(axes_of(figure, "Subsequent mask"))
    np.testing.assert_array_equal(subsequent, subsequent_mask(4).numpy())
    np.testing.assert_array_equal(image_of(axes_of(figure, "Padding mask")), ids.numpy() != PAD)
    both = [axes for axes in figure.axes if axes.get_xlabel().startswith("sentence")]
    for axes, visible in zip(both, ids.numpy() != PAD, strict=True):
        np.testing.assert_array_equal(image_of(axes), subsequent & visible)


def test_drawn_positions_equal_those_of_the_network() -> None:
    table = sinusoids(20, 32)
    figure = positions(table)
    np.testing.assert_array_equal(image_of(axes_of(figure, "The table")), table.numpy())
    for label, line in curves_of(axes_of(figure, "Some dimensions")).items():
        dimension = int(label.removeprefix("dimension "))
        np.testing.assert_array_equal(line.get_ydata(), table[:, dimension].numpy())


def test_similarity_of_sinusoids_depends_on_distance_alone() -> None:
    alike = likeness(sinusoids(30, 16))
    for distance in range(30):
        diagonal = alike.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    torch.testing.assert_close(alike.diagonal(), torch.ones(30))


def test_learned_positions_are_drawn_below_the_sinusoids() -> None:
    learned = torch.randn(12, 16, generator=torch.Generator().manual_seed(1))
    figure = positions(sinusoids(12, 16), learned, "a run")
    tables = [axes for axes in figure.axes if axes.get_title(loc="left") == "The table"]
    np.testing.assert_array_equal(image_of(tables[1]), learned.numpy())


def test_drawn_curves_equal_the_schedules() -> None:
    panels = [
        Panel("noam", {"512, 4000": noam(512, 4000), "256, 4000": noam(256, 4000)}, 20_000),
        Panel("ours", {"cosine": cosine(1e-3, 100, 5_000)}, 5_000),
        Panel("schedules", {"noam": noam(64, 10)}, 50),
    ]
    figure = schedules(*panels)
    for panel in panels:
        drawn = curves_of(axes_of(figure, panel.title))
        assert list(drawn) == list(panel.schedules)
        for label, schedule in panel.schedules.items():
            steps = steps_of(panel)
            np.testing.assert_array_equal(drawn[label].get_xdata(), steps)
            expected = [schedule(step) for step in steps.tolist()]
            np.testing.assert_array_equal(drawn[label].get_ydata(), expected)


def test_drawn_targets_equal_the_smoothed_targets() -> None:
    targets = torch.tensor([2, 1, 3])
    figure = smoothing(targets, 5, 0.4, PAD, (0.0, 0.1))
    shown = image_of(axes_of(figure, "The targets"))
    np.testing.assert_array_equal(shown, smoothed_targets(targets, 5, 0.4, PAD).numpy())


@pytest.mark.parametrize("amount", [0.05, 0.1, 0.4])
def test_penalty_is_zero_at_the_smoothed_share(amount: float) -> None:
    figure = smoothing(torch.tensor([1]), 5, 0.4, PAD, (0.0, amount))
    curve = curves_of(axes_of(figure, "What confidence costs"))[f"ε = {amount:g}"]
    odds, losses = (np.asarray(each) for each in curve.get_data())
    # One right token and three wrong ones: x / (x + 3) = 1 − ε.
    best = (1 - amount) * 3 / amount
    assert odds[np.argmin(losses)] == pytest.approx(best, rel=0.03)
    assert float(penalty([best], 5, amount, PAD)) == pytest.approx(0, abs=1e-5)
    assert losses.min() >= -1e-5 and losses[0] > 0.1 and losses[-1] > 0.05


def test_confidence_without_smoothing_has_no_loss() -> None:
    losses = penalty(ODDS.tolist(), 5, 0.0, PAD).numpy()
    np.testing.assert_allclose(losses, -np.log(ODDS / (ODDS + 3)), atol=1e-5)
    assert (np.diff(losses) < 0).all()


def test_with_post_norm_lowest_layers_have_the_smallest_first_gradients() -> None:
    config = tiny_config(encoder_layers=12, decoder_layers=12, width=32, heads=4, feed_forward=64)
    after, before = (measure(config, norm, sentences=4, length=9) for norm in ("after", "before"))
    assert after.decoder[-1] > 5 * after.decoder[0]
    assert max(before.decoder) < 5 * min(before.decoder)
    drawn = axes_of(gradients({"after": after, "before": before}, "tiny"), "Decoder").lines
    np.testing.assert_allclose(np.asarray(drawn[0].get_ydata()), after.decoder)
    np.testing.assert_allclose(np.asarray(drawn[1].get_ydata()), before.decoder)


def test_gradients_are_measured_without_dropout() -> None:
    config = tiny_config()
    dropping = replace(config, residual_dropout=0.5, attention_dropout=0.5)
    assert measure(config, "after", length=9) == measure(dropping, "after", length=9)


def test_every_head_of_every_layer_is_shown_with_its_pieces() -> None:
    maps = {2: torch.rand(6, 3, 4), 5: torch.rand(6, 3, 4)}
    figure = attention("cross", maps, ["<s>", "▁a", "b"], ["▁c", "d", ".", "</s>"])
    panels = [axes for axes in figure.axes if axes.images and axes.texts]
    shown = {axes.texts[0].get_text(): axes for axes in panels}
    assert list(shown) == [f"layer {n}, head {h}" for n in (2, 5) for h in range(1, 7)]
    np.testing.assert_array_equal(image_of(shown["layer 5, head 6"]), maps[5][5].numpy())
    first = shown["layer 2, head 1"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["<s>", "a", "·b"]
    assert [label.get_text() for label in first.get_xticklabels()] == ["c", "·d", ".", "</s>"]


def test_piece_of_a_single_blank_is_visible() -> None:
    assert label_of("▁") == "▁"


def test_head_with_most_attention_on_the_antidiagonal_is_shown() -> None:
    other, backwards = torch.eye(4), torch.eye(4).flip(1).roll(-1, 1)
    figure = reversal(
        [torch.stack((other, backwards))], ["<s>", *"XYZ"], [*"ZYX", "</s>"], {3: 1.0}
    )
    np.testing.assert_array_equal(image_of(axes_of(figure, "Cross-attention")), backwards.numpy())


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
    axes = axes_of(lengths(source, target, ways, budgets), "How much is padding")
    for way, line in curves_of(axes).items():
        assert list(np.asarray(line.get_ydata())) == ways[way]


def test_unsorted_batches_hold_each_row_once_within_the_budget() -> None:
    rng = np.random.default_rng(2)
    order, sizes = rng.permutation(300), rng.integers(1, 40, 300)
    batches = in_any_order(order, sizes[order], 100)
    assert np.concatenate([batch.indices for batch in batches]).tolist() == order.tolist()
    assert all((sizes[b.indices].max() + 1) * b.rows <= 100 for b in batches)
    assert len(batches) < 300 * math.ceil(40 / 20)


def test_bars_are_the_bleu_of_buckets() -> None:
    buckets = {
        "one": (Bucket(1, 5, 400, 30.0), Bucket(6, None, 3, 20.0)),
        "two": (Bucket(6, None, 100, 25.0),),
    }
    (axes,) = bleu_by_length("a set", buckets).axes
    assert [bar.get_height() for bar in axes.patches] == [30.0, 20.0, 25.0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1–5", "6 and more"]
    assert [bar.get_alpha() is None for bar in axes.patches] == [True, False, True]


def test_largest_figure_has_bounded_size(tmp_path: Path) -> None:
    figure = Figure(figsize=(1, 1000))
    write(figure, tmp_path / "long.png")
    with Image.open(tmp_path / "long.png") as image:
        assert image.size == (16, 16_000)
