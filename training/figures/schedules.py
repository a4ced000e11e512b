"""Figure of learning-rate schedules: equation 3 of the paper, and alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from training.figures.style import (
    COLOURS,
    DASHES,
    WIDTH,
    legend_above,
    rows_ruled,
    styled,
    thousands,
)
from training.loop.schedule import Schedule

_POINTS = 400


@dataclass(frozen=True, slots=True)
class Panel:
    """Schedules by name, compared over their first ``steps`` steps."""

    title: str
    schedules: Mapping[str, Schedule]
    steps: int


@styled
def schedules(above: Panel, left: Panel, right: Panel) -> Figure:
    figure = Figure(figsize=(WIDTH, 6.6))
    figure.suptitle("Learning-rate schedules", x=0.01, ha="left")
    axes = figure.subplot_mosaic([["above", "above"], ["left", "right"]])
    _draw(axes["above"], above, 3)
    _draw(axes["left"], left, 2)
    _draw(axes["right"], right, 1)
    return figure


def steps_of(panel: Panel) -> np.ndarray:
    """The steps at which a panel's curves are computed; sharp peaks need many."""
    return np.unique(np.linspace(1, panel.steps, _POINTS).round().astype(int))


def _draw(axes: Axes, panel: Panel, columns: int) -> None:
    steps = steps_of(panel)
    for i, (label, schedule) in enumerate(panel.schedules.items()):
        axes.plot(
            steps,
            [schedule(step) for step in steps.tolist()],
            color=COLOURS[i],
            linestyle=DASHES[i],
            label=label,
        )
    axes.set(title=panel.title, xlabel="step", ylabel="learning rate", xlim=(0, panel.steps))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:.4g}"))
    thousands(axes, 5)
    rows_ruled(axes)
    legend_above(axes, ncols=min(len(panel.schedules), columns))
