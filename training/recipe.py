"""The typed tree of a run. A recipe is a function that returns one; a variation derives from it.

Everything that decides what a run computes is in here, and is saved with every checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from models.bundle.languages import canonical
from models.bundle.manifest import DecodingDefaults
from models.transformer.config import Activation, Positions, TransformerConfig
from training.data.generated import Generator
from training.refusal import Refusal

Count = Annotated[int, Field(ge=1)]
Weight = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]

_CHECKED = ConfigDict(extra="forbid", allow_inf_nan=False)


class InvalidRecipe(Refusal):
    """The recipe, or a saved copy of one, does not make sense, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Parallel text found by name: ``<name>.<language>[.gz]`` under the data directory.

    A corpus with ``generator`` is made rather than found; see ``training.data.generated``. Of a
    corpus with ``translated`` only the other side is found: this one is the work of the bundle
    ``translator``, which the hop ``translate`` writes into the run (sequence-level distillation
    where it is the target, back-translation where it is the source).
    """

    __pydantic_config__ = _CHECKED

    name: Annotated[str, Field(min_length=1)]
    licence: str
    generator: Generator | None = None
    pairs: Annotated[int, Field(ge=0)] = 0
    """How many pairs to generate."""
    translated: Literal["source", "target"] | None = None
    translator: str | None = None
    """A bundle's name in the directory of bundles, or the path of one."""
    repeat: Count = 1
    """How many times an epoch goes through it."""
    most: Count | None = None
    """Pairs used at most, evenly spread over those that pass the filters."""
    domain: str = ""
    """What it is about; the report of ``prepare`` adds up the tokens of each domain."""
    noisy: bool = False
    """Collected without review: pairs with a side in another language, or whose sides share most
    of their words, are dropped."""
    origin: str | None = None
    """Where it is from, in words: told to whoever does not have it."""

    def __post_init__(self) -> None:
        if (self.translated is None) != (self.translator is None):
            raise InvalidRecipe(
                f"corpus {self.name!r} names one of translated and translator; it needs both, or "
                "neither"
            )
        if self.translated is not None and self.generator is not None:
            raise InvalidRecipe(f"corpus {self.name!r} is generated, and cannot be translated")
        if self.generator is not None and not self.pairs:
            raise InvalidRecipe(f"corpus {self.name!r} is generated; say how many pairs")

    @property
    def label(self) -> str:
        """What reports call it: a corpus may be there once as found and once as translated."""
        if self.translated is None:
            return self.name
        # A card is read elsewhere, where a path means nothing.
        return f"{self.name}, {self.translated} by {PurePath(self.translator or '').name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """Share of the training pairs that ``prepare`` changes, by kind; see
    ``training.data.augmentation``. ``alone`` and ``fragments`` add pairs."""

    __pydantic_config__ = _CHECKED

    upper_case: Rate = 0.0
    """Both sides in capitals."""
    title_case: Rate = 0.0
    """Every word of both sides with a capital."""
    no_final_punctuation: Rate = 0.0
    """Without the mark that ends the sentence."""
    joined: Rate = 0.0
    """Two or three successive pairs become one."""
    fragments: Rate = 0.0
    """Parts of both sides before or after a mark that each side has once."""
    alone: Rate = 0.0
    """A span of any kind below, from ``numbers`` on, without a sentence."""
    marked: Rate = 0.0
    """With a bullet, a dialogue dash, a number of a list or notes of music."""
    bracketed: Rate = 0.0
    quoted: Rate = 0.0
    """The whole sentence, or a word that both sides share."""
    names: Rate = 0.0
    """A capitalised word that both sides share becomes one of another pair."""
    numbers: Rate = 0.0
    dates: Rate = 0.0
    times: Rate = 0.0
    amounts: Rate = 0.0
    codes: Rate = 0.0
    urls: Rate = 0.0
    addresses: Rate = 0.0
    user_names: Rate = 0.0
    emoji: Rate = 0.0
    placeholders: Rate = 0.0
    foreign: Rate = 0.0
    """Words in another script."""

    def __post_init__(self) -> None:
        changing = sum(getattr(self, each.name) for each in fields(self))
        if changing >= 1:
            raise InvalidRecipe(
                f"data.augmentation: the rates add up to {changing:.3g}; each pair is changed in "
                "at most one way, so they must stay below 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Languages are BCP 47 codes in their usual spelling; ``x-…`` is of private use."""

    __pydantic_config__ = _CHECKED

    source: str
    target: str
    train: Annotated[tuple[Corpus, ...], Field(min_length=1)]
    valid: Corpus
    test: Corpus
    bidirectional: bool = False
    """Every pair is learned both ways; a tag before the source says which language is wanted."""
    max_length: Count = 128
    """Longest side kept, in pieces, the tag of a language included."""
    max_ratio: Annotated[float, Field(ge=1)] = 4.0
    """Largest quotient of the two sides' lengths kept, for sides beyond ten words."""
    same_numbers: bool = False
    """Drop pairs of which one side has a number that the other lacks."""
    held_out: tuple[str, ...] = ()
    """Corpora to test with: a pair with a side of four words or more that equals a side of theirs
    is dropped."""
    same_template: Count | None = None
    """How many pairs may be the same but for their figures; boilerplate beyond it is dropped."""
    largest_domain: Share = 1.0
    """Share of the tokens that one domain may have; ``prepare`` refuses more."""
    augmentation: Augmentation = Augmentation()

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise InvalidRecipe(f"source and target are both {self.source!r}")
        for code in (self.source, self.target):
            _require_usual(code)
        for place, corpus in (("valid", self.valid), ("test", self.test)):
            if corpus.translated is not None or corpus.repeat > 1:
                raise InvalidRecipe(
                    f"data.{place}, {corpus.name!r}, is compared with as it is, once: it has "
                    "neither `translated` nor `repeat`"
                )
        labels = [corpus.label for corpus in self.train]
        if len(set(labels)) < len(labels):
            raise InvalidRecipe(
                "data.train names a corpus twice; give it a `repeat` instead: "
                f"{', '.join(sorted({label for label in labels if labels.count(label) > 1}))}"
            )

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Source and target of every direction that is learned."""
        forward = (self.source, self.target)
        return (forward, forward[::-1]) if self.bidirectional else (forward,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """``word`` makes a piece of every blank-separated word."""

    __pydantic_config__ = _CHECKED

    size: Annotated[int, Field(ge=5)]
    """Of each side, if the sides do not share one. Four pieces are special."""
    kind: Literal["unigram", "bpe", "word"] = "unigram"
    shared: bool = True
    character_coverage: Share = 1.0
    """Share of the characters that get pieces of their own. The rarest beyond it become unk, or
    bytes in a lossless vocabulary."""
    lossless: bool = False
    """Keep the text as it is, cut numbers into digits, and spell characters without a piece as
    bytes, so that ``unk`` is never produced."""

    def __post_init__(self) -> None:
        if self.lossless and self.kind == "word":
            raise InvalidRecipe("a lossless vocabulary is of kind unigram or bpe, not word")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the recipe says of the network; the vocabularies' sizes come from the data."""

    __pydantic_config__ = _CHECKED

    encoder_layers: Count
    decoder_layers: Count
    width: Count
    heads: Count
    feed_forward: Count
    norm: Literal["before", "after"] = "after"
    positions: Positions = "sinusoidal"
    tying: Literal["all", "decoder", "none"] = "all"
    output_bias: bool = False
    activation: Activation = "relu"
    residual_dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    feed_forward_dropout: Rate = 0.0
    embedding_dropout: Rate = 0.1
    max_length: Count = 256

    def __post_init__(self) -> None:
        try:
            # Whether the choices go together does not depend on the vocabularies.
            self.config(1)
        except ValueError as error:
            raise InvalidRecipe(f"network: {error}") from error

    def config(
        self, source_vocabulary: int, target_vocabulary: int | None = None
    ) -> TransformerConfig:
        """Of vocabularies of these sizes; without a second, both sides share the first."""
        return TransformerConfig(
            source_vocabulary=source_vocabulary,
            target_vocabulary=(
                source_vocabulary if target_vocabulary is None else target_vocabulary
            ),
            **{name: getattr(self, name) for name in self.__slots__},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimisation:
    """Adam with the paper's constants (section 5.3) and one of the schedules."""

    __pydantic_config__ = _CHECKED

    tokens_per_batch: Count
    """Padded tokens, of the longer side, that one forward pass may hold."""
    accumulate: Count = 1
    """Batches per optimiser step."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "wsd"] = "noam"
    peak_learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Reached after ``warmup`` steps. ``noam`` derives it from the width instead."""
    warmup: Annotated[int, Field(ge=0)] = 4000
    decay: Annotated[int, Field(ge=0)] = 0
    """Steps of ``wsd`` (warm-up, stable, decay) before the last in which the rate falls to nothing.
    A run that is given more steps goes on from its last checkpoint before the decay."""
    optimiser: Literal["adam", "muon"] = "adam"
    """``muon``: Muon for the matrices of the layers, Adam for embeddings, biases and norms."""
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    epsilon: Annotated[float, Field(gt=0)] = 1e-9
    weight_decay: Weight = 0.0
    """Decoupled (AdamW)."""
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    label_smoothing: Rate = 0.1
    r_drop: Weight = 0.0
    """Weight alpha of R-Drop (Liang et al., 2021): two passes with other dropout shall agree."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """``auto``: bf16 on a device that multiplies in it natively, fp32 elsewhere."""

    def __post_init__(self) -> None:
        if self.schedule != "noam" and self.peak_learning_rate is None:
            raise InvalidRecipe(f"schedule {self.schedule!r} needs a peak_learning_rate")
        if (self.schedule == "wsd") != (self.decay > 0):
            raise InvalidRecipe(
                "schedule 'wsd' needs a decay, in steps, and no other schedule has one"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When to validate, to save and to stop."""

    __pydantic_config__ = _CHECKED

    steps: Count
    validate_every: Count
    save_every: Count | None = None
    """Steps between checkpoints; ``None``: whenever it is validated."""
    keep_checkpoints: Count = 5
    """The last, at least as many as are averaged; the one that validated best is kept besides."""
    patience: Count | None = None
    """Stop after so many validations without a better BLEU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A run, whole: the same recipe, corpora and machine give the same bundle."""

    __pydantic_config__ = _CHECKED

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """Of the run's directory, and of the bundle unless that has a name of its own."""
    data: Data
    vocabulary: Vocabulary
    network: Network
    optimisation: Optimisation
    budget: Budget
    average: Count = 5
    """How many of the last checkpoints make the exported weights (section 6.1)."""
    seed: Annotated[int, Field(ge=0)] = 1
    initial: str | None = None
    """The run or bundle whose weights this one starts from (transfer learning), and its vocabulary,
    too, if that is described alike and of the same languages (fine-tuning)."""
    decoding: dict[str, int | float | str] = field(default_factory=dict)
    """Defaults for the bundle that differ from the manifest's own."""
    bundle: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")] | None = None
    """The bundle's name, if it is not the recipe's."""
    description: str = ""
    """What the model can and cannot do, in Markdown; a paragraph of its card."""
    effort: str = ""
    """What the run takes, in words: time, hardware, what must be there before."""

    def __post_init__(self) -> None:
        if not 1 <= self.average <= self.budget.keep_checkpoints:
            raise InvalidRecipe(
                f"recipe {self.name!r} averages {self.average} checkpoints and keeps "
                f"{self.budget.keep_checkpoints}"
            )
        try:
            DecodingDefaults.model_validate(self.decoding)
        except ValidationError as error:
            wrong = "; ".join(_complaint(each, ("decoding",)) for each in error.errors())
            raise InvalidRecipe(f"recipe {self.name!r}: {wrong}") from error
        # Every sequence gets a bos or an eos.
        longest = self.data.max_length + 1
        if longest > self.network.max_length:
            raise InvalidRecipe(
                f"recipe {self.name!r} trains on sequences of {longest} tokens; its network reads "
                f"{self.network.max_length}"
            )
        if not self.vocabulary.shared:
            if self.network.tying == "all":
                raise InvalidRecipe(
                    f"recipe {self.name!r} has separate vocabularies, and ties all embeddings; "
                    "let network.tying be decoder or none, or share the vocabulary"
                )
            if self.data.bidirectional:
                raise InvalidRecipe(
                    f"recipe {self.name!r} is bidirectional, and either language may be the "
                    "source; it needs a shared vocabulary"
                )

    @property
    def bundle_name(self) -> str:
        return self.bundle or self.name

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    @classmethod
    def from_dict(cls, document: object) -> Recipe:
        """From plain values, as JSON has them.

        Raises ``InvalidRecipe`` naming each field that is unknown, of another type, or impossible,
        and what is allowed.
        """
        try:
            # As JSON, so that strictness takes a list for a tuple and an object for a dataclass;
            # what JSON lacks, such as a date of TOML, as its text.
            return _ADAPTER.validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            wrong = "; ".join(map(_complaint, error.errors()))
            raise InvalidRecipe(f"the recipe does not fit: {wrong}") from error


def _require_usual(code: str) -> None:
    try:
        usual = canonical(code)
    except ValueError as error:
        raise InvalidRecipe(f"{error}; for a language of your own, write x-NAME") from error
    if usual != code:
        raise InvalidRecipe(
            f"the language {code!r} is written {usual!r}, here and at the end of files' names"
        )


def _complaint(error: ErrorDetails, within: tuple[str, ...] = ()) -> str:
    loc = (*within, *map(str, error["loc"]))
    place = ".".join(loc) or "the document"
    match error["type"]:
        case "unexpected_keyword_argument" | "extra_forbidden":
            return f"{place}: there is no such field; there are {', '.join(_siblings(loc))}"
        case "missing_argument" | "missing_keyword_only_argument" | "missing":
            return f"{place}: is missing"
    found = "" if isinstance(error["input"], dict | list) else f", not {error['input']!r}"
    return f"{place}: {error['msg'][0].lower()}{error['msg'][1:]}{found}"


_PARTS: dict[str, type] = {
    "data": Data,
    "train": Corpus,
    "valid": Corpus,
    "test": Corpus,
    "augmentation": Augmentation,
    "vocabulary": Vocabulary,
    "network": Network,
    "optimisation": Optimisation,
    "budget": Budget,
}


def _siblings(loc: tuple[str, ...]) -> list[str]:
    """The names of the fields where an unknown one was found."""
    if loc[0] == "decoding":
        return list(DecodingDefaults.model_fields)
    parents = [part for part in loc[:-1] if part in _PARTS]
    return [each.name for each in fields(_PARTS[parents[-1]] if parents else Recipe)]


_ADAPTER = TypeAdapter(Recipe)
