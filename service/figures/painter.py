"""Has pictures drawn one after the other, by a process of its own.

matplotlib is not made for several threads, and for a second at a time it would keep the interpreter
from whoever answers; so it runs elsewhere, from the first picture on, and there is no long line.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from asyncio.subprocess import PIPE, Process

from service.engine.errors import BackendFailed
from service.figures.worker import LENGTH, PICTURE
from service.translation.attention import Maps
from service.translation.errors import Overloaded

logger = logging.getLogger(__name__)

MOST_WAITING = 8

_PROGRAM = "import sys; sys.path[:] = {path!r}; from service.figures.worker import main; main()"


class Painter:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._process: Process | None = None

    async def heatmap(self, maps: Maps) -> bytes:
        """A PNG, see ``heatmap.draw``.

        Raises ``Overloaded`` where too many are asked for at once, and ``BackendFailed`` if it
        cannot be drawn.
        """
        if self._waiting >= MOST_WAITING:
            raise Overloaded
        self._waiting += 1
        try:
            async with self._turn:
                return await self._drawn(pickle.dumps(maps))
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def _drawn(self, content: bytes) -> bytes:
        try:
            answer = await self._exchange(await self._started(), content)
        except BaseException as error:
            # Nobody can tell any more which answer would be to whom.
            await self._end()
            if not isinstance(error, OSError | EOFError):
                raise
            logger.error("the process that draws has ended: %s", error)
            raise BackendFailed("the picture could not be drawn") from error
        if answer[:1] == PICTURE:
            return answer[1:]
        logger.error("a picture could not be drawn:\n%s", answer[1:].decode(errors="replace"))
        raise BackendFailed("the picture could not be drawn")

    async def _started(self) -> Process:
        if self._process is None:
            program = _PROGRAM.format(path=sys.path)
            # A session of its own, so that Ctrl-C is for us to handle.
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", program), stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        return self._process

    async def _exchange(self, process: Process, content: bytes) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(LENGTH.pack(len(content)) + content)
        await process.stdin.drain()
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        return await process.stdout.readexactly(length)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            # Reads what is left, too, so that no pipe stays open.
            await process.communicate()
