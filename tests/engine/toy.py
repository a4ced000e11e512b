"""Toy models: functions from source and prefix to logits or attention."""

from __future__ import annotations

import zlib

import numpy as np

from models.bundle.manifest import SpecialIds
from service.runtime.backend import FloatArray

SPECIAL_IDS = SpecialIds(pad=0, unk=3, bos=1, eos=2)
BOS, EOS, VOCABULARY = SPECIAL_IDS.bos, SPECIAL_IDS.eos, 12


def random_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """A pseudo-random but fixed distribution for every (source, prefix)."""
    seed = zlib.crc32(repr((source, prefix)).encode())
    logits = np.random.default_rng(seed).normal(size=VOCABULARY).astype(np.float32) * 2
    log_probs: FloatArray = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    return log_probs


def undecided_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """The distribution of ``random_model``, rounded so that equal sums are frequent."""
    return np.round(random_model(source, prefix)).astype(np.float32)


def random_attention(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """A pseudo-random but fixed distribution over the source, for every (source, prefix)."""
    seed = zlib.crc32(repr((prefix, source)).encode())
    weights: FloatArray = np.random.default_rng(seed).random(len(source), np.float32)
    return weights / weights.sum()


def copying_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Almost certainly repeats the source, then ends."""
    log_probs = np.full(VOCABULARY, -20.0, np.float32)
    log_probs[EOS] = -90.0  # or endings as unlikely as anything else would fill the beam
    position = len(prefix) - 1
    log_probs[source[position] if position < len(source) else EOS] = -0.01
    return log_probs
