"""Draws pictures in a helper process, one at a time, with a bounded queue.

matplotlib is not thread-safe, and would hold the interpreter lock for up to a second while requests
wait. The process starts with the first picture.
"""

from __future__ import annotations

import asyncio
import logging
import pickle

from service.engine.errors import BackendFailed
from service.figures.tree import Format
from service.helpers.helper import HelperFailed, Helpers
from service.inspection.attention import Maps
from service.inspection.recorded_search import RecordedSearch
from service.translation.admission import Admission

logger = logging.getLogger(__name__)

MOST_WAITING = 8
_SECONDS = 60.0
_PICTURE_BYTES = 64 << 20


class Painter:
    """Queue of callers that take turns at the drawing process; belongs to one event loop."""

    def __init__(self) -> None:
        self._admission = Admission(MOST_WAITING)
        self._helpers = Helpers(
            "service.figures.drawing", count=1, seconds=_SECONDS, answer_bytes=_PICTURE_BYTES
        )

    async def heatmap(self, maps: Maps, caller: str = "") -> bytes:
        """A PNG, see ``heatmap.draw``; raises as ``search``."""
        return await self._picture((maps, "png"), caller)

    async def search(self, found: RecordedSearch, format: Format, caller: str = "") -> bytes:
        """An SVG or PNG, see ``tree.draw``. An unknown ``caller``, which is empty, takes no turns.

        Raises ``Overloaded`` while ``MOST_WAITING`` pictures are pending, see ``Admission``, and
        ``BackendFailed`` if the picture cannot be drawn.
        """
        return await self._picture((found, format), caller)

    async def _picture(self, wanted: tuple[Maps | RecordedSearch, Format], caller: str) -> bytes:
        with self._admission.admitted(1, caller):
            try:
                # A thread pickles the figure, because a tree has thousands of objects.
                sent = await asyncio.to_thread(pickle.dumps, wanted)
                (picture,) = await self._helpers.ask(sent, caller=caller or None)
            except HelperFailed as error:
                logger.error("a picture could not be drawn: %s", error)
                raise BackendFailed("the picture could not be drawn") from error
        return picture

    async def close(self) -> None:
        await self._helpers.close()
