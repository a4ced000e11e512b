"""Blocks in, translated blocks out, in order and a few at a time."""

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
from service.translation.task_group import together

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
    """Write what becomes of every block; returns how far that has come, after ``progress``.

    At most ``ahead`` blocks are being translated or wait to be written. Stops at the first failure,
    after everything before it has been written, and raises it.
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
            # Not raised here: that would cancel the blocks before it.
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
    watcher = bar.block(block.read, len(block.rows))
    done = await translate(block, watcher if bar.shown else None)
    watcher.finished(done.sentences)
    return done
