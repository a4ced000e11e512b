"""Random models in the format of Firefox Translations: SSRU decoders with int8 for intgemm."""

from __future__ import annotations

import importlib
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from models.importing.marian_shortlist import MAGIC
from models.reference.transformer import (
    FloatArray,
    KeysValues,
    Past,
    ReferenceTransformer,
    sinusoids,
    weight_shapes,
)
from models.transformer.config import TransformerConfig
from tests.support.marian import arrays_of, options_of

protocol: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
EOS, UNK = 0, 1
CALIBRATING = 12
SHIFT = 2
NOISE, QUIET, SHARPNESS, STRENGTH = 0.1, 0.1, 5.0, 1.5
"""Scales of random weights, of those that write to the channels of fast positions, of the planted
attention and of its output."""
_TO_RESIDUAL = (".output.weight", ".outer.weight", ".recurrence.input.weight")
FIRST, PER_SOURCE = 20, 12
"""Ids of a shortlist."""
_CONSONANTS, _VOWELS = "bdfgklmnprst", "aeiou"


@dataclass(frozen=True, slots=True)
class Sizes:
    width: int
    feed_forward: int
    encoder_layers: int
    decoder_layers: int
    pieces: int = 300
    heads: int = 8


SIZES = {
    "tiny": Sizes(256, 1536, 6, 2),
    "base-memory": Sizes(384, 1536, 6, 4),
    "base": Sizes(512, 2048, 6, 2),
    "small": Sizes(32, 64, 2, 2, pieces=60, heads=4),
}


def words(count: int, seed: int) -> list[str]:
    """Different words; none is another's beginning followed by a blank."""
    rng, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        syllables = (rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(3))
        found["".join(syllables)] = None
    return list(found)


def vocabulary(own: Sequence[str]) -> bytes:
    """A SentencePiece model with one piece for each word, so that texts stand for token ids."""
    model = protocol.ModelProto()
    kinds = protocol.ModelProto.SentencePiece
    model.pieces.add(piece="</s>", score=0.0, type=kinds.CONTROL)
    model.pieces.add(piece="<unk>", score=0.0, type=kinds.UNKNOWN)
    for rank, word in enumerate(own):
        model.pieces.add(piece=f"▁{word}", score=-3.0 - 0.01 * rank)
    spec = model.trainer_spec
    spec.model_type, spec.vocab_size = protocol.TrainerSpec.UNIGRAM, len(model.pieces)
    spec.eos_id, spec.unk_id, spec.bos_id, spec.pad_id = EOS, UNK, -1, -1
    model.normalizer_spec.name = "identity"
    content: bytes = model.SerializeToString()
    return content


def random_network(sizes: Sizes, seed: int, *, shared: bool = True) -> ReferenceTransformer:
    """A network in the rows of the file, with a last row of zeros that begins decoding.

    Weights are random, except that the last layer attends to the source token of the same position,
    and prefers the token whose embedding is that of the source token, shifted. So decisions are
    clear, as those of trained networks, and eos is translated by eos.
    """
    rng = np.random.default_rng(seed)
    config = TransformerConfig(
        source_vocabulary=sizes.pieces + 1,
        target_vocabulary=sizes.pieces + 1,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        width=sizes.width,
        heads=sizes.heads,
        feed_forward=sizes.feed_forward,
        positions="sinusoidal_tensor2tensor",
        tying="all" if shared else "decoder",
        output_bias=True,
        decoder="ssru",
        norm_epsilon=1e-6,
        max_length=256,
    )
    weights: dict[str, FloatArray] = {}
    for name, shape in weight_shapes(config).items():
        if name.endswith("positions"):
            weights[name] = sinusoids(config.max_length, config.width, config.positions)
        elif "tokens" in name:
            weights[name] = _embeddings(rng, *shape)
        elif len(shape) == 2:
            weights[name] = rng.normal(0, NOISE * (2 / sum(shape)) ** 0.5, shape)
            if name.endswith(_TO_RESIDUAL):
                weights[name][_fast(config.width)] *= QUIET
        else:
            weights[name] = rng.normal(name.endswith("norm.weight"), 0.1, shape)
    if shared:
        weights["source_embedding.tokens.weight"] = weights["target_embedding.tokens.weight"]
    weights["generator.weight"] = weights["target_embedding.tokens.weight"]
    # Programs render unk differently.
    weights["generator.bias"][UNK] = -20
    _plant(config, weights)
    return ReferenceTransformer(
        config, {name: array.astype(np.float32) for name, array in weights.items()}
    )


def _embeddings(rng: np.random.Generator, count: int, width: int) -> FloatArray:
    """Each the one before, shifted; eos is the same shifted. Fast positions have zeros."""
    channels = _token_channels(width)
    rows, size = np.zeros((count, width)), len(channels) ** -0.5
    # Normalisation subtracts a constant.
    rows[EOS, channels] = np.resize((size, -size), len(channels))
    for i in range(UNK, count - 1):
        shift = (i - UNK) * SHIFT % len(channels)
        if shift == 0:
            base = rng.normal(0, size, len(channels))
        rows[i, channels] = np.roll(base, shift)
    return rows


def _fast(width: int) -> NDArray[np.intp]:
    """Channels of the fastest waves of positions, sines and cosines."""
    first = np.arange(width // 16)
    return np.concatenate((first, first + width // 2))


def _token_channels(width: int) -> NDArray[np.intp]:
    return np.setdiff1d(np.arange(width), _fast(width))


def _plant(config: TransformerConfig, weights: dict[str, FloatArray]) -> None:
    name, width = f"decoder.{config.decoder_layers - 1}.cross", config.width
    fast, channels = _fast(width), _token_channels(width)
    for part in ("query", "key"):
        for head in range(config.heads):
            first = head * config.head_width
            rows = np.arange(first, first + min(len(fast), config.head_width))
            weights[f"{name}.{part}.weight"][rows, fast[: len(rows)]] += SHARPNESS
    weights[f"{name}.value.weight"][np.roll(channels, -SHIFT), channels] += 1
    weights[f"{name}.output.weight"] += STRENGTH * np.eye(width)


def largest_inputs(
    network: ReferenceTransformer, sources: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Largest input of each matrix, by the names of ``models.export.calibration``."""
    largest: dict[str, float] = {}

    def watch(name: str, values: FloatArray) -> None:
        largest[name] = max(largest.get(name, 0.0), float(np.abs(values).max()))

    start = network.config.target_vocabulary - 1
    for source_ids in sources:
        memory = network.source_keys_values(network.encode(source_ids, watch=watch))
        target = greedy(network, memory, 2 * len(source_ids))
        network.decode(memory, (start, *target), watch=watch)
    return largest


def greedy(network: ReferenceTransformer, memory: Sequence[KeysValues], limit: int) -> list[int]:
    """Greedy translation in the ids of the file."""
    past: list[Past | None] = [None] * network.config.decoder_layers
    token, found = network.config.target_vocabulary - 1, list[int]()
    for position in range(limit):
        logits, present = network.step(np.array([token]), position, memory, past)
        past, token = list(present), int(logits[0, :-1].argmax())
        if token == EOS:
            break
        found.append(token)
    return found


def reads_of(stored: str) -> str:
    """The name of a matrix's input in ``largest_inputs``."""
    if stored in {"Wemb", "decoder_Wemb"}:
        return "generator"
    side, number, part = stored.replace("_l", "_", 1).split("_", 2)
    layer = f"{side}.{int(number) - 1}"
    if part in {"context_Wk", "context_Wv"}:
        return "memory"
    names = {
        "ffn_W1": "feed_forward",
        "ffn_W2": "feed_forward.outer",
        "self_Wo": "attention.output",
        "context_Wo": "cross.output",
        "context_Wq": "cross",
        "rnn_W": "recurrence",
        "rnn_Wf": "recurrence",
    }
    return f"{layer}.{names.get(part, 'attention')}"


Stored = tuple[str, int, tuple[int, ...], bytes]
"""Name, type, shape and data of an item."""
INT8, FLOAT32, INTGEMM8 = 0x0101, 0x0404, 0x4101


def items_of(
    network: ReferenceTransformer, largest: Mapping[str, float], **changes: Any
) -> list[Stored]:
    """The items of a file; matrices have a scale each, and so have their inputs."""
    rows = list(range(network.config.target_vocabulary - 1))
    items: list[Stored] = []
    for name, array in arrays_of(network, (rows, rows)).items():
        if array.shape[0] == 1:
            items.append((name, FLOAT32, array.shape, array.astype("<f4").tobytes()))
            continue
        multiplier = np.float32(127 / np.abs(array).max())
        integers = np.clip(np.rint(array * multiplier), -127, 127).astype(np.int8)
        data = (integers if name.endswith("Wemb") else integers.T).tobytes()
        data += struct.pack("<f", multiplier)
        items.append((name, INTGEMM8, array.shape, data + bytes(-len(data) % 256)))
        if name == "encoder_Wemb":
            continue
        scale = struct.pack("<f", 127 / largest[reads_of(name)])
        if name == "decoder_Wemb":
            own = struct.pack("<b", 127) + struct.pack("<f", largest["generator"])
            items.append((f"{name}_QuantMultA", INTGEMM8, (1, 1), own + bytes(251)))
        else:
            stored = "none" if name == "Wemb" else name
            items.append((f"{stored}_QuantMultA", FLOAT32, (1, 1), scale))
    options = options_of(network, **{"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"})
    text = yaml.safe_dump(options | changes).encode() + b"\0"
    return [*items, ("special:model.yml", INT8, (len(text),), text)]


def packed(items: Sequence[Stored]) -> bytes:
    """The bytes of a file."""
    content = struct.pack("<QQ", 1, len(items))
    for name, kind, shape, data in items:
        content += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    content += b"".join(name.encode() + b"\0" for name, *_ in items)
    content += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    padding = -(len(content) + 8) % 256
    return content + struct.pack("<Q", padding) + bytes(padding) + b"".join(i[3] for i in items)


def shortlist(sizes: Sizes, seed: int) -> bytes:
    """The planted and random candidates for each source id."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(2, sizes.pieces, (sizes.pieces, PER_SOURCE), np.uint32)
    ids[:, 0] = np.minimum(np.arange(sizes.pieces) + 1, sizes.pieces - 1)
    offsets = np.arange(sizes.pieces + 1, dtype=np.uint64) * PER_SOURCE
    header = struct.pack("<6Q", MAGIC, 0, FIRST, PER_SOURCE, len(offsets), ids.size)
    return header + offsets.tobytes() + ids.tobytes()


@dataclass(frozen=True, slots=True)
class Written:
    model: Path
    vocabularies: tuple[Path, Path]
    lex: Path | None
    words: tuple[list[str], list[str]]
    """Words of source and target, in the order of their ids from 2."""

    def sentences(self, count: int, seed: int) -> list[str]:
        rng, own = random.Random(seed), self.words[0]
        return [" ".join(rng.choices(own, k=rng.randint(3, 20))) for _ in range(count)]


def write_firefox(
    directory: Path,
    sizes: Sizes,
    *,
    seed: int = 1,
    shared: bool = True,
    lexical: bool = False,
    pair: str = "deen",
    **changes: Any,
) -> Written:
    """A model of Firefox with files named as Mozilla names them."""
    directory.mkdir(parents=True)
    network = random_network(sizes, seed, shared=shared)
    rng = random.Random(seed)
    sources = [
        [*(rng.randrange(2, sizes.pieces) for _ in range(rng.randint(3, 20))), EOS]
        for _ in range(CALIBRATING)
    ]
    own = words(sizes.pieces - 2, seed)
    other = own if shared else words(sizes.pieces - 2, seed + 1)
    names = [f"vocab.{pair}.spm"] if shared else [f"srcvocab.{pair}.spm", f"trgvocab.{pair}.spm"]
    for name, each in zip(names, (own, other), strict=False):
        (directory / name).write_bytes(vocabulary(each))
    model = directory / f"model.{pair}.intgemm.alphas.bin"
    model.write_bytes(packed(items_of(network, largest_inputs(network, sources), **changes)))
    lex = directory / f"lex.50.50.{pair}.s2t.bin"
    if lexical:
        lex.write_bytes(shortlist(sizes, seed))
    paths = directory / names[0], directory / names[-1]
    return Written(model, paths, lex if lexical else None, (own, other))
