"""Reads CTranslate2 model directories: Transformers that its converters write.

The converters are those of OpenNMT-py, OpenNMT-tf, fairseq, Marian and transformers. Tokens have
names only; the text is tokenised by a SentencePiece model in the directory, or, if every token of
the vocabulary is one character, by characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from models.bundle.manifest import DecodingDefaults
from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.ctranslate2_file import NAME, ModelFile
from models.importing.languages import Languages, by_code
from models.importing.m2m100 import code_of, speaks
from models.importing.marian import TAG
from models.importing.model import Imported
from models.importing.network import Tables, configuration, embeddings
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.side_files import read_bytes, read_json, read_object
from models.importing.vocabulary import (
    Model,
    Piece,
    Specials,
    Vocabulary,
    arrange,
    parse,
    protocol,
    rewrite,
)
from models.reference.transformer import (
    FloatArray,
    ReferenceTransformer,
    weight_shapes,
)
from models.transformer.config import Activation, TransformerConfig

ACTIVATIONS: Mapping[int, Activation] = {0: "relu", 2: "silu", 3: "gelu"}
"""Activations by CTranslate2's number (``include/ctranslate2/ops/activation.h``)."""
HEADS = {"TransformerBase": 8, "TransformerBig": 16}
"""Specifications of old files, which imply the number of heads."""
SPECIFICATIONS = ("TransformerSpec", *HEADS)
LONGEST = 1024
"""Positions of a bundle: CTranslate2's default of ``max_input_length``."""
SINUSOIDS = 512
"""Positions of a model that computes them, without a table that would limit them."""
SHARED_TOKENIZERS = (
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "tokenizer.model",
)
TOKENIZERS = {"source": ("source.spm", "source.model"), "target": ("target.spm", "target.model")}

_ATTRIBUTES = {
    *("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer"),
    *("alignment_heads", "scale_embeddings", "start_from_zero_embedding", "alibi"),
    *("alibi_use_positive_positions", "scale_alibi", "multi_query_attention"),
    *("unk_token", "bos_token", "eos_token", "with_source_bos", "with_source_eos"),
    *("with_target_bos", "user_decoder_start_tokens", "multiply_by_sqrt_depth"),
}
_REFUSED_FLAGS = ("alibi", "multi_query_attention")
_CONTROL = re.compile(r"<.*>|>>.+<<|madeupword\d+")
_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)\.(weight|bias)")
_WHOLE = {
    "attention.output": "self_attention/linear_1",
    "cross.query": "attention/linear_0",
    "cross.output": "attention/linear_2",
    "feed_forward.inner": "ffn/linear_0",
    "feed_forward.outer": "ffn/linear_1",
}
_FUSED = {
    "attention.query": ("self_attention/linear_0", 0),
    "attention.key": ("self_attention/linear_0", 1),
    "attention.value": ("self_attention/linear_0", 2),
    "cross.key": ("attention/linear_1", 0),
    "cross.value": ("attention/linear_1", 1),
}
"""Matrix and place of each part of a fused matrix."""
_NORMS = {
    "attention_residual.norm": "self_attention/layer_norm",
    "cross_residual.norm": "attention/layer_norm",
    "feed_forward_residual.norm": "ffn/layer_norm",
}
_NORM_PARTS = {"weight": "gamma", "bias": "beta"}


@dataclass(frozen=True, slots=True)
class TokenNames:
    """Special tokens that the configuration names."""

    unk: str
    bos: str
    eos: str
    start: str
    """The decoder's first input."""
    source_eos: bool


def is_ctranslate2(directory: Path) -> bool:
    return (directory / NAME).is_file()


def read_ctranslate2(
    directory: Path,
    tokenizers: Path | None = None,
    languages: Callable[[Vocabulary, Vocabulary], Languages] | None = None,
) -> Imported:
    """``tokenizers`` is the directory of SentencePiece models, if it is another one. ``languages``
    finds the languages from the rows of both sides; by default tokens name them.

    Raises ``NotACheckpoint`` or ``UnsupportedCheckpoint``.
    """
    file = ModelFile(directory / NAME)
    if file.specification not in SPECIFICATIONS:
        raise UnsupportedCheckpoint(
            f"{file.path} holds a {file.specification or 'model without a specification'}; "
            f"{', '.join(SPECIFICATIONS)} can be imported"
        )
    special = _token_names(directory, file)
    source_tokens, target_tokens = _vocabularies(directory, special.unk)
    models = _models(tokenizers or directory, source_tokens, target_tokens, special)
    target = _arranged(target_tokens, special, [models[1]], file, "decoder")
    source = target
    if source_tokens != target_tokens:
        source = _arranged(source_tokens, special, [models[0]], file, "encoder")
    elif models[0] is not models[1]:
        source = target = _arranged(target_tokens, special, list(models), file, "decoder")
    return Imported(
        kind=file.specification,
        library="CTranslate2",
        network=_network(file, source, target, shared=source is target),
        source_model=rewrite(models[0], source, "the source's SentencePiece model"),
        target_model=rewrite(models[1], target, "the target's SentencePiece model"),
        languages=(languages or languages_of_tokens)(source, target),
        decoding=DecodingDefaults(),
        source_eos=special.source_eos,
    )


def languages_of_tokens(source: Vocabulary, target: Vocabulary) -> Languages:
    """The directions that tokens name, as in M2M100 or OPUS-MT; any pair if no token does."""
    by_token = {row.piece: (i,) for i, row in enumerate(source.rows)}
    if source is target:
        tokens = [token for token in by_token if speaks(token)]
        if spoken := by_code((code_of(token), by_token[token]) for token in tokens):
            return Languages(source=spoken, target=dict.fromkeys(spoken, ()), fed=spoken)
    tags = by_code(
        (found[1], ids) for token, ids in by_token.items() if (found := TAG.fullmatch(token))
    )
    return Languages(target=tags, source_open=True, target_open=not tags)


def _token_names(directory: Path, file: ModelFile) -> TokenNames:
    config: dict[str, Any] = {}
    if file.version >= 6 and (directory / "config.json").exists():
        config = read_object(directory / "config.json")
        if config.get("quantization_type"):
            raise UnsupportedCheckpoint(
                f"{directory} has AWQ weights; int8, int16, fp16 and fp32 can be imported"
            )
    elif file.version < 6:
        bos = file.text("bos_token") or "<s>"
        eos = file.text("eos_token") or "</s>"
        config = {
            "unk_token": file.text("unk_token") or "<unk>",
            "bos_token": bos,
            "eos_token": eos,
            "decoder_start_token": eos if file.number("with_target_bos") == 0 else bos,
            "add_source_bos": bool(file.number("with_source_bos")),
            "add_source_eos": bool(file.number("with_source_eos")),
        }
        if file.number("user_decoder_start_tokens"):
            config["decoder_start_token"] = None
    if config.get("add_source_bos"):
        raise UnsupportedCheckpoint("its source begins with bos, which a bundle cannot carry")
    start = config.get("decoder_start_token", "<s>")
    if start is None:
        raise UnsupportedCheckpoint("its decoder has no start token; callers choose one each time")
    eos = str(config.get("eos_token", "</s>"))
    # The converters of transformers leave the end of the source to the tokenizer of transformers,
    # which adds it. Models of OpenNMT-py, which start with bos, are trained without it.
    adds_eos = bool(config.get("add_source_eos", False))
    return TokenNames(
        str(config.get("unk_token", "<unk>")),
        str(config.get("bos_token", "<s>")),
        eos,
        str(start),
        source_eos=adds_eos
        or start == eos
        or bool(file.number("decoder/start_from_zero_embedding")),
    )


def _vocabularies(directory: Path, unk: str) -> tuple[list[str], list[str]]:
    shared = _vocabulary(directory, "shared_vocabulary", unk)
    if shared is not None:
        return shared, shared
    sides = [_vocabulary(directory, f"{side}_vocabulary", unk) for side in ("source", "target")]
    for side, found in zip(("source", "target"), sides, strict=True):
        if found is None:
            raise NotACheckpoint(f"{directory} has no vocabulary of its {side}")
    return sides[0] or [], sides[1] or []


def _vocabulary(directory: Path, name: str, unk: str) -> list[str] | None:
    path = directory / f"{name}.json"
    if path.exists():
        tokens = read_json(path)
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise NotACheckpoint(f"{path} is not a list of tokens")
    else:
        path = directory / f"{name}.txt"
        if not path.exists():
            return None
        try:
            tokens = read_bytes(path).decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise NotACheckpoint(f"{path} cannot be read: {error}") from error
        if all(token.endswith("\r") for token in tokens):
            tokens = [token.removesuffix("\r") for token in tokens]
    return tokens if unk in tokens else [*tokens, unk]


def _models(
    directory: Path, source: Sequence[str], target: Sequence[str], special: TokenNames
) -> tuple[Model, Model]:
    """The SentencePiece models of both sides."""
    for name in SHARED_TOKENIZERS:
        if (directory / name).is_file():
            model = parse(read_bytes(directory / name), name)
            return model, model
    found = {
        side: next((directory / name for name in names if (directory / name).is_file()), None)
        for side, names in TOKENIZERS.items()
    }
    if found["source"] and found["target"]:
        first, second = (parse(read_bytes(path), path.name) for path in found.values() if path)
        return first, second
    if (directory / "bpe.model").exists():
        raise UnsupportedCheckpoint(
            f"{directory} is tokenised by Moses and subword-nmt (bpe.model), which a bundle does "
            "not have; SentencePiece models can be imported"
        )
    return _characters(directory, source, special), _characters(directory, target, special)


def _characters(directory: Path, tokens: Sequence[str], special: TokenNames) -> Model:
    """A model that cuts text into characters."""
    model = protocol.ModelProto()
    model.trainer_spec.model_type = protocol.TrainerSpec.CHAR
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    model.pieces.add(piece=special.unk, type=Piece.UNKNOWN)
    controls = {special.bos, special.eos, special.start, "<blank>", "<pad>"}
    for token in tokens:
        if token == special.unk:
            continue
        if token not in controls and len(token) != 1:
            raise NotACheckpoint(
                f"{directory} has no SentencePiece model, and its vocabulary has more than "
                f"characters, such as {token!r}; put the model beside the vocabulary as "
                "sentencepiece.model, or source.spm and target.spm"
            )
        kind = Piece.CONTROL if token in controls else Piece.NORMAL
        model.pieces.add(piece=token, type=kind)
    return model


def _arranged(
    tokens: Sequence[str],
    special: TokenNames,
    models: Sequence[Model],
    file: ModelFile,
    side: Literal["encoder", "decoder"],
) -> Vocabulary:
    """The rows of one side. A row of zeros follows those of the file."""
    size = _table_rows(file, side)
    names = dict(enumerate(tokens))
    if len(tokens) > size:
        raise NotACheckpoint(
            f"{file.path} has {size} embeddings in its {side}, and the vocabulary {len(tokens)} "
            "tokens"
        )
    ids = {token: i for i, token in names.items()}
    if special.eos not in ids:
        raise NotACheckpoint(f"the vocabulary of the {side} has no {special.eos}")
    start = ids.get(special.start, ids[special.unk])
    if side == "decoder" and file.number("decoder/start_from_zero_embedding"):
        start = size
    pad = next((ids[name] for name in ("<blank>", "<pad>") if name in ids), size)
    specials = Specials(pad, ids[special.unk], start, ids[special.eos])
    return arrange(names, size, specials, models, is_control, further=1, keeps_probability=True)


def is_control(token: str) -> bool:
    return _CONTROL.fullmatch(token) is not None or speaks(token)


def _table_rows(file: ModelFile, side: str) -> int:
    shape = file.shape(_table(file, side))
    if len(shape) != 2:
        raise NotACheckpoint(f"{file.path}: the embeddings of its {side} are no matrix")
    return shape[0]


def _table(file: ModelFile, side: str) -> str:
    for name in (f"{side}/embeddings/weight", f"{side}/embeddings_0/weight"):
        if name in file:
            return name
    raise NotACheckpoint(f"{file.path} has no {side}/embeddings/weight")


def _network(
    file: ModelFile, source: Vocabulary, target: Vocabulary, *, shared: bool
) -> ReferenceTransformer:
    taken: set[str] = set()

    def take(name: str, *shape: int) -> FloatArray:
        if name not in file:
            raise NotACheckpoint(f"{file.path} has no {name}")
        if file.shape(name) != shape:
            raise UnsupportedCheckpoint(
                f"{file.path}: {name} has the shape {list(file.shape(name))}; the rest of the "
                f"network implies {list(shape)}"
            )
        taken.add(file.origin(name))
        return file.floats(name)

    config, names = _configuration(file, source, target, shared=shared)
    width = config.width
    of_source, of_target = (
        take(names[side], _table_rows(file, side), width) for side in ("encoder", "decoder")
    )
    of_output = take(names["output"], _table_rows(file, "decoder"), width)
    bias_V = np.zeros(len(of_target), np.float32)
    if "decoder/projection/bias" in file:
        bias_V = take("decoder/projection/bias", len(of_target))
    positions = tuple(
        take(name, *file.shape(name))[: config.max_length]
        for side in ("encoder", "decoder")
        if (name := f"{side}/position_encodings/encodings") in file
    )
    if config.positions == "learned" and len(positions) != 2:
        raise UnsupportedCheckpoint(f"{file.path} has a table of positions on one side only")
    zeros = np.zeros((1, width), np.float32)
    tables = Tables(
        np.concatenate((of_source, zeros)),
        np.concatenate((of_target, zeros)),
        np.concatenate((of_output, zeros)),
        np.append(bias_V, np.float32(0)),
        positions,
    )
    weights = embeddings(config, tables, source, target)
    fused: dict[str, FloatArray] = {}
    for name, shape in weight_shapes(config).items():
        if name in weights:
            continue
        layer = _LAYER.fullmatch(name)
        if layer is None:
            side, kind = name.split("_norm.")
            weights[name] = take(f"{side}/layer_norm/{_NORM_PARTS[kind]}", *shape)
            continue
        side, i, part, kind = layer.groups()
        scope = f"{side}/layer_{i}"
        if part in _NORMS:
            weights[name] = take(f"{scope}/{_NORMS[part]}/{_NORM_PARTS[kind]}", *shape)
        elif part in _WHOLE:
            weights[name] = _matrix(file, take, f"{scope}/{_WHOLE[part]}", kind, shape)
        else:
            matrix, place = _FUSED[part]
            own = f"{scope}/{matrix}"
            count = 3 if matrix.startswith("self") else 2
            whole = fused.get(f"{own}/{kind}")
            if whole is None:
                whole = _matrix(file, take, own, kind, (count * shape[0], *shape[1:]))
                fused[f"{own}/{kind}"] = whole
            weights[name] = np.ascontiguousarray(whole[place * width : (place + 1) * width])
    _check_all_taken(file, taken)
    return ReferenceTransformer(config, weights)


def _matrix(
    file: ModelFile, take: Callable[..., FloatArray], scope: str, kind: str, shape: tuple[int, ...]
) -> FloatArray:
    """A matrix or its bias; a linear layer without a bias has zeros."""
    name = f"{scope}/{kind}"
    if kind == "bias" and name not in file:
        return np.zeros(shape, np.float32)
    return take(name, *shape)


def _configuration(
    file: ModelFile, source: Vocabulary, target: Vocabulary, *, shared: bool
) -> tuple[TransformerConfig, dict[str, str]]:
    """The network's configuration, and the names of its tables."""

    def attribute(name: str, default: float) -> float:
        """An attribute of both sides, which old files have once."""
        values = {
            value
            for side in ("encoder", "decoder")
            if (value := file.number(f"{side}/{name}")) is not None
        }
        alone = file.number(name)
        values |= set() if alone is None else {alone}
        if len(values) > 1:
            raise UnsupportedCheckpoint(f"encoder and decoder differ in {name}; a bundle has one")
        return values.pop() if values else default

    for flag in _REFUSED_FLAGS:
        if attribute(flag, 0):
            raise UnsupportedCheckpoint(f"{file.path} has {flag}, which the graphs do not have")
    activation = int(attribute("activation", 0))
    if activation not in ACTIVATIONS:
        raise UnsupportedCheckpoint(
            f"{file.path} has the activation {activation}; "
            f"{', '.join(ACTIVATIONS.values())} can be imported"
        )
    names = {
        "encoder": _table(file, "encoder"),
        "decoder": _table(file, "decoder"),
        "output": "decoder/projection/weight",
    }
    width = file.shape(names["encoder"])[1]
    origins = {side: _same(file, name, names.values()) for side, name in names.items()}
    tying: Literal["all", "decoder", "none"] = "none"
    if origins["decoder"] == origins["output"]:
        tying = "all" if shared and origins["encoder"] == origins["decoder"] else "decoder"
    tables = [
        file.shape(name)
        for side in ("encoder", "decoder")
        if (name := f"{side}/position_encodings/encodings") in file
    ]
    if any(len(shape) != 2 or shape[1] != width for shape in tables):
        raise UnsupportedCheckpoint(f"{file.path} has positions of another width than {width}")
    inner = "encoder/layer_0/ffn/linear_0/weight"
    if inner not in file:
        raise NotACheckpoint(f"{file.path} has no {inner}")
    config = configuration(
        source_vocabulary=len(source),
        target_vocabulary=len(target),
        encoder_layers=_layers(file, "encoder"),
        decoder_layers=_layers(file, "decoder"),
        width=width,
        heads=int(attribute("num_heads", HEADS.get(file.specification, 8))),
        feed_forward=file.shape(inner)[0],
        norm="before" if attribute("pre_norm", 1) else "after",
        positions="learned" if tables else "sinusoidal_tensor2tensor",
        # CTranslate2 computes sinusoids from position 1.
        first_position=0 if tables else 1,
        scaled_embeddings=_scaled(file, width),
        tying=tying,
        output_bias=True,
        activation=ACTIVATIONS[activation],
        max_length=min([LONGEST, *(shape[0] for shape in tables)]) if tables else SINUSOIDS,
        pad_id=SPECIAL_IDS.pad,
    )
    return config, names


def _same(file: ModelFile, name: str, others: Iterable[str]) -> str:
    """The first of ``others`` that holds the same numbers as ``name``."""
    if name not in file:
        raise NotACheckpoint(f"{file.path} has no {name}")
    for other in others:
        if other == name or file.origin(other) == file.origin(name):
            return other
        alike = other in file and file.shape(other) == file.shape(name)
        if alike and np.array_equal(file.floats(other), file.floats(name)):
            return other
    raise AssertionError("a name equals itself")


def _scaled(file: ModelFile, width: int) -> bool:
    """Whether embeddings are multiplied by √W. The attribute is a flag or the factor itself."""
    found: set[bool] = set()
    for side in ("encoder", "decoder"):
        name = f"{side}/scale_embeddings"
        if name not in file:
            name = _table(file, side).replace("/weight", "/multiply_by_sqrt_depth")
        value = file.number(name)
        if value is None:
            found.add(True)
        elif file.read(name).dtype == np.int8:
            found.add(bool(value))
        elif value == 1.0 or abs(value - width**0.5) < 1e-2:
            found.add(value != 1.0)
        else:
            raise UnsupportedCheckpoint(
                f"{file.path} multiplies embeddings by {value:g}; √W and 1 can be imported"
            )
    if len(found) != 1:
        raise UnsupportedCheckpoint("encoder and decoder scale embeddings differently")
    return found.pop()


def _layers(file: ModelFile, side: str) -> int:
    numbers = {
        int(found[1])
        for name in file.names
        if (found := re.match(rf"{side}/layer_(\d{{1,4}})/", name))
    }
    if numbers != set(range(len(numbers))) or not numbers:
        raise NotACheckpoint(f"{file.path} lacks layers of its {side}")
    return len(numbers)


def _check_all_taken(file: ModelFile, taken: set[str]) -> None:
    """Raises ``UnsupportedCheckpoint`` with the names of variables that were not used."""
    left = sorted(
        name
        for name in file.names
        if file.origin(name) not in taken
        and name.rpartition("/")[2] not in _ATTRIBUTES
        and not (name.endswith("_scale") and file.origin(name).removesuffix("_scale") in taken)
    )
    if left:
        shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        raise UnsupportedCheckpoint(f"{file.path} has what no supported network has: {shown}")
