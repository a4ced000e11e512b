"""Translates the blocks of a file concurrently and writes the results in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from service.bulk.journal import Progress
from service.bulk.output import Output
from service.bulk.progress import Bar
from service.bulk.reading import BadLine, Block
from service.bulk.rows import UnknownColumn
from service.bulk.source import BadSource
from service.bulk.translating import Done, TranslateBlock
from service.translation.tasks import together

_Failure = BadLine | BadSource | UnknownColumn | OSError


async def translate_blocks(
    blocks: AsyncIterator[Block],
    translate: TranslateBlock,
    output: Output,
    progress: Progress,
    *,
    ahead: int,
    bar: Bar,
) -> Progress:
    """Translate and write every block; returns the progress made, added to ``progress``.

    At most ``ahead`` blocks are in translation or wait to be written. The first failure is raised
    after all rows before it have been written.
    """
    waiting: asyncio.Queue[tuple[Block, asyncio.Task[Done]] | _Failure | None] = asyncio.Queue()
    room = asyncio.Semaphore(ahead)

    async def read(group: asyncio.TaskGroup) -> None:
        try:
            async for block in blocks:
                await room.acquire()
                task = group.create_task(_outcome(translate, block, bar))
                waiting.put_nowait((block, task))
            waiting.put_nowait(None)
        except (BadLine, BadSource, UnknownColumn, OSError) as error:
            # Raising here would cancel the earlier blocks.
            waiting.put_nowait(error)

    async with together() as group:
        group.create_task(read(group))
        while (found := await waiting.get()) is not None:
            if isinstance(found, Exception):
                raise found
            block, task = found
            done = await task
            progress = Progress(
                place=block.place(done.rows),
                written=progress.written + output.write(done.content),
                cut=progress.cut.and_(done.cut),
                skipped=progress.skipped.and_(done.skipped),
            )
            output.reached(progress)
            room.release()
            if done.failure is not None:
                raise done.failure
    return progress


async def _outcome(translate: TranslateBlock, block: Block, bar: Bar) -> Done:
    part = bar.block(block.read, len(block.rows))
    done = await translate(block, part.decoded if bar.is_shown else None)
    part.finished(done.sentences)
    return done
