"""CTranslate2 as LibreTranslate calls it, through Argos Translate: each request on its own.

A request has a thread, the translator works for one at a time, and its batches hold 32 tokens of
that request. Ours to measure with are the beam and the threads; their length penalty of 0.2 is
left out, for the same search on all sides.
"""

from __future__ import annotations

import sys

from fastapi import FastAPI

from benchmarks.peers.app import Answer, Body, Model, serve

BEAM_SIZE = 4
BATCH_TOKENS = 32


def create_app(model: Model) -> FastAPI:
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


if __name__ == "__main__":
    sys.exit(serve(create_app, __doc__))
