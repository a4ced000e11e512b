"""A checkpoint becomes a bundle: build the graphs, prove them, describe them, publish."""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx
import sacrebleu

from models.bundle.bundle import SHORTLIST, Bundle
from models.bundle.card import render_card
from models.bundle.manifest import (
    GRAPHS,
    Corpus,
    DecodingDefaults,
    Example,
    Manifest,
    Precision,
    Provenance,
    SentenceLimits,
)
from models.bundle.tokenizer import Tokenizer
from models.transformer.transformer import Transformer
from training.data.corpus import Pair, read_pairs
from training.export.calibration import Ranges, calibrate
from training.export.graphs import build_graph, dimensions_of
from training.export.parity import (
    Translated,
    check_attention,
    check_translations,
    translate_all,
)
from training.export.weights import collect_weights
from training.recipe import Corpus as RecipeCorpus
from training.recipe import Recipe, RunDirectory
from training.search import Searching

logger = logging.getLogger(__name__)

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "fp16")
PROOF_SENTENCES = 200
CALIBRATION_SENTENCES = 400
ATTENTION_SENTENCES = 16
EXAMPLES = 4
EXAMPLE_MARGIN = 0.05
"""By how much an example's translation must beat the next best: another CPU rounds differently."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the proof found, for people to read."""

    sentences: int
    differing: dict[Precision, int]
    bleu: dict[str, float]


def export(
    recipe: Recipe,
    run: RunDirectory,
    network: Transformer,
    bundles: Path,
    data_directory: Path,
    precisions: Sequence[Precision],
) -> tuple[Bundle, Proof]:
    """Publish ``bundles/<recipe name>`` with the precisions asked for; all of them are proved.

    Raises ``ParityError``, and publishes nothing, if the graphs do not compute what the network
    does.
    """
    tokenizer = Tokenizer.load(run.tokenizer)
    decoding = DecodingDefaults.model_validate(recipe.decoding)
    searching = Searching(tokenizer.special_ids, decoding.beam_size, decoding.length_penalty)
    readable = partial(_readable, recipe, tokenizer, network.config.max_length, data_directory)
    pairs = readable(recipe.data.test)[:PROOF_SENTENCES]
    special = tokenizer.special_ids
    sources = [(*tokenizer.encode(p.source), special.eos) for p in pairs]
    # What is published is measured against fp32, which is measured against the network.
    written: tuple[Precision, ...] = tuple(p for p in PRECISIONS if p in {"fp32", *precisions})
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ranges = calibrate(
            network,
            [
                (
                    (*tokenizer.encode(p.source), special.eos),
                    (special.bos, *tokenizer.encode(p.target)),
                )
                for p in readable(recipe.data.valid)[:CALIBRATION_SENTENCES]
            ],
        )
        version = _write_graphs(network, directory, written, ranges)
        translated = translate_all(network, directory, written, sources, searching)
        check_translations(translated)
        for precision in written:
            check_attention(
                network,
                directory,
                translated[:ATTENTION_SENTENCES],
                tokenizer.special_ids,
                precision,
            )
        proof = _proof(pairs, translated, tokenizer, written)
        logger.info("%s", proof)
        manifest = Manifest(
            name=recipe.name,
            version=version,
            source=recipe.data.source,
            target=recipe.data.target,
            dimensions=dimensions_of(network.config),
            special_ids=tokenizer.special_ids,
            limits=SentenceLimits(
                # Beyond what it was trained on, positions mean nothing to the network.
                source_length=recipe.data.max_length + 1,
                target_length=network.config.max_length,
            ),
            precisions=tuple(precisions),
            decoding=decoding,
            examples=_examples(pairs, translated, tokenizer, precisions),
            provenance=Provenance(
                recipe=recipe.name,
                commit=_commit(),
                created=datetime.datetime.now(datetime.UTC).date().isoformat(),
                data=_data(recipe, run),
            ),
        )
        card = directory / "README.md"
        card.write_text(render_card(manifest), encoding="utf-8")
        files = {"tokenizer.model": run.tokenizer, "README.md": card}
        if run.shortlist.exists():
            files[SHORTLIST] = run.shortlist
        for precision in precisions:
            for graph in GRAPHS:
                files[f"{graph}.{precision}.onnx"] = directory / f"{graph}.{precision}.onnx"
            files[f"weights.{precision}.bin"] = directory / f"weights.{precision}.bin"
        return Bundle.write(bundles / recipe.name, manifest, files), proof


def _readable(
    recipe: Recipe,
    tokenizer: Tokenizer,
    max_length: int,
    data_directory: Path,
    corpus: RecipeCorpus,
) -> list[Pair]:
    """The pairs of a corpus that the network can read and write whole."""
    found = read_pairs(corpus, recipe.data.source, recipe.data.target, data_directory)
    return [
        pair
        for pair in found
        if max(len(tokenizer.encode(side)) for side in (pair.source, pair.target)) < max_length
    ]


def _write_graphs(
    network: Transformer, directory: Path, precisions: Sequence[Precision], ranges: Ranges
) -> str:
    """All graphs of some precisions; returns a version that follows from the weights alone."""
    version = ""
    for precision in precisions:
        weights = collect_weights(network, precision, ranges)
        for graph in GRAPHS:
            model = build_graph(graph, weights, network.config, precision)
            onnx.save(model, directory / f"{graph}.{precision}.onnx")
        weights.write(directory / weights.name)
        version = version or hashlib.sha256((directory / weights.name).read_bytes()).hexdigest()
    return version[:12]


def _proof(
    pairs: Sequence[Pair],
    translated: Sequence[Translated],
    tokenizer: Tokenizer,
    precisions: Sequence[Precision],
) -> Proof:
    references = [[pair.target for pair in pairs]]

    def bleu(outputs: Sequence[tuple[int, ...]]) -> float:
        return sacrebleu.corpus_bleu(list(map(tokenizer.decode, outputs)), references).score

    originals = [sentence.network[0].token_ids for sentence in translated]
    outputs = {
        precision: [sentence.graphs[precision][0].token_ids for sentence in translated]
        for precision in precisions
    }
    return Proof(
        sentences=len(pairs),
        differing={
            precision: sum(map(tuple.__ne__, originals, ids)) for precision, ids in outputs.items()
        },
        bleu={"network": bleu(originals), **{p: bleu(ids) for p, ids in outputs.items()}},
    )


def _examples(
    pairs: Sequence[Pair],
    translated: Sequence[Translated],
    tokenizer: Tokenizer,
    precisions: Sequence[Precision],
) -> tuple[Example, ...]:
    """Sentences whose translation is beyond doubt in every precision."""
    chosen = [
        Example(
            source=pair.source,
            target=tokenizer.decode(sentence.graphs[precisions[0]][0].token_ids),
            source_ids=sentence.source_ids,
            target_ids={p: sentence.graphs[p][0].token_ids for p in precisions},
        )
        for pair, sentence in zip(pairs, translated, strict=True)
        if all(
            len(hypotheses) > 1 and hypotheses[0].score - hypotheses[1].score > EXAMPLE_MARGIN
            for hypotheses in (sentence.graphs[p] for p in precisions)
        )
    ]
    return tuple(chosen[:EXAMPLES])


def _data(recipe: Recipe, run: RunDirectory) -> tuple[Corpus, ...]:
    report = json.loads(run.report.read_text(encoding="utf-8"))
    return tuple(
        Corpus(name=c.name, licence=c.licence, pairs=report["train"][c.name]["kept"])
        for c in recipe.data.train
    )


def _commit() -> str:
    """What this code is called in its repository; ``unknown`` in an image, which has none."""
    if shutil.which("git") is None:
        return "unknown"
    found = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else "unknown"
