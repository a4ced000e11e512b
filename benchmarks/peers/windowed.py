"""CTranslate2 behind FastAPI with window batching: wait 10 ms for up to 32 sentences, translate.

Requests that arrive while a batch is translated wait for the next batch.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from benchmarks.peers.app import Answer, Body, Model, serve

WINDOW_SECONDS = 0.010
WINDOW_SENTENCES = 32
BEAM_SIZE = 4

_Waiting = tuple[list[str], asyncio.Future[list[str]]]


def create_app(model: Model) -> FastAPI:
    waiting: asyncio.Queue[_Waiting] = asyncio.Queue()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batching = asyncio.create_task(_translate_batches(model, waiting))
        try:
            yield
        finally:
            batching.cancel()
            with suppress(asyncio.CancelledError):
                await batching

    app = FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def translate(body: Body) -> Answer:
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        waiting.put_nowait((model.read(body.q), future))
        return Answer(translated_text=model.write(await future))

    return app


async def _translate_batches(model: Model, waiting: asyncio.Queue[_Waiting]) -> None:
    while True:
        batch = await _window(waiting)
        results = await asyncio.to_thread(
            model.translator.translate_batch, [source for source, _ in batch], beam_size=BEAM_SIZE
        )
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result.hypotheses[0])


async def _window(waiting: asyncio.Queue[_Waiting]) -> list[_Waiting]:
    batch = [await waiting.get()]
    with suppress(TimeoutError):
        async with asyncio.timeout(WINDOW_SECONDS):
            while len(batch) < WINDOW_SENTENCES:
                batch.append(await waiting.get())
    return batch


if __name__ == "__main__":
    sys.exit(serve(create_app, __doc__))
