"""Reads M2M100 and NLLB checkpoints: pre-norm, tensor2tensor sinusoids, language tokens.

Positions start at 2. One SentencePiece model serves all languages. The source begins with its
language's token; the decoder starts with eos and is fed the target language's token first.
Checkpoints have no logit bias; the one made here only hides pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.importing.checkpoint import Checkpoint
from models.importing.languages import Languages, by_code
from models.importing.model import Generation, Imported
from models.importing.network import Tables, configuration, network_of, number, sizes
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.vocabulary import Specials, Vocabulary, arrange, parse, rewrite
from models.reference.transformer import FloatArray, ReferenceTransformer

MODEL = "sentencepiece.bpe.model"
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
TABLES = (SHARED, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
COMPUTED = tuple(f"model.{side}.embed_positions.weights" for side in ("encoder", "decoder"))
"""Sinusoid tables in old checkpoints, although the network computes them."""


def read_m2m100(checkpoint: Checkpoint) -> Imported:
    """Raises ``NotACheckpoint`` or ``UnsupportedCheckpoint``."""
    config, generation = checkpoint.config, Generation(checkpoint)
    settings = checkpoint.document("tokenizer_config.json", optional=True)
    if settings.get("legacy_behaviour"):
        raise UnsupportedCheckpoint(
            "its tokenizer is set to legacy_behaviour, the source's language after the source; set "
            "it to false in tokenizer_config.json, as the model was trained"
        )
    names, languages = _tokens(checkpoint, settings)
    by_name = {name: i for i, name in names.items()}
    try:
        unk = by_name["<unk>"]
    except KeyError as error:
        raise NotACheckpoint(f"{checkpoint.directory}: its vocabulary has no <unk>") from error
    specials = Specials(
        number(config, "pad_token_id"),
        unk,
        number(config, "decoder_start_token_id"),
        number(config, "eos_token_id"),
    )
    model = parse(checkpoint.content(MODEL), MODEL)
    special = {*languages, "<mask>"}
    forbidden = {*generation.ids("bad_words_ids"), *generation.ids("suppress_tokens")}
    forbidden.discard(specials.pad)
    vocabulary = arrange(
        names,
        number(config, "vocab_size"),
        specials,
        [model],
        special.__contains__,
        forbidden,
    )
    rows = {row.piece: i for i, row in enumerate(vocabulary.rows)}
    spoken = by_code((code_of(token), (rows[token],)) for token in languages)
    content = rewrite(model, vocabulary, MODEL)
    return Imported(
        kind="M2M100ForConditionalGeneration",
        network=_network(checkpoint, vocabulary),
        source_model=content,
        target_model=content,
        languages=Languages(source=spoken, target=dict.fromkeys(spoken, ()), fed=spoken),
        decoding=generation.decoding(),
        unmapped=generation.unmapped(),
    )


def code_of(token: str) -> str:
    """``de`` of ``__de__``."""
    return token.removeprefix("__").removesuffix("__")


def _network(checkpoint: Checkpoint, vocabulary: Vocabulary) -> ReferenceTransformer:
    config = checkpoint.config
    described = sizes(config)
    size, width = number(config, "vocab_size"), described["width"]
    tied = bool(config.get("tie_word_embeddings", True))
    config_of_network = configuration(
        **described,
        source_vocabulary=len(vocabulary),
        target_vocabulary=len(vocabulary),
        norm="before",
        positions="sinusoidal_tensor2tensor",
        # fairseq's first position is pad's id plus one.
        first_position=number(config, "pad_token_id") + 1,
        tying="all" if tied else "none",
    )
    sides = ("encoder",) * 2 if tied else ("encoder", "decoder")
    tables = [_table(checkpoint, side, tied, size, width) for side in dict.fromkeys(sides)]
    tables = tables * 2 if tied else tables
    output = tables[1] if tied else checkpoint.take(OUTPUT, size, width)
    no_bias_V = np.zeros(size, np.float32)
    found = Tables(tables[0], tables[1], output, no_bias_V)
    network = network_of(config_of_network, checkpoint, found, vocabulary, vocabulary)
    checkpoint.leave((*TABLES, OUTPUT, *COMPUTED, "final_logits_bias"))
    checkpoint.check_all_taken()
    return network


def _table(checkpoint: Checkpoint, side: str, tied: bool, size: int, width: int) -> FloatArray:
    """The embeddings of one side. A file may hold any one of several tied tensors."""
    own = f"model.{side}.embed_tokens.weight"
    names = (*TABLES, OUTPUT) if tied else (own, SHARED)
    return checkpoint.take(next((n for n in names if n in checkpoint), SHARED), size, width)


def _tokens(
    checkpoint: Checkpoint, settings: Mapping[str, Any]
) -> tuple[dict[int, str], tuple[str, ...]]:
    """The name of each id, and the names that denote languages.

    M2M100 has ``vocab.json`` followed by its languages, NLLB ``tokenizer.json`` with all names.
    """
    whole = checkpoint.document("tokenizer.json", optional=True)
    try:
        pieces = checkpoint.document("vocab.json", optional=True) or whole.get("model", {}).get(
            "vocab", {}
        )
        names = {int(i): str(piece) for piece, i in pieces.items()}
        added = {int(entry["id"]): str(entry["content"]) for entry in whole.get("added_tokens", ())}
        for i, entry in settings.get("added_tokens_decoder", {}).items():
            added.setdefault(int(i), str(entry["content"]))
        for piece, i in checkpoint.document("added_tokens.json", optional=True).items():
            added.setdefault(int(i), piece)
        listed = checkpoint.document("special_tokens_map.json", optional=True)
        tokens = [
            str(token if isinstance(token, str) else token["content"])
            for document in (settings, listed)
            for key in ("additional_special_tokens", "extra_special_tokens")
            for token in document.get(key) or ()
        ]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise NotACheckpoint(
            f"{checkpoint.directory}: the files of its tokenizer do not fit each other: {error!r}"
        ) from error
    if not names:
        raise NotACheckpoint(f"{checkpoint.directory} has neither vocab.json nor tokenizer.json")
    known = {*added.values(), *names.values()}
    # Tokens are added in the order of M2M100's list, which its tokenizer uses.
    for token in dict.fromkeys(tokens):
        if token not in known:
            added[max((*names, *added)) + 1] = token
    names |= added
    languages = tuple(token for token in names.values() if token in set(tokens) and speaks(token))
    if not languages:
        languages = tuple(token for token in added.values() if speaks(token))
    if not languages:
        raise NotACheckpoint(
            f"{checkpoint.directory} does not list its languages: neither "
            "additional_special_tokens nor added tokens name any"
        )
    return names, languages


def speaks(token: str) -> bool:
    """Whether a token has the form of a language, ``__de__`` or ``deu_Latn``."""
    return (token.startswith("__") and token.endswith("__")) or (
        len(token) == 8 and token[3] == "_"
    )
