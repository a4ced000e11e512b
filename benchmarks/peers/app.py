"""Common parts of the CTranslate2 servers: model, HTTP endpoint, command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from models.bundle.tokenizer import Tokenizer


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


def serve(create: Callable[[Model], FastAPI], description: str | None) -> int:
    """Serve the app that ``create`` makes for the model on the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", type=Path, required=True, help="directory of the model")
    parser.add_argument("--tokenizer", type=Path, required=True, help="SentencePiece model")
    parser.add_argument("--compute-type", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    tokenizer = Tokenizer.load(options.tokenizer)
    model = Model(
        translator=ctranslate2.Translator(
            str(options.model),
            device="cpu",
            compute_type=options.compute_type,
            inter_threads=1,
            intra_threads=options.threads,
        ),
        tokenizer=tokenizer,
        names=json.loads((options.model / "shared_vocabulary.json").read_text(encoding="utf-8")),
        eos_id=tokenizer.special_ids.eos,
    )
    app = create(model)

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        return {"status": "ready"}

    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")
    return 0
