"""Compares imported networks, graphs and searches with the transformers library."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from models.bundle.bundle import Bundle
from models.bundle.manifest import Direction
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.session import GraphDecoder, open_graph
from models.importing.importing import import_model, read_checkpoint
from models.reference.beam import Hypothesis, default_max_length, searching_of
from models.reference.decoding import ReferenceDecoder
from models.reference.transformer import log_softmax
from service.engine.scheduler import Scheduler
from service.engine.scheduler import Sequence as EngineSequence
from service.engine.types import DecodingOptions
from service.runtime.onnx import OnnxBackend
from tests.engine.batch_runner import decode_arriving
from tests.support.checkpoints import sentences, write_m2m100, write_marian, write_nllb

TOLERANCE = 1e-4
TEXTS = [*sentences("source", 5, seed=3), "xyz die straße", "你好 der hund"]
TARGETS = [*sentences("target", 6, seed=4), "the 你好"]

MARIAN: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "relu": {"activation_function": "relu"},
    "gelu, not scaled": {"activation_function": "gelu", "scale_embedding": False},
    "two vocabularies": {"separate": True},
    "nothing tied, pickled": {"tied": False, "safe": False},
}
M2M100: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "M2M100": (write_m2m100, {}),
    "NLLB, not tied, gelu": (
        write_nllb,
        {"tie_word_embeddings": False, "activation_function": "gelu"},
    ),
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A checkpoint loaded by transformers; texts are pieces joined by blanks."""

    directory: Path
    model: Any
    direction: Direction

    def names(self, side: str) -> dict[str, int]:
        for name in ("target_vocab.json" if side == "target" else "vocab.json", "vocab.json"):
            path = self.directory / name
            if path.exists():
                return dict(json.loads(path.read_text(encoding="utf-8")))
        document = json.loads((self.directory / "tokenizer.json").read_text(encoding="utf-8"))
        return dict(document["model"]["vocab"])

    @property
    def of_many_languages(self) -> bool:
        return not (self.directory / "source.spm").exists()

    def ids(self, side: str, text: str) -> list[int]:
        """Token ids of a text without special tokens."""
        file = "sentencepiece.bpe.model" if self.of_many_languages else f"{side}.spm"
        model = sentencepiece.SentencePieceProcessor(model_file=str(self.directory / file))
        names = self.names(side)
        return [names.get(piece, names["<unk>"]) for piece in model.encode(text, out_type=str)]

    def source_ids(self, text: str) -> list[int]:
        names = self.names("source")
        language = [len(names)] if self.of_many_languages else []
        return [*language, *self.ids("source", text), names["</s>"]]

    @property
    def fed(self) -> list[int]:
        start = self.model.config.decoder_start_token_id
        return [start, len(self.names("target")) + 1] if self.of_many_languages else [start]

    def logits(self, source: str, target: str) -> torch.Tensor:
        """``[T, V]``: logits after each token of the target."""
        with torch.inference_mode():
            logits_BTV = self.model(
                input_ids=torch.tensor([self.source_ids(source)]),
                decoder_input_ids=torch.tensor([[*self.fed, *self.ids("target", target)]]),
            ).logits
        return torch.as_tensor(logits_BTV[0, len(self.fed) - 1 :])

    def search(self, source: str, max_length: int) -> list[str]:
        """The pieces of the best hypothesis of beam size 4."""
        options: dict[str, Any] = {}
        if self.of_many_languages:
            # Pieces that a bundle never writes must not take part in the probabilities.
            never = {"suppress_tokens": [0, 1], "renormalize_logits": True}
            options = {"forced_bos_token_id": self.fed[1], **never}
        ids = self.model.generate(
            torch.tensor([self.source_ids(source)]),
            num_beams=4,
            early_stopping=True,
            max_length=max_length + 1,
            min_new_tokens=1 + len(self.fed[1:]),
            forced_eos_token_id=None,
            **options,
        )[0].tolist()
        pieces = {i: piece for piece, i in self.names("target").items()}
        written = ids[len(self.fed) :]
        end = self.model.config.eos_token_id
        return [pieces[i] for i in (written[: written.index(end)] if end in written else written)]


@pytest.fixture(scope="module", params=[*MARIAN, *M2M100])
def random_one(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Reference, Bundle]:
    directory = tmp_path_factory.mktemp("random") / "checkpoint"
    if request.param in MARIAN:
        model = write_marian(directory, **MARIAN[request.param])
    else:
        write, changes = M2M100[request.param]
        model = write(directory, **changes)
    return imported(directory, model)


def imported(directory: Path, model: Any) -> tuple[Reference, Bundle]:
    bundle, _ = import_model(
        directory,
        directory.parent / "bundles",
        sources=["de"],
        targets=["en"],
        precisions=["fp32"],
    )
    return Reference(directory, model, bundle.manifest.directions[0]), bundle


def source_ids(bundle: Bundle, text: str) -> tuple[int, ...]:
    prefix = bundle.manifest.directions[0].source_prefix
    return (*prefix, *bundle.tokenizers().source.encode(text), SPECIAL_IDS.eos)


def test_network_and_graphs_give_transformers_logits(random_one: tuple[Reference, Bundle]) -> None:
    reference, bundle = random_one
    network = read_checkpoint(reference.directory).network
    tokenizer = bundle.tokenizers().target
    fed = (SPECIAL_IDS.bos, *bundle.manifest.directions[0].target_prefix)
    session = open_graph(bundle.path, "attention", "fp32")
    decoder = GraphDecoder(bundle.path, bundle.manifest.dimensions, "fp32")
    # Rows by name, except for those that bundles never write.
    names = {
        piece: i for piece, i in reference.names("target").items() if piece not in {"<pad>", "<s>"}
    }
    rows = [tokenizer.id_of(piece) for piece in names]
    for source, target in zip(TEXTS, TARGETS, strict=True):
        expected_TV = reference.logits(source, target)[:, list(names.values())]
        assert float(expected_TV.std()) > 0.3
        ours = source_ids(bundle, source)
        target_ids = tokenizer.encode(target)
        memory = network.source_keys_values(network.encode(ours))
        found_TV = network.project(network.decode(memory, (*fed, *target_ids)))[len(fed) - 1 :]
        np.testing.assert_allclose(found_TV[:, rows], expected_TV, atol=TOLERANCE)

        log_probs_TV = log_softmax(found_TV)
        (of_graph,) = session.run(
            ["target_log_probs"],
            {
                "source_ids": np.array([ours], np.int32),
                "target_input_ids": np.array([(*fed, *target_ids)], np.int32),
                "target_output_ids": np.array([(*fed[1:], *target_ids, SPECIAL_IDS.eos)], np.int32),
            },
        )
        wanted_T = log_probs_TV[range(len(target_ids) + 1), (*target_ids, SPECIAL_IDS.eos)]
        np.testing.assert_allclose(of_graph[0, len(fed) - 1 :], wanted_T, atol=TOLERANCE)

        decoder.start(ours)
        for token in fed:
            columns, log_probs = decoder.extend([0], [token], 10)
        np.testing.assert_allclose(log_probs[0], log_probs_TV[0, columns[0]], atol=TOLERANCE)
        for token, expected_V in zip(target_ids, log_probs_TV[1:], strict=True):
            columns, log_probs = decoder.extend([0], [token], 10)
            np.testing.assert_allclose(log_probs[0], expected_V[columns[0]], atol=TOLERANCE)


@pytest.fixture(scope="module", params=["OPUS-MT", "two vocabularies", "M2M100"])
def taught_one(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Reference, Bundle]:
    directory = tmp_path_factory.mktemp("taught") / "checkpoint"
    if request.param == "M2M100":
        model = write_m2m100(directory, taught=True)
    else:
        model = write_marian(directory, taught=True, separate=request.param != "OPUS-MT")
    return imported(directory, model)


def pieces_of(bundle: Bundle, hypotheses: Sequence[Hypothesis]) -> list[str]:
    return list(bundle.tokenizers().target.pieces(hypotheses[0].token_ids))


def test_searches_find_the_hypotheses_of_transformers(taught_one: tuple[Reference, Bundle]) -> None:
    """The reference search and the service's engine agree, which decodes all texts at once."""
    reference, bundle = taught_one
    manifest = bundle.manifest
    assert manifest.decoding.beam_size == 4
    texts = [*sentences("source", 16, seed=5), *TEXTS]
    longest = manifest.limits.target_length
    sources = [source_ids(bundle, text) for text in texts]
    limits = [default_max_length(len(source), longest) for source in sources]
    expected = [reference.search(text, limit) for text, limit in zip(texts, limits, strict=True)]
    assert len(set(map(tuple, expected))) > len(texts) / 2

    prefix = manifest.directions[0].target_prefix
    searching = searching_of(manifest.decoding, SPECIAL_IDS, prefix)
    decoder = ReferenceDecoder(read_checkpoint(reference.directory).network)
    plain = [searching.best(decoder, source, longest) for source in sources]
    assert [pieces_of(bundle, hypotheses) for hypotheses in plain] == expected

    backend = OnnxBackend.load(bundle, "fp32", slots=6, rows_per_slot=4, threads=1)
    scheduler = Scheduler(backend.limits, SPECIAL_IDS, max_padded_tokens=64)
    options = [
        DecodingOptions(
            beam_size=4,
            length_penalty=manifest.decoding.length_penalty,
            target_prefix=prefix,
            forced_prefix_length=len(prefix),
            min_decoding_length=len(prefix) + 1,
            max_decoding_length=limit,
        )
        for limit in limits
    ]
    arriving = [
        EngineSequence(i, source, wanted)
        for i, (source, wanted) in enumerate(zip(sources, options, strict=True))
    ]
    decoded = decode_arriving(backend, scheduler, arriving, random.Random(0))
    tokenizer = bundle.tokenizers().target
    for i, pieces in enumerate(expected):
        found = decoded[i].hypotheses[0].token_ids
        assert list(tokenizer.pieces(found[len(prefix) :])) == pieces
