"""The typed tree of a run. A recipe is a function that returns one; a variation derives from it.

Everything that decides what a run computes is in here, and is saved with every checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from models.bundle.bundle import SHORTLIST
from models.transformer.config import TransformerConfig
from training.data.generated import Generator


class InvalidRecipe(Exception):
    """The recipe, or a saved copy of one, does not make sense, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Parallel text found by name: ``<name>.<language>[.gz]`` under the data directory.

    A corpus with ``generator`` is made rather than found; see ``training.data.generated``.
    """

    name: str
    licence: str
    generator: Generator | None = None
    pairs: int = 0
    """How many pairs to generate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    source: str
    target: str
    train: tuple[Corpus, ...]
    valid: Corpus
    test: Corpus
    max_length: int = 128
    """Longest side kept, in pieces."""
    max_ratio: float = 4.0
    """Largest quotient of the two sides' lengths kept, for sides beyond ten words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Shared by both sides. ``word`` makes a piece of every blank-separated word."""

    size: int
    kind: Literal["unigram", "bpe", "word"] = "unigram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the recipe says of the network; the vocabulary's size comes from the data."""

    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    feed_forward: int
    norm: Literal["before", "after"] = "after"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    tying: Literal["all", "decoder", "none"] = "all"
    residual_dropout: float = 0.1
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    embedding_dropout: float = 0.1
    max_length: int = 256

    def config(self, vocabulary_size: int) -> TransformerConfig:
        return TransformerConfig(
            source_vocabulary=vocabulary_size,
            target_vocabulary=vocabulary_size,
            **{name: getattr(self, name) for name in self.__slots__},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation:
    """Adam with the paper's constants (section 5.3) and one of the schedules."""

    tokens_per_batch: int
    """Padded tokens, of the longer side, that one forward pass may hold."""
    accumulate: int = 1
    """Batches per optimiser step."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant"] = "noam"
    peak_learning_rate: float | None = None
    """Reached after ``warmup`` steps. ``noam`` derives it from the width instead."""
    warmup: int = 4000
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    clip_norm: float = 1.0
    label_smoothing: float = 0.1
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """``auto``: bf16 on a device that multiplies in it natively, fp32 elsewhere."""

    def __post_init__(self) -> None:
        if self.schedule != "noam" and self.peak_learning_rate is None:
            raise InvalidRecipe(f"schedule {self.schedule!r} needs a peak_learning_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to validate, to save and to stop."""

    steps: int
    validate_every: int
    keep_checkpoints: int = 5
    """At least as many as are averaged."""
    patience: int | None = None
    """Stop after so many validations without a better BLEU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    name: str
    data: Data
    vocabulary: Vocabulary
    network: Network
    optimisation: Optimisation
    budget: Budget
    average: int = 5
    """How many of the last checkpoints make the exported weights (section 6.1)."""
    seed: int = 1
    decoding: dict[str, float] = field(default_factory=dict)
    """Defaults for the bundle that differ from the manifest's own."""

    def __post_init__(self) -> None:
        if not 1 <= self.average <= self.budget.keep_checkpoints:
            raise InvalidRecipe(
                f"recipe {self.name!r} averages {self.average} checkpoints and keeps "
                f"{self.budget.keep_checkpoints}"
            )
        # Every sequence gets a bos or an eos.
        longest = self.data.max_length + 1
        if longest > self.network.max_length:
            raise InvalidRecipe(
                f"recipe {self.name!r} trains on sequences of {longest} tokens; its network reads "
                f"{self.network.max_length}"
            )

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    @classmethod
    def from_dict(cls, document: object) -> Recipe:
        """Raises ``InvalidRecipe`` naming each field that does not fit."""
        try:
            return _ADAPTER.validate_python(document)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise InvalidRecipe(f"saved recipe does not fit: {wrong}") from error


_ADAPTER = TypeAdapter(Recipe)


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where a run keeps what it makes."""

    path: Path

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer.model"

    @property
    def report(self) -> Path:
        return self.path / "prepare.json"

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.json"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def averaged(self) -> Path:
        return self.path / "averaged.pt"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @property
    def translations(self) -> Path:
        """Of the test set, by ``evaluate``."""
        return self.path / "translations.txt"

    @property
    def shortlist(self) -> Path:
        return self.path / SHORTLIST

    @property
    def data(self) -> Path:
        return self.path / "data"

    def shards(self, split: str) -> Path:
        return self.data / split
