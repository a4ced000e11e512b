"""Hyperparameters of a Transformer. Checkpoints store them to rebuild the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Positions = Literal["sinusoidal", "sinusoidal_halves", "sinusoidal_tensor2tensor", "learned"]
Activation = Literal["relu", "silu", "gelu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """Defaults are the paper's base model (table 3), except ``norm``, which the paper places after.

    ``tying`` says which of the three embedding matrices (source, target, output) are shared:
    ``all`` (section 3.4), ``decoder`` (target and output) or ``none``. ``activation`` is the
    nonlinearity of the feed-forward sub-layer. ``positions`` are documented at
    ``models.transformer.layers.sinusoids``.
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 6
    decoder_layers: int = 6
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    norm: Literal["before", "after"] = "after"
    positions: Positions = "sinusoidal"
    first_position: int = 0
    """The position of the first token of a sequence in the sinusoidal table."""
    scaled_embeddings: bool = True
    """Whether embeddings are multiplied by √W (section 3.4)."""
    tying: Literal["all", "decoder", "none"] = "all"
    output_bias: bool = False
    """Whether the projection to logits has a bias."""
    decoder: Literal["self-attention", "ssru"] = "self-attention"
    """First sub-layer of a decoder layer: self-attention, or a Simpler Simple Recurrent Unit (Kim
    et al. 2019, "From Research to Production and Back")."""
    norm_epsilon: float = 1e-5
    """Added to the variance by layer normalisation."""
    activation: Activation = "relu"
    residual_dropout: float = 0.1
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    embedding_dropout: float = 0.1
    max_length: int = 256
    pad_id: int = 0

    def __post_init__(self) -> None:
        if min(self.heads, self.width) < 1 or self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        if self.positions != "learned" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        if self.positions == "sinusoidal_tensor2tensor" and self.width < 4:
            raise ValueError(f"{self.positions} positions need a width of 4 at least")
        if self.first_position < 0:
            raise ValueError(f"first_position must not be negative, as {self.first_position} is")
        if self.positions == "learned" and self.first_position:
            raise ValueError("learned positions have no first_position: their rows are what it is")
        if self.tying == "all" and self.source_vocabulary != self.target_vocabulary:
            raise ValueError(
                "tying all embeddings needs one vocabulary: source has "
                f"{self.source_vocabulary} pieces and target {self.target_vocabulary}"
            )
        if not 0.0 < self.norm_epsilon < 1.0:
            raise ValueError(f"norm_epsilon must be in (0, 1), not {self.norm_epsilon}")
        for name in ("residual", "attention", "feed_forward", "embedding"):
            rate = getattr(self, f"{name}_dropout")
            if not 0.0 <= rate < 1.0:
                raise ValueError(f"{name}_dropout must be in [0, 1), not {rate}")

    @property
    def recurrent(self) -> bool:
        """Whether decoder layers have SSRU instead of self-attention."""
        return self.decoder == "ssru"

    @property
    def head_width(self) -> int:
        return self.width // self.heads
