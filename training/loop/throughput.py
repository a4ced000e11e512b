"""Measures training speed: tokens per second, model FLOPs utilisation, time waiting for data.

Tokens are those of source and target, with ``bos`` or ``eos`` and without padding, so that less
padding counts as speed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from models.transformer.config import TransformerConfig
from training.data.portions import Amount

_RECENT = 50


def training_flops(config: TransformerConfig, amount: Amount) -> float:
    """Floating-point operations of a training step on ``amount``.

    A matrix of n weights costs 2n operations per token in the forward pass and twice as many in
    the backward pass: 6n (Kaplan et al., 2020, section 2.1). Attention from q to k positions costs
    2·q·k·W for QKᵀ and as many for the product with V, so 12·q·k·W with the backward pass
    (Chowdhery et al., 2022, appendix B), masked positions included. Not counted are embedding
    lookups, norms and activations, which are cheap, padding, and the recomputation of activation
    checkpointing.
    """
    width, inner = config.width, config.feed_forward
    square = width * width
    encoder_layer = 4 * square + 2 * width * inner
    # Queries and outputs of both attentions and keys and values of self-attention count per target
    # token, keys and values of cross-attention per source token. SSRU has two matrices.
    decoder_layer = (4 if config.recurrent else 6) * square + 2 * width * inner
    source = config.encoder_layers * encoder_layer + config.decoder_layers * 2 * square
    target = config.decoder_layers * decoder_layer + width * config.target_vocabulary
    pairs = config.encoder_layers * amount.source_squares + config.decoder_layers * (
        amount.products + (0 if config.recurrent else amount.target_squares)
    )
    matrices = source * amount.source_tokens + target * amount.target_tokens
    return 6.0 * matrices + 12.0 * width * pairs


@dataclass(frozen=True, slots=True)
class Speed:
    tokens_per_second: float
    """Source and target together, without padding."""
    utilisation: float | None
    """Share of the devices' dense bf16 peak (MFU); ``None`` where the peak is unknown."""
    waiting: float
    """Share of the time that was spent waiting for data."""

    def __str__(self) -> str:
        known = "" if self.utilisation is None else f", MFU {self.utilisation:.1%}"
        return f"{self.tokens_per_second:,.0f} tokens/s{known}, {self.waiting:.1%} waiting for data"


@dataclass(frozen=True, slots=True)
class _Lap:
    seconds: float = 0.0
    waited: float = 0.0
    tokens: int = 0
    flops: float = 0.0

    def __add__(self, other: _Lap) -> _Lap:
        return _Lap(
            self.seconds + other.seconds,
            self.waited + other.waited,
            self.tokens + other.tokens,
            self.flops + other.flops,
        )


class Meter:
    """Accumulates the durations of steps; a step processes every sentence ``passes`` times."""

    def __init__(self, config: TransformerConfig, peak: float | None, passes: int = 1) -> None:
        self._config = config
        self._peak = peak
        self._passes = passes
        self._recent: deque[_Lap] = deque(maxlen=_RECENT)
        self._since = _Lap()
        self._total = _Lap()

    def lap(self, amount: Amount, seconds: float, waited: float) -> None:
        tokens = amount.source_tokens + amount.target_tokens
        flops = self._passes * training_flops(self._config, amount)
        lap = _Lap(seconds, waited, tokens, flops)
        self._recent.append(lap)
        self._since += lap
        self._total += lap

    def recent(self) -> Speed:
        """Speed over the last fifty steps."""
        return self._speed(sum(self._recent, _Lap()))

    def since_last(self) -> Speed:
        """Speed over the steps since the previous call."""
        speed = self._speed(self._since)
        self._since = _Lap()
        return speed

    def total(self) -> Speed:
        return self._speed(self._total)

    def _speed(self, lap: _Lap) -> Speed:
        if not lap.seconds:
            return Speed(0.0, None, 0.0)
        rate = lap.flops / lap.seconds
        return Speed(
            lap.tokens / lap.seconds,
            None if self._peak is None else rate / self._peak,
            lap.waited / lap.seconds,
        )
