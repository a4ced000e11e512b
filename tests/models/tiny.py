"""Builds a minimal valid bundle with a working tokenizer and no network."""

from __future__ import annotations

from pathlib import Path

from models.bundle.bundle import MODEL_CARD, TOKENIZER, graph_file, weights_file
from models.bundle.manifest import (
    GRAPHS,
    Corpus,
    Dimensions,
    Direction,
    Example,
    Manifest,
    Precision,
    Provenance,
    Score,
    SentenceLimits,
)
from models.bundle.tokenizer import SPECIAL_IDS, train_tokenizer

DIGITS = ["0 1 2 3 4", "5 6 7 8 9", "9 8 7 6 5", "4 3 2 1 0"]
VOCABULARY_SIZE = 14


def tiny_dimensions(vocabulary_size: int) -> Dimensions:
    return Dimensions(
        encoder_layers=1,
        decoder_layers=1,
        width=8,
        heads=2,
        feed_forward=16,
        vocabulary_size=vocabulary_size,
    )


def invented_provenance(recipe: str, precision: Precision, *, beam_size: int) -> Provenance:
    score = Score(
        metric="BLEU",
        value=100.0,
        test_set="digits",
        precision=precision,
        beam_size=beam_size,
        signature="nrefs:1|case:mixed",
    )
    return Provenance(
        recipe=recipe,
        commit="0" * 40,
        created="2026-11-21T00:00:00Z",
        data=(Corpus(name="digits", licence="CC0-1.0", pairs=4),),
        scores=(score,),
    )


MANIFEST = Manifest(
    name="tiny",
    version="1",
    directions=(Direction(source="x-digits", target="x-reversed"),),
    dimensions=tiny_dimensions(VOCABULARY_SIZE),
    special_ids=SPECIAL_IDS,
    limits=SentenceLimits(source_length=8, target_length=8),
    precisions=("fp32",),
    examples=(
        Example(source="1 2", target="2 1", source_ids=(4, 5, 3), target_ids={"fp32": (5, 4)}),
    ),
    provenance=invented_provenance("tiny", "fp32", beam_size=4),
)


def tiny_files(directory: Path) -> dict[str, Path]:
    """The files of a bundle of ``MANIFEST``, by name."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in [*(graph_file(graph, "fp32") for graph in GRAPHS), weights_file("fp32")]:
        (directory / name).write_bytes(f"what is in {name}".encode())
    (directory / MODEL_CARD).write_text("# tiny\n", encoding="utf-8")
    train_tokenizer(
        DIGITS, directory / TOKENIZER, vocabulary_size=VOCABULARY_SIZE, kind="word", threads=1
    )
    return {file.name: file for file in sorted(directory.iterdir())}
