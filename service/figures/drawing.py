"""Program of the drawing process: pictures of attention maps and of searches."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from service.figures import heatmap, tree
from service.inspection.attention import Maps


def answer(parts: Sequence[bytes]) -> list[bytes]:
    """Draw a pickled figure in a format; runs in a helper process, see ``Painter``.

    Only the service itself sends them.
    """
    (sent,) = parts
    figure, format = pickle.loads(sent)
    return [heatmap.draw(figure) if isinstance(figure, Maps) else tree.draw(figure, format)]
