"""Test model of two directions: upper-cases German and lower-cases English.

A tag before the source selects the direction; lower-casing also requires a forced decoder token.
Tags are bytes that never occur in UTF-8, so that a tag in a text would be visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from models.bundle.manifest import Direction, Manifest
from models.bundle.tokenizer import Span
from service.runtime.backend import FloatArray
from tests.support.shouting import (
    BOS,
    EOS,
    ByteTokenizer,
    load_shouting,
    make_manifest,
    shouting,
)

_BYTES = 256
_FIRST = ByteTokenizer().encode("\0")[0]
LOUD, SOFT = _FIRST + 0xFE, _FIRST + 0xFF
LOUD_PIECE, SOFT_PIECE = "þ", "ÿ"
_X = ByteTokenizer().encode("x")[0]


def directed(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Model that reads languages from tags; without them, it writes an endless series of ``x``."""
    tag, text = source[0], source[1:]
    if tag == LOUD:
        return shouting(text, prefix)
    log_probs = np.full(_FIRST + _BYTES, -20.0, np.float32)
    log_probs[EOS] = -90.0
    token = _X
    if tag == SOFT and prefix[:2] == (BOS, SOFT):
        token = text[min(len(prefix) - 1, len(text)) - 1]
        if ord("A") <= token - _FIRST <= ord("Z"):
            log_probs[token] = -3.0
            token += 32
    log_probs[token] = -0.05
    return log_probs


def two_directions() -> Manifest:
    return make_manifest("both", "de", "en").model_copy(
        update={
            "directions": (
                Direction(source="de", target="en", source_prefix=(LOUD,)),
                Direction(source="en", target="de", source_prefix=(SOFT,), target_prefix=(SOFT,)),
            )
        }
    )


load_directed = partial(load_shouting, several=directed)
"""Replaces ``service.loading.loader.load_model``; a bundle of one direction upper-cases."""


class ShiftedTokenizer(ByteTokenizer):
    """Target tokenizer of separate vocabularies: every id is one higher."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(_FIRST + (i - _FIRST + 1) % _BYTES for i in super().encode(text))

    def decode(self, ids: tuple[int, ...]) -> str:
        return super().decode(_back(ids))

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        return super().decoded_spans(_back(ids))

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        return super().pieces(_back(ids))


def _back(ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(_FIRST + (i - _FIRST - 1) % _BYTES if i >= _FIRST else i for i in ids)


@dataclass(frozen=True)
class OneEach:
    source: ByteTokenizer = field(default_factory=ByteTokenizer)
    target: ByteTokenizer = field(default_factory=ShiftedTokenizer)


def shifting(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Upper-cases in the target's ids."""
    log_probs = shouting(source, tuple(prefix))
    return np.concatenate((log_probs[:_FIRST], np.roll(log_probs[_FIRST:], 1)))
