"""Draws the tree of a search as SVG or PNG: a column for each step, candidates by rank.

Long searches give a picture of bounded size: columns shrink, then labels and low ranks are left
out. matplotlib is imported when the first picture is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from service.engine.search_tree import ROOT, Fate, RankedCandidate
from service.figures.labels import INK, LabelWriter, resolution
from service.inspection.recorded_search import RecordedSearch

Format = Literal["svg", "png"]

MOST_DRAWN = 4096
"""Candidates of a picture."""

_COLUMN, _RANK = 0.95, 0.36
"""Inches from step to step, at most, and from rank to rank."""
_LONGEST = 60.0
"""Inches of all columns together, at most."""
_LEAST_LABELLED = 0.5
"""Inches of a column with labels."""
_WIDTH, _HEIGHT = 0.74, 0.8
"""Size of a node, in columns and ranks."""
_SIDE, _ABOVE, _BELOW = 0.2, 0.4, 0.6
"""Inches of the margins."""
_NARROWEST = 5.0
"""Inches of the picture, so that the key fits."""
_FONT_SIZE = 7.0
_LONGEST_SOURCE = 100
"""Characters of the source above the tree."""
_QUIET, _WAY, _WAY_GROUND = "#8a919c", "#3a6fb5", "#e3ecf6"
_FRAMES: dict[Fate, tuple[str, float, str]] = {
    "kept": (INK, 0.7, "solid"),
    "finished": (INK, 2.2, "solid"),
    "pruned": (_QUIET, 0.7, "dotted"),
    "dropped": (_QUIET, 0.7, "dotted"),
}
"""Colour, width in points and style of a frame."""
_KEY = "frame: kept · thick: ends a hypothesis · dotted: pruned or dropped · blue: the translation"


@dataclass(frozen=True, slots=True)
class _Node:
    candidate: RankedCandidate
    step: int
    rank: int
    wins: bool

    @property
    def frame(self) -> tuple[str, float, str]:
        colour, width, style = _FRAMES[self.candidate.fate]
        return (_WAY if self.wins else colour), width, style


def draw(found: RecordedSearch, format: Format) -> bytes:
    """A picture of the tree. Blocks; call from one thread at a time."""
    import matplotlib
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    nodes = _nodes(found)
    steps = max(1, len(found.tree.steps))
    ranks = 1 + max((node.rank for node in nodes.values()), default=0)
    column = min(_COLUMN, _LONGEST / steps)
    inside = steps * column, ranks * _RANK
    size = max(_NARROWEST, inside[0] + 2 * _SIDE), inside[1] + _ABOVE + _BELOW
    figure, put = Figure(figsize=size, facecolor="white"), LabelWriter()
    axes = figure.add_axes(
        (_SIDE / size[0], _BELOW / size[1], inside[0] / size[0], inside[1] / size[1])
    )
    axes.set(xlim=(-0.5, steps - 0.5), ylim=(ranks - 0.5, -0.5), yticks=[])
    axes.set_frame_on(False)
    axes.tick_params(length=0, labelsize=_FONT_SIZE, labelcolor=_QUIET)
    shown = range(0, steps, 1 + steps // 64)
    axes.set_xticks(shown, [str(step + 1) for step in shown])
    for wins, colour, width in ((False, _QUIET, 0.5), (True, _WAY, 2.0)):
        lines = [
            _line(nodes[node.candidate.parent], node)
            for node in nodes.values()
            if node.wins is wins and node.candidate.parent in nodes
        ]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=1))
    frames = [node.frame for node in nodes.values()]
    corners = [(node.step - _WIDTH / 2, node.rank - _HEIGHT / 2) for node in nodes.values()]
    axes.add_collection(
        PatchCollection(
            [Rectangle(corner, _WIDTH, _HEIGHT) for corner in corners],
            facecolors=[_WAY_GROUND if node.wins else "white" for node in nodes.values()],
            edgecolors=[colour for colour, _, _ in frames],
            linewidths=[width for _, width, _ in frames],
            linestyles=[style for _, _, style in frames],
            zorder=2,
        )
    )

    def text(x: float, y: float, words: str, **look: object) -> None:
        put(lambda shown, **how: axes.text(x, y, shown, va="center", **how), words, **look)

    characters = int(column * _WIDTH * 72 / (_FONT_SIZE * 0.62))
    for node in nodes.values() if column >= _LEAST_LABELLED else ():
        piece = found.pieces[node.candidate.token]
        piece = piece if len(piece) <= characters else piece[: characters - 1] + "…"
        text(node.step, node.rank - 0.15, piece, fontsize=_FONT_SIZE, ha="center")
        score = f"{node.candidate.score:.2f}".replace("-", "−")
        text(node.step, node.rank + 0.22, score, fontsize=_FONT_SIZE - 2, ha="center")
    source = " ".join(found.source_pieces)
    source = source if len(source) <= _LONGEST_SOURCE else source[: _LONGEST_SOURCE - 1] + "…"
    left = {"x": _SIDE / size[0], "ha": "left"}
    put(figure.suptitle, source, fontsize=9, y=1 - 0.1 / size[1], va="top", **left)
    put(figure.supxlabel, _KEY, fontsize=_FONT_SIZE, y=0.1 / size[1], va="bottom", **left)
    file = io.BytesIO()
    # The same tree gives the same bytes. Text stays text, which can be searched and read aloud.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tree"}):
        metadata = {"Date": None} if format == "svg" else {}
        figure.savefig(file, format=format, dpi=resolution(size), metadata=metadata)
    return file.getvalue()


def _nodes(found: RecordedSearch) -> dict[int, _Node]:
    """The nodes that are drawn, by the ids of their candidates."""
    steps = found.tree.steps
    way, id = set[int](), found.winner
    every = [each for step in steps for each in step]
    while id != ROOT:
        way.add(id)
        id = every[id - 1].parent
    ranks = MOST_DRAWN // max(1, len(steps))
    return {
        candidate.id: _Node(candidate, step, rank, candidate.id in way)
        for step, ranked in enumerate(steps)
        for rank, candidate in enumerate(ranked[:ranks])
    }


def _line(parent: _Node, child: _Node) -> Sequence[tuple[float, float]]:
    return (parent.step + _WIDTH / 2, parent.rank), (child.step - _WIDTH / 2, child.rank)
