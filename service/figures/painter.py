"""Has pictures drawn one after the other, by a process of its own.

matplotlib is not made for several threads, and for a second at a time it would keep the interpreter
from whoever answers; so it runs elsewhere, from the first picture on, and there is no long line.
"""

from __future__ import annotations

import logging
import pickle

from service.engine.errors import BackendFailed
from service.helpers.helper import HelperFailed, Helpers
from service.translation.attention import Maps
from service.translation.errors import Overloaded

logger = logging.getLogger(__name__)

MOST_WAITING = 8
_SECONDS = 60.0
_PICTURE_BYTES = 64 << 20


class Painter:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting = 0
        self._helpers = Helpers(
            "service.figures.worker", count=1, seconds=_SECONDS, answer_bytes=_PICTURE_BYTES
        )

    async def heatmap(self, maps: Maps) -> bytes:
        """A PNG, see ``heatmap.draw``.

        Raises ``Overloaded`` where too many are asked for at once, and ``BackendFailed`` if it
        cannot be drawn.
        """
        if self._waiting >= MOST_WAITING:
            raise Overloaded
        self._waiting += 1
        try:
            (picture,) = await self._helpers.ask(pickle.dumps(maps))
        except HelperFailed as error:
            logger.error("a picture could not be drawn: %s", error)
            raise BackendFailed("the picture could not be drawn") from error
        finally:
            self._waiting -= 1
        return picture

    async def close(self) -> None:
        await self._helpers.close()
