"""Request handler of the drawing process: pickled attention maps to a PNG."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from service.figures.heatmap import draw


def answer(parts: Sequence[bytes]) -> list[bytes]:
    """A PNG of pickled ``Maps``. Unpickling is safe: the service itself sent them."""
    (maps,) = parts
    return [draw(pickle.loads(maps))]
