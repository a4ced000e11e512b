"""What the process that draws does: maps in, pictures out."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from service.figures.heatmap import draw


def answer(parts: Sequence[bytes]) -> list[bytes]:
    """A PNG of pickled ``Maps``, which come from the service itself."""
    (maps,) = parts
    return [draw(pickle.loads(maps))]
