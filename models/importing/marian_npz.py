"""Reads models in Marian's own format: ``.npz`` with the configuration in ``special:model.yml``.

OPUS-MT publishes them with a vocabulary in YAML and two SentencePiece models, Bergamot's teachers
have one SentencePiece model as vocabulary. The decoder starts with a zero embedding. Positions are
tensor2tensor's sinusoids, which Marian computes (``src/graph/node_initializers.cpp``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from models.bundle.manifest import DecodingDefaults
from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.ctranslate2 import SINUSOIDS, is_control, languages_of_tokens
from models.importing.flat_yaml import Value, parse_flat, read_flat
from models.importing.model import Imported
from models.importing.network import ACTIVATIONS, Tables, configuration, embeddings
from models.importing.npz import Npz
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.side_files import read_bytes
from models.importing.vocabulary import Model, Specials, Vocabulary, arrange, parse, rewrite
from models.reference.transformer import FloatArray, ReferenceTransformer, weight_shapes

CONFIGURATION = "special:model.yml"
DECODER = "decoder.yml"
UNK, EOS = "<unk>", "</s>"

_NEUTRAL: Mapping[str, tuple[Value, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
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

_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)\.(weight|bias)")
_PARTS = {
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
        return any(_models(path)) or any(_binaries(path))
    return path.suffix == ".npz"


def read_marian_npz(path: Path) -> Imported:
    """Raises ``NotACheckpoint`` or ``UnsupportedCheckpoint``."""
    file = Npz(_model(path))
    directory = file.path.parent
    settings = read_flat(directory / DECODER) if (directory / DECODER).exists() else {}
    reader = _Reader(file)
    vocabularies = _vocabularies(directory, settings)
    if vocabularies[0].suffix == ".spm":
        models = [parse(read_bytes(each), each.name) for each in vocabularies]
        pieces = [[piece.piece for piece in model.pieces] for model in models]
        names = [dict(enumerate(each)) for each in pieces]
    else:
        models = [_sentencepiece(directory, side) for side in ("source", "target")]
        names = [_names(each) for each in vocabularies]
    shared = len(vocabularies) == 1
    target = _arranged(names[-1], reader.size("decoder"), models if shared else models[1:])
    source = target if shared else _arranged(names[0], reader.size("encoder"), models[:1])
    decoding, unmapped = _decoding(settings)
    return Imported(
        kind=f"transformer in {file.path.name}",
        library="Marian",
        network=reader.network(source, target),
        source_model=rewrite(models[0], source, "the source's SentencePiece model"),
        target_model=rewrite(models[-1], target, "the target's SentencePiece model"),
        languages=languages_of_tokens(source, target),
        decoding=decoding,
        unmapped=unmapped,
    )


def _models(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.npz"))


def _binaries(directory: Path) -> list[Path]:
    return [each for each in directory.glob("*.bin") if ".intgemm" in each.name]


def _model(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = _models(path)
    if len(found) == 1:
        return found[0]
    if found:
        raise NotACheckpoint(
            f"{path} has several models, {', '.join(each.name for each in found)}; add one of them"
        )
    raise UnsupportedCheckpoint(
        f"{_binaries(path)[0]} is in Marian's binary format for intgemm; the .npz that it was made "
        "from can be imported"
    )


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
            for suffix in (".yml", ".spm")
            for each in directory.glob(f"*{suffix}")
            if "vocab" in each.name
        )
    if len(found) not in {1, 2} or len({each.suffix for each in found}) != 1:
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
        if not isinstance(value, str) or not value.isdecimal() or int(value) in names:
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
    try:
        decoding = DecodingDefaults(
            beam_size=int(str(settings.get("beam-size", "6"))),
            length_penalty=float(str(settings.get("normalize", "0"))),
        )
    except ValueError as error:
        raise UnsupportedCheckpoint(f"its {DECODER}: {error}") from error
    penalty = settings.get("word-penalty", "0")
    return decoding, () if penalty == "0" else (f"word-penalty {penalty}",)


class _Reader:
    """The weights of a file, checked against its configuration."""

    def __init__(self, file: Npz) -> None:
        self._file = file
        self._taken = {CONFIGURATION}
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
        )
        width, rows = config.width, self.size("decoder")
        of_source = self._take(self._table("encoder"), self.size("encoder"), width)
        of_target = self._take(self._table("decoder"), rows, width)
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
        if left := sorted(set(self._file) - self._taken):
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
            return np.ascontiguousarray(self._take(stored, *shape[::-1]).T)
        # Norms before a sub-layer have another name.
        if "_ln_" in stored and f"{stored}_pre" in self._file:
            stored = f"{stored}_pre"
        return self._vector(stored, *shape)

    def _vector(self, name: str, size: int) -> FloatArray:
        """A vector, which Marian stores as a matrix of one row."""
        return self._take(name, 1, size).reshape(size)

    def _take(self, name: str, *shape: int) -> FloatArray:
        """An array as float32; raises unless it has the shape that the configuration implies."""
        if self._shape(name) != shape:
            raise UnsupportedCheckpoint(
                f"{self._file.path}: {name} has the shape {list(self._shape(name))}; its "
                f"configuration implies {list(shape)}"
            )
        found = self._file.read(name)
        if not np.issubdtype(found.dtype, np.floating):
            raise UnsupportedCheckpoint(
                f"{self._file.path}: {name} holds {found.dtype}; models quantised for intgemm are "
                "not imported, the one that they were made from can be"
            )
        tensor: FloatArray = found.astype(np.float32, copy=False)
        if not np.isfinite(tensor).all():
            raise NotACheckpoint(f"{self._file.path}: {name} holds what is not a number")
        self._taken.add(name)
        return tensor

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
