"""Figure of learning curves from run logs: loss, BLEU, learning rate, gradient norm and speed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from numpy.typing import NDArray

from training.figures.style import COLOURS, DASHES, WIDTH, magnitudes, rows_ruled, styled, thousands
from training.refusal import Refusal

_POINTS = 200
"""A longer curve is drawn as the means of this many segments."""

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Steps, and values at them."""


@dataclass(frozen=True, slots=True)
class Average:
    """BLEU of a run's averaged checkpoints on its test set."""

    steps: tuple[int, ...]
    bleu: float
    test_set: str


@dataclass(frozen=True, slots=True)
class History:
    """A run's log: one curve for each event and quantity."""

    name: str
    curves: Mapping[tuple[str, str], Curve] = field(repr=False)
    average: Average | None = None

    @classmethod
    def read(cls, path: Path, name: str, average: Average | None = None) -> History:
        """Raises ``Refusal`` if the log is missing, empty or damaged."""
        if not path.is_file():
            raise Refusal(f"{path} does not exist; run `python -m training train RECIPE` first")
        points: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
        text = path.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines(keepends=True):
            # The last line of an active run may be incomplete.
            if not line.endswith("\n"):
                continue
            try:
                record = json.loads(line)
                event, step = record.pop("event"), int(record.pop("step"))
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                raise Refusal(
                    f"{path} has a damaged line, which the next `python -m training train` removes"
                ) from error
            for what, value in record.items():
                if isinstance(value, int | float):
                    steps, values = points.setdefault((event, what), ([], []))
                    steps.append(step)
                    values.append(value)
        if not points:
            raise Refusal(f"{path} tells of no step yet; wait for the run, or name another one")
        return cls(
            name,
            {
                key: (np.array(steps, float), np.array(values))
                for key, (steps, values) in points.items()
            },
            average,
        )


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    unit: str
    event: str
    what: str
    log: bool = False


_PANELS = (
    _Panel("Loss in training, label smoothing included", "nats per token", "train", "loss"),
    _Panel("Loss on the validation set", "nats per token", "valid", "loss"),
    _Panel("BLEU on the validation set, greedy search", "BLEU", "valid", "bleu"),
    _Panel("Learning rate", "learning rate", "train", "learning_rate"),
    _Panel("Norm of the gradient, before clipping", "norm", "train", "gradient_norm", log=True),
    _Panel("Speed, source and target together", "tokens per second", "speed", "tokens_per_second"),
)


@styled
def learning_curves(histories: Sequence[History]) -> Figure:
    """One panel for each quantity that any of the logs has."""
    panels = [
        panel for panel in _PANELS if any((panel.event, panel.what) in h.curves for h in histories)
    ]
    lines = (len(panels) + 1) // 2
    figure = Figure(figsize=(WIDTH, 2.7 * lines + 0.8))
    figure.suptitle("Learning curves", x=0.01, ha="left")
    grid = GridSpec(lines, 2, figure)
    for i, panel in enumerate(panels):
        # A last panel without neighbour spans both columns.
        alone = i % 2 == 0 and i + 1 == len(panels)
        axes = figure.add_subplot(grid[i // 2, :] if alone else grid[i // 2, i % 2])
        _draw(axes, panel, histories)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4)
    return figure


def binned(curve: Curve, count: int = _POINTS) -> Curve:
    """The curve as means over at most ``count`` segments of equally many points."""
    steps, values = curve
    if len(steps) <= count:
        return curve
    return _means(steps, count), _means(values, count)


def _means(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.array([part.mean() for part in np.array_split(values, count)])


def _draw(axes: Axes, panel: _Panel, histories: Sequence[History]) -> None:
    for i, history in enumerate(histories):
        if (panel.event, panel.what) not in history.curves:
            continue
        steps, values = binned(history.curves[panel.event, panel.what])
        axes.plot(
            steps, values, color=COLOURS[i], linestyle=DASHES[i], linewidth=1.5, label=history.name
        )
        if panel.what == "bleu" and history.average is not None:
            _mark(axes, history.average, COLOURS[i])
    if panel.log:
        magnitudes(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.set(title=panel.title, xlabel="step", ylabel=panel.unit)
    axes.set_xlim(left=0)
    thousands(axes)
    marks = [line for line in axes.lines if str(line.get_label()).startswith("averaged")]
    if marks:
        axes.legend(handles=marks, loc="lower right")
    rows_ruled(axes)


def _mark(axes: Axes, average: Average, colour: str) -> None:
    """Mark the averaged steps at the height of their BLEU."""
    test_set = average.test_set.rpartition("/")[2]
    axes.plot(
        [min(average.steps), max(average.steps)],
        [average.bleu] * 2,
        color=colour,
        linewidth=5,
        solid_capstyle="butt",
        label=f"averaged, on {test_set}: {average.bleu:.1f}",
    )
