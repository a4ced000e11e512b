"""Reads MarianMT (OPUS-MT) checkpoints: post-norm, halved sinusoids, a bias of every logit.

Two SentencePiece models share one vocabulary or have two. The decoder starts with pad, whose
embedding is zero. A model of several target languages reads a token ``>>fra<<`` before the source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.importing.checkpoint import Checkpoint
from models.importing.languages import Languages, by_code
from models.importing.model import Generation, Imported
from models.importing.network import Tables, configuration, network_of, number, sizes
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.vocabulary import Model, Specials, Vocabulary, arrange, parse, rewrite
from models.reference.transformer import FloatArray, ReferenceTransformer, sinusoids

SHARED, OUTPUT, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
ENCODER, DECODER = (f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder"))
POSITIONS = {side: f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}

TAG = re.compile(r">>(.+)<<")
"""The token that selects a target language."""


@dataclass(frozen=True, slots=True)
class Side:
    """Vocabulary and SentencePiece model of one side."""

    names: Mapping[int, str]
    size: int
    specials: Specials
    model: Model


def read_marian(checkpoint: Checkpoint) -> Imported:
    """Raises ``NotACheckpoint`` or ``UnsupportedCheckpoint``."""
    generation = Generation(checkpoint)
    settings = checkpoint.document("tokenizer_config.json", optional=True)
    shared = bool(checkpoint.config.get("share_encoder_decoder_embeddings", True))
    separate = bool(settings.get("separate_vocabs", False))
    if shared and separate:
        raise UnsupportedCheckpoint("its tokenizer has two vocabularies and its network one")
    source_side, target_side = _sides(checkpoint, shared, separate)
    forbidden = {*generation.ids("bad_words_ids"), *generation.ids("suppress_tokens")}
    forbidden.discard(target_side.specials.pad)
    target = arrange(
        target_side.names,
        target_side.size,
        target_side.specials,
        [target_side.model] if separate else [source_side.model, target_side.model],
        _is_tag,
        forbidden,
    )
    source = target
    if separate:
        source = arrange(
            source_side.names, source_side.size, source_side.specials, [source_side.model], _is_tag
        )
    if generation.single("forced_bos_token_id") is not None:
        raise UnsupportedCheckpoint("forced_bos_token_id is set, which no Marian model needs")
    return Imported(
        kind="MarianMTModel",
        network=_network(checkpoint, source, target, shared),
        source_model=rewrite(source_side.model, source, "source.spm"),
        target_model=rewrite(target_side.model, target, "target.spm"),
        languages=_languages(settings, source),
        decoding=generation.decoding(),
        unmapped=generation.unmapped(),
    )


def _sides(checkpoint: Checkpoint, shared: bool, separate: bool) -> tuple[Side, Side]:
    config = checkpoint.config
    size = number(config, "vocab_size")
    target_size = _target_size(config, shared)
    if not separate and target_size != size:
        raise UnsupportedCheckpoint(
            f"vocab_size {size} and decoder_vocab_size {target_size} differ, and its tokenizer has "
            "one vocabulary"
        )
    source_names = _names(checkpoint, "vocab.json")
    target_names = _names(checkpoint, "target_vocab.json") if separate else source_names
    pad, unk, eos = (_id(source_names, piece, "vocab.json") for piece in ("<pad>", "<unk>", "</s>"))
    source = Side(
        source_names, size, Specials(pad, unk, pad, eos), _model(checkpoint, "source.spm")
    )
    specials = Specials(
        number(config, "pad_token_id"),
        _id(target_names, "<unk>", "target_vocab.json" if separate else "vocab.json"),
        number(config, "decoder_start_token_id"),
        number(config, "eos_token_id"),
    )
    if not separate and (specials.pad, specials.eos) != (pad, eos):
        raise UnsupportedCheckpoint(
            f"config.json calls {specials.pad} pad and {specials.eos} eos, vocab.json {pad} and "
            f"{eos}"
        )
    return source, Side(target_names, target_size, specials, _model(checkpoint, "target.spm"))


def _target_size(config: Mapping[str, Any], shared: bool) -> int:
    own = not shared and config.get("decoder_vocab_size")
    return number(config, "decoder_vocab_size" if own else "vocab_size")


def _names(checkpoint: Checkpoint, file: str) -> dict[int, str]:
    found = checkpoint.document(file)
    names = {i: piece for piece, i in found.items() if isinstance(i, int)}
    if len(names) != len(found):
        raise NotACheckpoint(f"{file} does not give every piece an id of its own")
    return names


def _id(names: Mapping[int, str], piece: str, file: str) -> int:
    for i, name in names.items():
        if name == piece:
            return i
    raise NotACheckpoint(f"{file} has no {piece}")


def _model(checkpoint: Checkpoint, name: str) -> Model:
    return parse(checkpoint.content(name), name)


def _is_tag(piece: str) -> bool:
    return TAG.fullmatch(piece) is not None


def _network(
    checkpoint: Checkpoint, source: Vocabulary, target: Vocabulary, shared: bool
) -> ReferenceTransformer:
    config = checkpoint.config
    tied = bool(config.get("tie_word_embeddings", True))
    described = sizes(config)
    config_of_network = configuration(
        **described,
        source_vocabulary=len(source),
        target_vocabulary=len(target),
        norm="after",
        positions="sinusoidal_halves",
        tying=("all" if shared else "decoder") if tied else "none",
    )
    learned = _tables_of_positions(checkpoint, described["max_length"], described["width"])
    if learned:
        config_of_network = replace(config_of_network, positions="learned")
    width, source_size = described["width"], number(config, "vocab_size")
    target_size = _target_size(config, shared)
    # A file may hold any one of tied tensors; untied embeddings are up to three tensors.
    one = (SHARED,) if shared else ()
    names = (*one, ENCODER, DECODER, OUTPUT) if shared and tied else (ENCODER, *one)
    of_source = _first(checkpoint, names, source_size, width)
    of_target = of_source
    if not (shared and tied):
        names = (DECODER, *one, *((OUTPUT,) if tied else ()))
        of_target = _first(checkpoint, names, target_size, width)
    of_output = of_target if tied else checkpoint.take(OUTPUT, target_size, width)
    bias_V = np.zeros(target_size, np.float32)
    if BIAS in checkpoint:
        bias_V = checkpoint.take(BIAS, 1, target_size)[0]
    tables = Tables(of_source, of_target, of_output, bias_V, tuple(learned))
    network = network_of(config_of_network, checkpoint, tables, source, target)
    checkpoint.leave((SHARED, ENCODER, DECODER, OUTPUT))
    checkpoint.check_all_taken()
    return network


def _first(checkpoint: Checkpoint, names: tuple[str, ...], *shape: int) -> FloatArray:
    """The first of these tensors that exists."""
    return checkpoint.take(next((name for name in names if name in checkpoint), names[0]), *shape)


def _tables_of_positions(checkpoint: Checkpoint, length: int, width: int) -> list[FloatArray]:
    """Position tables of both sides, if they differ from the standard sinusoids."""
    usual = sinusoids(length, width, "sinusoidal_halves")
    tables = [
        checkpoint.take(name, length, width) if name in checkpoint else usual
        for name in POSITIONS.values()
    ]
    # Sinusoids stored in half precision are off by 5e-4.
    return [] if all((np.abs(table - usual) < 1e-3).all() for table in tables) else tables


def _languages(settings: Mapping[str, Any], source: Vocabulary) -> Languages:
    def of(name: str) -> dict[str, tuple[int, ...]]:
        code = settings.get(name)
        return by_code([(code, ())] if isinstance(code, str) else [])

    tags = by_code(
        (found[1], (i,))
        for i, row in enumerate(source.rows)
        if (found := TAG.fullmatch(row.piece)) is not None
    )
    target = tags or of("target_lang")
    return Languages(
        source=of("source_lang"),
        target=target,
        source_open=True,
        target_open=not tags,
    )
