"""CTranslate2 server that batches as LibreTranslate with Argos Translate does: within a request.

Each request has a thread, the translator processes one request at a time, and its batches hold 32
tokens of that request. Beam and threads are those of our benchmark. Argos's length penalty of 0.2
is omitted, so that all servers have the same search.
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
