"""Reads models in Marian's own formats, with the configuration in ``special:model.yml``.

OPUS-MT publishes ``.npz`` with a vocabulary in YAML and two SentencePiece models, Bergamot's
teachers have one SentencePiece model as vocabulary. Firefox has ``.bin`` with int8 matrices for
intgemm, and decoder layers of SSRU. The decoder starts with a zero embedding. Positions are
tensor2tensor's sinusoids, which Marian computes (``src/graph/node_initializers.cpp``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from models.bundle.manifest import AlignmentSource, DecodingDefaults
from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.weights import IntegerMatrix
from models.importing.compressed import SUFFIXES, read_unpacked
from models.importing.ctranslate2 import SINUSOIDS, is_control, languages_of_tokens
from models.importing.flat_yaml import Value, parse_flat, read_flat
from models.importing.languages import Languages
from models.importing.marian_binary import Binary, Quantised
from models.importing.marian_shortlist import read_shortlist
from models.importing.model import Imported, decoding_defaults
from models.importing.network import ACTIVATIONS, Tables, configuration, embeddings
from models.importing.npz import Npz
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.side_files import read_bytes
from models.importing.vocabulary import Model, Specials, Vocabulary, arrange, parse, rewrite
from models.reference.transformer import FloatArray, ReferenceTransformer, weight_shapes
from models.transformer.config import TransformerConfig

CONFIGURATION = "special:model.yml"
DECODER = "decoder.yml"
UNK, EOS = "<unk>", "</s>"
_MULTIPLIER = "_QuantMultA"
_MOST_DIGITS = 10
"""Digits of an id, fewer than Python refuses to read."""

_NEUTRAL: Mapping[str, tuple[Value, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-rnn-projection": ("false",),
    "transformer-no-projection": ("false",),
    "transformer-train-position-embeddings": ("false",),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-tied-layers": ([],),
    "transformer-pool": ("false",),
    "transformer-postprocess-emb": ("", "d"),
    "right-left": ("false",),
    "ulr": ("false",),
    "lemma-dim-emb": ("0",),
    "lemma-dependency": ("",),
    "factors-combine": ("sum",),
    "output-omit-bias": ("false",),
    "input-types": ([], ["sequence", "sequence"]),
}
"""Values of options that the graphs support; an option that is absent has Marian's default."""
_NORMS: Mapping[tuple[str, str, str], Literal["before", "after"]] = {
    ("", "an", ""): "after",
    ("n", "a", "n"): "before",
}
"""Places of normalisation, by the operations around a sub-layer and after a stack, dropout
omitted."""

NORM_EPSILON = 1e-6
BINARY_DECODING = DecodingDefaults(beam_size=1, length_penalty=1.0)
"""Firefox's, for files that its models are of. A student is as good greedily."""
_BINARY = re.compile(r".*\.bin(\.gz|\.zst)?")
_LANGUAGES = re.compile(r"model\.([a-z]{2})([a-z]{2})\.intgemm\..*")
"""Name of a model of Firefox."""
LARGEST_VOCABULARY = 64 << 20

_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)\.(weight|bias)")
_PARTS = {
    "recurrence.input": ("rnn_W", ""),
    "recurrence.gate": ("rnn_Wf", "rnn_bf"),
    "recurrence_residual.norm": ("rnn_ffn_ln_scale", "rnn_ffn_ln_bias"),
    **{
        f"{layer}.{part}": (f"{stored}_W{part[0]}", f"{stored}_b{part[0]}")
        for layer, stored in (("attention", "self"), ("cross", "context"))
        for part in ("query", "key", "value", "output")
    },
    "feed_forward.inner": ("ffn_W1", "ffn_b1"),
    "feed_forward.outer": ("ffn_W2", "ffn_b2"),
    "attention_residual.norm": ("self_Wo_ln_scale", "self_Wo_ln_bias"),
    "cross_residual.norm": ("context_Wo_ln_scale", "context_Wo_ln_bias"),
    "feed_forward_residual.norm": ("ffn_ffn_ln_scale", "ffn_ffn_ln_bias"),
}
"""Names of weight and bias of each part of a layer."""


def is_marian(path: Path) -> bool:
    """Whether ``path`` is a file of Marian, or a directory with one."""
    if path.is_dir():
        return any(_models(path))
    return path.suffix == ".npz" or bool(_BINARY.fullmatch(path.name))


def read_marian_native(path: Path) -> Imported:
    """Raises ``NotACheckpoint`` or ``UnsupportedCheckpoint``."""
    model = _model(path)
    file = Npz(model) if model.suffix == ".npz" else Binary(model)
    directory = file.path.parent
    settings = read_flat(directory / DECODER) if (directory / DECODER).exists() else {}
    reader = _Reader(file)
    vocabularies = _vocabularies(directory, settings)
    if ".spm" in vocabularies[0].suffixes:
        models = [
            parse(read_unpacked(each, LARGEST_VOCABULARY), each.name) for each in vocabularies
        ]
        pieces = [[piece.piece for piece in model.pieces] for model in models]
        names = [dict(enumerate(each)) for each in pieces]
    else:
        models = [_sentencepiece(directory, side) for side in ("source", "target")]
        names = [_names(each) for each in vocabularies]
    shared = len(vocabularies) == 1
    target = _arranged(names[-1], reader.size("decoder"), models if shared else models[1:])
    source = target if shared else _arranged(names[0], reader.size("encoder"), models[:1])
    decoding, unmapped = _decoding(settings)
    if isinstance(file, Binary) and not settings:
        decoding = BINARY_DECODING
    named = _LANGUAGES.fullmatch(model.name)
    network = reader.network(source, target)
    return Imported(
        kind=f"transformer in {file.path.name}",
        library="Marian",
        network=network,
        source_model=rewrite(models[0], source, "the source's SentencePiece model"),
        target_model=rewrite(models[-1], target, "the target's SentencePiece model"),
        languages=(
            Languages({named[1]: ()}, {named[2]: ()}, source_open=True, target_open=True)
            if named
            else languages_of_tokens(source, target)
        ),
        decoding=decoding,
        integers=reader.integers or None,
        alignment=AlignmentSource(layer=network.config.decoder_layers - 1, head=0)
        if reader.guided
        else None,
        shortlist=_shortlist(directory, source, target),
        unmapped=unmapped,
    )


def _models(directory: Path) -> list[Path]:
    """Files of Marian; ``.bin`` is also the suffix of other programs."""
    binaries = (each for suffix in SUFFIXES for each in directory.glob(f"*.intgemm*.bin{suffix}"))
    return sorted([*directory.glob("*.npz"), *binaries])


def _model(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = _models(path)
    if len(found) != 1:
        raise NotACheckpoint(
            f"{path} has several models, {', '.join(each.name for each in found)}; add one of them"
        )
    return found[0]


def _shortlist(directory: Path, source: Vocabulary, target: Vocabulary) -> Shortlist | None:
    found = [each for suffix in SUFFIXES for each in directory.glob(f"lex*.s2t.bin{suffix}")]
    if len(found) > 1:
        raise NotACheckpoint(
            f"{directory} has several shortlists, {', '.join(each.name for each in found)}"
        )
    return read_shortlist(found[0], source, target) if found else None


def _vocabularies(directory: Path, settings: Mapping[str, Value]) -> list[Path]:
    """The vocabulary of both sides, or those of source and target."""
    named = settings.get("vocabs")
    if isinstance(named, list) and named:
        # Paths of the machine that trained the model; only the names matter.
        found = [directory / re.split(r"[/\\]", name)[-1] for name in dict.fromkeys(named)]
    else:
        # Source sorts before target, src before trg.
        found = sorted(
            each
            for suffix in (".yml", *(f".spm{packed}" for packed in SUFFIXES))
            for each in directory.glob(f"*{suffix}")
            if "vocab" in each.name
        )
    kinds = {".spm" in each.suffixes for each in found}
    if len(found) not in {1, 2} or len(kinds) != 1:
        raise NotACheckpoint(
            f"{directory} has {len(found)} vocabularies ({', '.join(p.name for p in found)}); one "
            "*vocab*.yml or *vocab*.spm, or one for each side, is needed"
        )
    for each in found:
        if not each.is_file():
            raise NotACheckpoint(f"{directory} has no {each.name}, which {DECODER} names")
    return found


def _names(path: Path) -> dict[int, str]:
    names: dict[int, str] = {}
    for piece, value in read_flat(path).items():
        if (
            not isinstance(value, str)
            or not value.isdecimal()
            or len(value) > _MOST_DIGITS
            or int(value) in names
        ):
            raise NotACheckpoint(f"{path} does not give {piece!r} an id of its own")
        names[int(value)] = piece
    return names


def _sentencepiece(directory: Path, side: str) -> Model:
    path = directory / f"{side}.spm"
    bpe = directory / f"{side}.bpe"
    if bpe.exists() and not path.exists():
        raise UnsupportedCheckpoint(
            f"{directory} is tokenised by subword-nmt ({bpe.name}), which a bundle does not "
            "have; SentencePiece models can be imported"
        )
    return parse(read_bytes(path), path.name)


def _arranged(names: Mapping[int, str], size: int, models: list[Model]) -> Vocabulary:
    """The rows of one side. A row of zeros follows those of the file."""
    ids = {piece: i for i, piece in names.items()}
    for piece in (UNK, EOS):
        if piece not in ids:
            raise NotACheckpoint(f"the vocabulary has no {piece}")
    specials = Specials(pad=size, unk=ids[UNK], start=size, eos=ids[EOS])
    return arrange(names, size, specials, models, is_control, further=1)


def _decoding(settings: Mapping[str, Value]) -> tuple[DecodingDefaults, tuple[str, ...]]:
    """Decoding options of ``decoder.yml``, and those that a bundle leaves to requests."""
    decoding = decoding_defaults(
        f"its {DECODER}", settings.get("beam-size", "6"), settings.get("normalize", "0")
    )
    penalty = settings.get("word-penalty", "0")
    return decoding, () if penalty == "0" else (f"word-penalty {penalty}",)


class _Reader:
    """The weights of a file, checked against its configuration."""

    def __init__(self, file: Npz | Binary) -> None:
        self._file = file
        self._taken = {CONFIGURATION}
        self.integers: dict[str, IntegerMatrix] = {}
        """Quantised matrices, by their names in the network without ``.weight``."""
        if CONFIGURATION not in file:
            raise NotACheckpoint(f"{file.path} has no {CONFIGURATION}, so it is no model of Marian")
        content = file.read(CONFIGURATION).tobytes().rstrip(b"\0")
        self._options = parse_flat(content, f"{file.path}: {CONFIGURATION}")
        for name, values in _NEUTRAL.items():
            found = self._options.get(name, values[0])
            if found not in values:
                shown = " or ".join(map(repr, values))
                raise UnsupportedCheckpoint(
                    f"{file.path} has {name} {found!r}; {shown} can be imported"
                )
        self._recurrent = self._text("transformer-decoder-autoreg") == "rnn"
        if self._recurrent and (cell := self._text("dec-cell")) != "ssru":
            raise UnsupportedCheckpoint(
                f"{file.path} has dec-cell {cell!r}; of recurrent decoders 'ssru' can be imported"
            )

    @property
    def guided(self) -> bool:
        """Whether the first head of the last decoder layer may have learned alignments, which
        Firefox's recipe trains it for."""
        layer = self._options.get("transformer-guided-alignment-layer", "last")
        return isinstance(self._file, Binary) and layer == "last"

    def size(self, side: str) -> int:
        """Number of rows of the embeddings."""
        shape = self._shape(self._table(side))
        if len(shape) != 2:
            raise NotACheckpoint(f"{self._file.path}: the embeddings of its {side} are no matrix")
        return shape[0]

    def network(self, source: Vocabulary, target: Vocabulary) -> ReferenceTransformer:
        config = configuration(
            source_vocabulary=len(source),
            target_vocabulary=len(target),
            encoder_layers=self._number("enc-depth"),
            decoder_layers=self._number("dec-depth"),
            width=self._number("dim-emb"),
            heads=self._number("transformer-heads"),
            feed_forward=self._feed_forward(),
            norm=self._norm(),
            positions="sinusoidal_tensor2tensor",
            tying=self._tying(source is target),
            output_bias=True,
            activation=self._activation(),
            max_length=SINUSOIDS,
            pad_id=SPECIAL_IDS.pad,
            decoder="ssru" if self._recurrent else "self-attention",
            norm_epsilon=NORM_EPSILON,
        )
        width, rows = config.width, self.size("decoder")
        of_target = self._embeddings("target_embedding.tokens", "decoder", target, width)
        of_source = of_target
        if self._table("encoder") != self._table("decoder"):
            of_source = self._embeddings("source_embedding.tokens", "encoder", source, width)
        of_output = of_target
        if "decoder_ff_logit_out_Wt" in self._file:
            of_output = self._take("decoder_ff_logit_out_Wt", rows, width)
        elif "decoder_ff_logit_out_W" in self._file:
            of_output = self._take("decoder_ff_logit_out_W", width, rows).T
        bias_V = self._vector("decoder_ff_logit_out_b", rows)
        zeros = np.zeros((1, width), np.float32)
        tables = Tables(
            np.concatenate((of_source, zeros)),
            np.concatenate((of_target, zeros)),
            np.concatenate((of_output, zeros)),
            np.append(bias_V, np.float32(0)),
        )
        weights = embeddings(config, tables, source, target)
        for name, shape in weight_shapes(config).items():
            if name not in weights:
                weights[name] = self._weight(name, shape)
        self._check_quantised(config, weights)
        # A multiplier without its matrix scales no product.
        own = {name for name in self._file if not name.endswith(_MULTIPLIER)}
        if left := sorted(own - self._taken):
            shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
            raise UnsupportedCheckpoint(
                f"{self._file.path} has what no supported network has: {shown}"
            )
        return ReferenceTransformer(config, weights)

    def _weight(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        layer = _LAYER.fullmatch(name)
        if layer is None:
            side, kind = name.split("_norm.")
            scale = "scale" if kind == "weight" else "bias"
            return self._vector(f"{side}_top_ln_{scale}", *shape)
        side, i, part, kind = layer.groups()
        stored = f"{side}_l{int(i) + 1}_{_PARTS[part][kind == 'bias']}"
        if len(shape) == 2:
            if self._is_quantised(stored, *shape[::-1]):
                found = self._quantised(stored)
                matrix = IntegerMatrix(found.values, found.multiplier, self._multiplier(stored))
                self.integers[name.removesuffix(".weight")] = matrix
                return found.floats
            return np.ascontiguousarray(self._take(stored, *shape[::-1]).T)
        # Norms before a sub-layer have another name.
        if "_ln_" in stored and f"{stored}_pre" in self._file:
            stored = f"{stored}_pre"
        return self._vector(stored, *shape)

    def _embeddings(self, name: str, side: str, vocabulary: Vocabulary, width: int) -> FloatArray:
        """The embeddings of one side, in the rows of the file."""
        stored, rows = self._table(side), self.size(side)
        if not self._is_quantised(stored, rows, width):
            return self._take(stored, rows, width)
        found = self._quantised(stored)
        # Rows that follow those of the file are zeros, as for floats.
        values = np.concatenate((found.values, np.zeros((1, width), np.int8)))[vocabulary.origins]
        multiplier = self._output_multiplier(stored) if side == "decoder" else None
        self.integers[name] = IntegerMatrix(values, found.multiplier, multiplier)
        return found.floats

    def _output_multiplier(self, table: str) -> np.float32:
        """Multiplier of the activations that enter the output product with tied embeddings."""
        # Marian does not name the transposed table of tied embeddings.
        name = table if f"{table}{_MULTIPLIER}" in self._file else "none"
        return self._multiplier(name)

    def _multiplier(self, name: str) -> np.float32:
        """Multiplier of the activations that enter the product with a matrix."""
        stored = f"{name}{_MULTIPLIER}"
        if self._is_quantised(stored, 1, 1):
            found = self._quantised(stored)
            multiplier = np.float32(found.values[0, 0] / found.multiplier)
        else:
            multiplier = self._take(stored, 1, 1)[0, 0]
        if not (np.isfinite(multiplier) and multiplier > 0):
            raise NotACheckpoint(f"{self._file.path}: {stored} is {multiplier}")
        return np.float32(multiplier)

    def _check_quantised(
        self, config: TransformerConfig, weights: Mapping[str, FloatArray]
    ) -> None:
        """Raises ``UnsupportedCheckpoint`` if only some matrices are quantised."""
        if not self.integers:
            return
        tables = {"target_embedding.tokens"} | (
            {"source_embedding.tokens"} if config.tying != "all" else set()
        )
        matrices = tables | {
            name.removesuffix(".weight")
            for name, array in weights.items()
            if array.ndim == 2 and _LAYER.fullmatch(name)
        }
        if left := sorted(matrices - self.integers.keys()):
            raise UnsupportedCheckpoint(
                f"{self._file.path} has int8 matrices, but {left[0]} is none of them; all or none "
                "can be imported"
            )

    def _is_quantised(self, name: str, *shape: int) -> bool:
        self._check_shape(name, *shape)
        return isinstance(self._file, Binary) and self._file.is_quantised(name)

    def _quantised(self, name: str) -> Quantised:
        assert isinstance(self._file, Binary)
        self._taken.add(name)
        return self._file.quantised(name)

    def _vector(self, name: str, size: int) -> FloatArray:
        """A vector, which Marian stores as a matrix of one row."""
        return self._take(name, 1, size).reshape(size)

    def _take(self, name: str, *shape: int) -> FloatArray:
        """An array as float32; raises unless it has the shape that the configuration implies."""
        if self._is_quantised(name, *shape):
            raise UnsupportedCheckpoint(
                f"{self._file.path}: {name} is quantised; only matrices of layers and tied "
                "embeddings can be"
            )
        found = self._file.read(name)
        if not np.issubdtype(found.dtype, np.floating):
            raise UnsupportedCheckpoint(
                f"{self._file.path}: {name} holds {found.dtype}; floats can be imported, and int8 "
                "for intgemm in .bin"
            )
        tensor: FloatArray = found.astype(np.float32, copy=False)
        if not np.isfinite(tensor).all():
            raise NotACheckpoint(f"{self._file.path}: {name} holds what is not a number")
        self._taken.add(name)
        return tensor

    def _check_shape(self, name: str, *shape: int) -> None:
        if self._shape(name) != shape:
            raise UnsupportedCheckpoint(
                f"{self._file.path}: {name} has the shape {list(self._shape(name))}; its "
                f"configuration implies {list(shape)}"
            )

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self._file:
            raise NotACheckpoint(f"{self._file.path} has no {name}")
        return self._file.shape(name)

    def _table(self, side: str) -> str:
        own = f"{side}_Wemb"
        return own if own in self._file else "Wemb"

    def _text(self, name: str, default: str = "") -> str:
        found = self._options.get(name, default)
        if not isinstance(found, str):
            raise UnsupportedCheckpoint(f"{self._file.path} has {name} {found!r}, not one value")
        return found

    def _number(self, name: str) -> int:
        found = self._text(name)
        if not re.fullmatch(r"\d{1,7}", found):
            raise UnsupportedCheckpoint(
                f"{self._file.path} has {name} {found!r}, which is not a number"
            )
        return int(found)

    def _feed_forward(self) -> int:
        inner = self._number("transformer-dim-ffn")
        if self._text("transformer-decoder-dim-ffn", "0") not in {"0", str(inner)}:
            raise UnsupportedCheckpoint(
                f"{self._file.path} has transformer-decoder-dim-ffn "
                f"{self._text('transformer-decoder-dim-ffn')} and transformer-dim-ffn {inner}; a "
                "bundle has one"
            )
        return inner

    def _norm(self) -> Literal["before", "after"]:
        places = ("preprocess", "postprocess", "postprocess-top")
        found = [self._text(f"transformer-{place}").replace("d", "") for place in places]
        first, second, third = found
        norm = _NORMS.get((first, second, third))
        if norm is None:
            raise UnsupportedCheckpoint(
                f"{self._file.path} has the operations {found} before and after sub-layers and at "
                f"the top; {' and '.join(str(list(each)) for each in _NORMS)} can be imported"
            )
        return norm

    def _tying(self, shared: bool) -> Literal["all", "decoder", "none"]:
        if any(f"decoder_ff_logit_out_{name}" in self._file for name in ("W", "Wt")):
            return "none"
        return "all" if shared and self._table("encoder") == self._table("decoder") else "decoder"

    def _activation(self) -> Literal["relu", "silu", "gelu"]:
        name = self._text("transformer-ffn-activation")
        # Marian's GELU is x · sigmoid(1.702 x), which the graphs do not have.
        if name not in ACTIVATIONS or name == "gelu":
            raise UnsupportedCheckpoint(
                f"{self._file.path} has the activation {name!r}; relu and swish can be imported"
            )
        return ACTIVATIONS[name]
