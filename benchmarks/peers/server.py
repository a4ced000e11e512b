"""CTranslate2 server to compare with: one call per request, or requests batched in a window.

``libretranslate`` batches as LibreTranslate with Argos Translate does. Each request has a thread,
the translator processes one request at a time, and its batches hold 32 tokens of that request.
Argos's length penalty of 0.2 is omitted, so that all servers have the same search.

``windowed`` waits 10 ms for up to 32 sentences. Requests that arrive while a batch is translated
wait for the next batch.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.engines import CTranslate2
from models.bundle.tokenizer import Tokenizer

BEAM_SIZE = 4
BATCH_TOKENS = 32
WINDOW_SECONDS = 0.010
WINDOW_SENTENCES = 32


class Body(BaseModel):
    q: str
    source: str
    target: str


class Answer(BaseModel):
    translated_text: str


@dataclass(frozen=True, slots=True)
class Model:
    """A translator with its tokenizer; ``names`` are CTranslate2's names of token ids."""

    translator: Any
    tokenizer: Tokenizer
    names: list[str]
    eos_id: int

    def read(self, text: str) -> list[str]:
        return [self.names[i] for i in (*self.tokenizer.encode(text), self.eos_id)]

    def write(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace("▁", " ").strip()


_Waiting = tuple[list[str], asyncio.Future[list[str]]]


def libretranslate(model: Model) -> FastAPI:
    app = FastAPI()

    @app.post("/translate")
    def translate(body: Body) -> Answer:
        (result,) = model.translator.translate_batch(
            [model.read(body.q)],
            beam_size=BEAM_SIZE,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
            replace_unknowns=True,
            return_scores=True,
        )
        return Answer(translated_text=model.write(result.hypotheses[0]))

    return app


def windowed(model: Model) -> FastAPI:
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


BATCHING = {"libretranslate": libretranslate, "windowed": windowed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("batching", choices=BATCHING)
    parser.add_argument("--model", type=Path, required=True, help="directory of the model")
    parser.add_argument("--tokenizer", type=Path, required=True, help="SentencePiece model")
    parser.add_argument("--compute-type", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    tokenizer = Tokenizer.load(options.tokenizer)
    engine = CTranslate2(options.model, options.compute_type, options.threads)
    translator, names = engine.load()
    model = Model(translator, tokenizer, names, tokenizer.special_ids.eos)
    app = BATCHING[options.batching](model)

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        return {"status": "ready"}

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
