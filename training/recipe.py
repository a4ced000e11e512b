"""Typed, validated recipe: the dataclasses that define all settings of a training run.

A recipe determines the run's results and is saved with every checkpoint. A recipe is written as a
function that returns one; a variation derives from it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from models.bundle.languages import canonical
from models.bundle.manifest import DecodingDefaults
from models.transformer.config import Activation, Positions, TransformerConfig
from training.data.generated import Generator
from training.refusal import Refusal

Count = Annotated[int, Field(ge=1)]
Metric = Literal["bleu", "chrf", "loss"]
Weight = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Passes = Annotated[
    float,
    Field(gt=0),
    # Whole numbers are written without a fraction.
    AfterValidator(lambda passes: int(passes) if passes % 1 == 0 else passes),
    PlainSerializer(lambda passes: passes, return_type=int | float),
]

_CHECKED = ConfigDict(extra="forbid", allow_inf_nan=False)


NAME = r"^[a-z0-9][a-z0-9._-]*$"
"""Pattern of the name of a recipe and of a bundle (``models.bundle.manifest``)."""


class InvalidRecipe(Refusal):
    """The recipe, or a saved copy of one, is invalid; the message names the fields."""

    places: frozenset[str] = frozenset()
    """Fields whose value has another type or is out of range, such as ``data.train.0.repeat``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Parallel text found by name: ``<name>.<language>[.gz]`` under the data directory.

    A corpus with ``generator`` is generated; see ``training.data.generated``. For a corpus with
    ``translated``, that side is machine-translated from the other side on disk: the hop
    ``translate`` writes it into the run with the bundle ``translator``. A translated target is
    sequence-level distillation, a translated source is back-translation.
    """

    __pydantic_config__ = _CHECKED

    name: Annotated[str, Field(min_length=1)]
    licence: str = field(default="unstated", compare=False)
    """Shown in the model card. A licence that was corrected makes no other corpus."""
    generator: Generator | None = None
    pairs: Annotated[int, Field(ge=0)] = 0
    """Number of pairs to generate."""
    translated: Literal["source", "target"] | None = None
    translator: str | None = None
    """Name of a bundle in the directory of bundles, or a bundle's path."""
    repeat: Passes = 1
    """Passes over the corpus per epoch. A fraction is one more pass over that part of the pairs,
    evenly spread and the same in every epoch; the seed decides which pairs."""
    most: Count | None = None
    """Maximum number of pairs, spread evenly over those that pass the filters."""
    domain: str = ""
    """Subject; the report of ``prepare`` adds up the tokens of each domain."""
    noisy: bool = False
    """Collected without review: pairs with a side in another language, or whose sides share most
    of their words, are dropped."""
    documents: bool = False
    """Successive pairs belong to one text; see ``Augmentation.passages``."""
    hold_out: Annotated[int, Field(ge=2)] | None = None
    """Every pair of this number, in the order of the files, is a pair to validate with instead: the
    run has a validation set of its own for each such corpus."""
    origin: str | None = field(default=None, compare=False)
    """Source of the corpus, in words; shown in the error if it is missing."""
    source: str | None = None
    target: str | None = None
    """Languages of its sides, where they are not those of ``Data``."""

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise InvalidRecipe(
                f"corpus {self.name!r} names one of source and target; it needs both, or neither"
            )
        if (self.translated is None) != (self.translator is None):
            raise InvalidRecipe(
                f"corpus {self.name!r} names one of translated and translator; it needs both, or "
                "neither"
            )
        if self.translated is not None and self.generator is not None:
            raise InvalidRecipe(f"corpus {self.name!r} is generated, and cannot be translated")
        if self.hold_out is not None and (self.generator or self.translated) is not None:
            raise InvalidRecipe(
                f"corpus {self.name!r} is generated or translated; hold pairs out of a corpus that "
                "is used as found"
            )
        if self.generator is not None and not self.pairs:
            raise InvalidRecipe(f"corpus {self.name!r} is generated; say how many pairs")

    @property
    def label(self) -> str:
        """Name in reports; unique also if the corpus is used in several languages, or both as found
        and as translated."""
        name = self.name if self.source is None else f"{self.name}, {self.source}-{self.target}"
        if self.translated is None:
            return name
        # Only the bundle's name, because model cards are read on other machines.
        return f"{name}, {self.translated} by {PurePath(self.translator or '').name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """Share of the training pairs that ``prepare`` changes, by kind; see
    ``training.data.augmentation``. ``alone`` and ``fragments`` add pairs."""

    __pydantic_config__ = _CHECKED

    upper_case: Rate = 0.0
    """Upper-case both sides."""
    title_case: Rate = 0.0
    """Capitalise every word of both sides."""
    no_final_punctuation: Rate = 0.0
    """Remove the sentence-final mark."""
    joined: Rate = 0.0
    """Join two or three successive pairs."""
    fragments: Rate = 0.0
    """Add the parts of both sides before or after a mark that each side has once."""
    alone: Rate = 0.0
    """Add a span of any kind below, from ``numbers`` on, without a sentence."""
    marked: Rate = 0.0
    """Add a bullet, a dialogue dash, a list number or musical notes."""
    bracketed: Rate = 0.0
    quoted: Rate = 0.0
    """Quote the whole sentence, or a word that both sides share."""
    names: Rate = 0.0
    """Replace a capitalised word that both sides share by one of another pair."""
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
    passages: Rate = 0.0
    """Join successive pairs up to some fifty words a side, in corpora with ``documents``."""

    def __post_init__(self) -> None:
        changing = sum(getattr(self, each.name) for each in fields(self))
        if changing >= 1:
            raise InvalidRecipe(
                f"data.augmentation: the rates add up to {changing:.3g}; each pair is changed in "
                "at most one way, so they must stay below 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Corpora, languages and filters. Languages are canonical BCP 47; ``x-…`` is private use."""

    __pydantic_config__ = _CHECKED

    source: str
    target: str
    train: Annotated[tuple[Corpus, ...], Field(min_length=1)]
    valid: Corpus
    test: Corpus
    more_valid: tuple[Corpus, ...] = ()
    more_test: tuple[Corpus, ...] = ()
    """Sets to validate and to test with in the other languages of a network with several pairs."""
    bidirectional: bool = False
    """Train both directions of each pair in one network; a tag before the source selects the target
    language."""
    max_length: Count = 128
    """Longest side kept, in pieces, including the language tag."""
    max_ratio: Annotated[float, Field(ge=1)] = 4.0
    """Largest ratio of the sides' lengths kept, for sides beyond ten words."""
    same_numbers: bool = False
    """Drop pairs whose sides contain different numbers."""
    held_out: tuple[str, ...] = ()
    """Test corpora: a training pair is dropped if a side of four or more words equals a side of a
    test pair."""
    same_template: Count | None = None
    """Maximum number of pairs that differ only in their figures; further boilerplate is dropped."""
    largest_domain: Share = 1.0
    """Maximum share of the tokens that one domain may have; ``prepare`` refuses more."""
    augmentation: Augmentation = Augmentation()
    temperature: Annotated[float, Field(ge=1)] | None = None
    """Corpora share an epoch in proportion to their pairs, after filters and ``most``, to the power
    of 1/T: the largest one once, smaller ones more often. ``None``: as often as they say."""

    def __post_init__(self) -> None:
        for source, target in dict.fromkeys(map(self.languages, self.corpora)):
            if source == target:
                raise InvalidRecipe(f"source and target are both {source!r}")
            for code in (source, target):
                _require_usual(code)
        for place, corpus in (
            *(("valid", corpus) for corpus in self.valid_sets),
            *(("test", corpus) for corpus in self.test_sets),
        ):
            if corpus.translated is not None or corpus.repeat != 1 or corpus.hold_out is not None:
                raise InvalidRecipe(
                    f"data.{place}, {corpus.name!r}, is compared with as it is, once: it has "
                    "none of `translated`, `repeat` and `hold_out`"
                )
        repeated = [corpus.name for corpus in self.train if corpus.repeat != 1]
        if self.temperature is not None and repeated:
            raise InvalidRecipe(
                f"data.temperature decides how often each corpus is repeated, and so does the "
                f"`repeat` of {', '.join(repeated)}; remove one of them"
            )
        labels = [corpus.label for corpus in self.train]
        if len(set(labels)) < len(labels):
            raise InvalidRecipe(
                "data.train names a corpus twice; give it a `repeat` instead: "
                f"{', '.join(sorted({label for label in labels if labels.count(label) > 1}))}"
            )

        if len(set(self.validated)) < len(self.validated):
            raise InvalidRecipe(
                "two sets to validate with, of data.more_valid and of the corpora that hold pairs "
                f"out, have the same name: {', '.join(self.validated)}"
            )
        self._require_sets_of_each_direction()

    def _require_sets_of_each_direction(self) -> None:
        for place, corpora in (("valid", self.valid_sets), ("test", self.test_sets)):
            counts = Counter(pair for each in corpora for pair in self.directions_of(each))
            other = [pair for pair in self.directions if counts[pair] != 1]
            other += [pair for pair in counts if pair not in self.directions]
            if other:
                raise InvalidRecipe(
                    f"{', '.join(map('-'.join, other))}: every trained direction needs one set in "
                    f"data.{place} and data.more_{place}, and no other direction has any"
                )

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        return (*self.train, *self.valid_sets, *self.test_sets)

    @property
    def valid_sets(self) -> tuple[Corpus, ...]:
        return (self.valid, *self.more_valid)

    @property
    def test_sets(self) -> tuple[Corpus, ...]:
        return (self.test, *self.more_test)

    @property
    def validated(self) -> tuple[str, ...]:
        """Labels of the sets to validate with, but for ``valid``."""
        held_out = (corpus for corpus in self.train if corpus.hold_out is not None)
        return tuple(corpus.label for corpus in (*self.more_valid, *held_out))

    def languages(self, corpus: Corpus) -> tuple[str, str]:
        """Languages of the sides of a corpus."""
        return corpus.source or self.source, corpus.target or self.target

    def directions_of(self, corpus: Corpus) -> tuple[tuple[str, str], ...]:
        """Source and target language of every direction in which a corpus is read."""
        source, target = self.languages(corpus)
        return ((source, target), (target, source)) if self.bidirectional else ((source, target),)

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """Source and target language of every trained direction."""
        every = (pair for corpus in self.train for pair in self.directions_of(corpus))
        return tuple(dict.fromkeys(every))

    def valid_set(self, direction: tuple[str, str]) -> Corpus:
        """The set to validate a trained direction with."""
        return next(each for each in self.valid_sets if direction in self.directions_of(each))

    def test_set(self, direction: tuple[str, str]) -> Corpus:
        """The set to test a trained direction with."""
        return next(each for each in self.test_sets if direction in self.directions_of(each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Subword vocabulary. ``word`` makes a piece of every blank-separated word."""

    __pydantic_config__ = _CHECKED

    size: Annotated[int, Field(ge=5)] = 8000
    """Pieces of each side without a shared vocabulary, the four special pieces included; fewer,
    with a warning, if the text has not so many."""
    kind: Literal["unigram", "bpe", "word"] = "unigram"
    shared: bool = True
    character_coverage: Share = 1.0
    """Share of the characters that get pieces of their own. The rarest beyond it become unk, or
    bytes in a lossless vocabulary."""
    lossless: bool = False
    """Keep the text unchanged, split numbers into digits, and spell characters without a piece as
    bytes, so that ``unk`` is never produced."""
    sample: Count = 200_000
    """Pairs that it is learned from, evenly spread. SentencePiece holds them all in memory."""
    inherited: bool = False
    """The tokenizers of ``Recipe.initial``, of whatever kind. No other field is read."""

    def __post_init__(self) -> None:
        if self.lossless and self.kind == "word":
            raise InvalidRecipe("a lossless vocabulary is of kind unigram or bpe, not word")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network hyperparameters; the vocabulary sizes come from the data."""

    __pydantic_config__ = _CHECKED

    encoder_layers: Count = 3
    decoder_layers: Count = 3
    width: Count = 256
    heads: Count = 4
    feed_forward: Count = 1024
    norm: Literal["before", "after"] = "after"
    positions: Positions = "sinusoidal"
    tying: Literal["all", "decoder", "none"] = "all"
    output_bias: bool = False
    activation: Activation = "relu"
    decoder: Literal["self-attention", "ssru"] = "self-attention"
    """First sub-layer of each decoder layer; ``ssru`` is a recurrence (Kim et al. 2019)."""
    norm_epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Added to the variance by layer normalisation."""
    residual_dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    feed_forward_dropout: Rate = 0.0
    embedding_dropout: Rate = 0.1
    max_length: Count = 256

    def __post_init__(self) -> None:
        try:
            # Validates the combination, which does not depend on the vocabulary size.
            self.config(1)
        except ValueError as error:
            raise InvalidRecipe(f"network: {error}") from error

    def config(
        self, source_vocabulary: int, target_vocabulary: int | None = None
    ) -> TransformerConfig:
        """The network's configuration; without a second size, both sides share the first."""
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

    tokens_per_batch: Count = 4000
    """Padded tokens, of the longer side, that one forward pass may hold."""
    accumulate: Count = 1
    """Batches per optimiser step."""
    schedule: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "wsd"] = "noam"
    peak_learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Reached after ``warmup`` steps. ``noam`` derives it from the width."""
    warmup: Annotated[int, Field(ge=0)] = 4000
    decay: Annotated[int, Field(ge=0)] = 0
    """Number of final steps of ``wsd`` (warm-up, stable, decay) in which the rate falls to zero.
    A run with an extended budget resumes from its last checkpoint before the decay."""
    decay_accumulate: Count | None = None
    """Batches per step in the decay, in place of ``accumulate``."""
    decay_label_smoothing: Rate | None = None
    """Label smoothing in the decay, in place of ``label_smoothing``."""
    optimiser: Literal["adam", "muon"] = "adam"
    """``muon``: Muon for the matrices of the layers, Adam for embeddings, biases and norms."""
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    epsilon: Annotated[float, Field(gt=0)] = 1e-9
    weight_decay: Weight = 0.0
    """Decoupled (AdamW)."""
    clip_norm: Annotated[float, Field(gt=0)] = 1.0
    label_smoothing: Rate = 0.1
    moving_average: Rate = 0.0
    """Share that an exponential moving average of the weights keeps of itself at every step; 0: no
    average. Where there is one, it is what validation, ``average`` and ``export`` use. In the first
    steps the share is smaller, so that the weights of the beginning are forgotten."""
    r_drop: Weight = 0.0
    """Weight alpha of R-Drop (Liang et al., 2021), a penalty on differing dropout passes."""
    guided_alignment: Weight = 0.0
    """Weight of the alignment loss of one head, which then aligns the words of the bundle; see
    ``training.loop.guidance``."""
    split_pieces: Rate = 0.0
    """Share of the pieces that are read as two pieces, others in every epoch; see
    ``training.data.splitting``. The budget of a batch does not count the additional ones."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """``auto``: the faster one where the run begins, by timing on a CPU. The run keeps it."""

    def __post_init__(self) -> None:
        if self.schedule != "noam" and self.peak_learning_rate is None:
            raise InvalidRecipe(f"schedule {self.schedule!r} needs a peak_learning_rate")
        if self.schedule == "noam" and self.peak_learning_rate is not None:
            raise InvalidRecipe(
                "schedule 'noam' derives its peak from the width; remove peak_learning_rate, or "
                "set it to null"
            )
        if (self.schedule == "wsd") != (self.decay > 0):
            raise InvalidRecipe(
                "schedule 'wsd' needs a decay, in steps, and no other schedule has one"
            )
        if self.guided_alignment and self.r_drop:
            raise InvalidRecipe("guided_alignment and r_drop exclude each other: set one to 0")
        for name in ("decay_accumulate", "decay_label_smoothing"):
            if getattr(self, name) is not None and not self.decay:
                raise InvalidRecipe(f"{name} is of the decay of schedule 'wsd', and there is none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Number of steps, intervals of validation and saving, and patience."""

    __pydantic_config__ = _CHECKED

    steps: Count = 10_000
    validate_every: Count = 500
    save_every: Count | None = None
    """Steps between checkpoints; ``None``: at every validation."""
    keep_checkpoints: Count = 5
    """Number of last checkpoints kept, at least those averaged. The best one is kept, too, or as
    many of the best as ``Recipe.average_of`` averages."""
    patience: Count | None = None
    """Stop after this many validations without a better result."""
    judged_by: Metric = "bleu"
    """Result of a validation by which it is better than another."""
    judged_on: str | None = None
    """The training corpus whose pairs that it holds out are judged; ``None``: ``data.valid``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All settings of a run: the same recipe, corpora and machine give the same bundle."""

    __pydantic_config__ = _CHECKED

    name: Annotated[str, Field(pattern=NAME)]
    """Names the run's directory, and the bundle unless ``bundle`` does."""
    data: Data
    vocabulary: Vocabulary = Vocabulary()
    network: Network = Network()
    optimisation: Optimisation = Optimisation()
    budget: Budget = Budget()
    average: Count = 5
    """Number of checkpoints averaged into the exported weights (section 6.1)."""
    average_of: Literal["last", "best"] = "last"
    """``best``: those that validate best (``Budget.judged_by``), which are kept, too."""
    strength: Share = 1.0
    """Share of the averaged weights in the exported ones; the remainder are those of ``initial``,
    so that less is forgotten (WiSE-FT, Wortsman et al., 2022)."""
    shortlist: bool = True
    """Whether ``run`` builds a shortlist; one learned from little text is a poor one."""
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 1
    """Seed of all random numbers, below 2⁶⁴, the limit of PyTorch."""
    initial: str | None = None
    """The run or bundle whose weights initialise this one (transfer learning). Its vocabulary is
    reused if languages and settings are the same (fine-tuning)."""
    grow: bool = False
    """Grow the network of ``initial`` to this one: wider, deeper, with more heads, without changing
    what it computes; see ``training.initial.growth``."""
    decoding: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Defaults for the bundle that differ from the manifest's own."""
    bundle: Annotated[str, Field(pattern=NAME)] | None = None
    """The bundle's name, if it is not the recipe's."""
    description: str = ""
    """Abilities and limits of the model, in Markdown; a paragraph of its card."""
    effort: str = ""
    """Cost of the run, in words: time, hardware, prerequisites."""

    def __post_init__(self) -> None:
        budget = self.budget
        if self.average_of == "last" and not 1 <= self.average <= budget.keep_checkpoints:
            raise InvalidRecipe(
                f"recipe {self.name!r} averages {self.average} checkpoints and keeps "
                f"{budget.keep_checkpoints}"
            )
        if self.average_of == "best" and budget.validate_every % (budget.save_every or 1):
            raise InvalidRecipe(
                f"recipe {self.name!r} averages the best checkpoints, validates every "
                f"{budget.validate_every} steps and saves every {budget.save_every}; let "
                "budget.validate_every be a multiple of budget.save_every"
            )
        others = self.data.validated
        if self.budget.judged_on not in (None, *others):
            raise InvalidRecipe(
                f"recipe {self.name!r} is judged on {self.budget.judged_on!r}, of which no pairs "
                f"are held out; those that hold out some: {', '.join(others) or 'none'}"
            )
        try:
            DecodingDefaults.model_validate(self.decoding)
        except ValidationError as error:
            wrong = "; ".join(_complaint(each, ("decoding",)) for each in error.errors())
            raise InvalidRecipe(f"recipe {self.name!r}: {wrong}") from error
        # Every sequence has a bos or an eos.
        longest = self.data.max_length + 1
        if longest > self.network.max_length:
            raise InvalidRecipe(
                f"recipe {self.name!r} trains on sequences of {longest} tokens; its network reads "
                f"{self.network.max_length}"
            )
        if self.grow and self.initial is None:
            raise InvalidRecipe(f"recipe {self.name!r} grows a network; name in initial which one")
        if self.strength < 1 and self.initial is None:
            raise InvalidRecipe(
                f"recipe {self.name!r} has the strength {self.strength}; name in initial which "
                "weights the remainder are"
            )
        if self.vocabulary.inherited and self.initial is None:
            raise InvalidRecipe(
                f"recipe {self.name!r} inherits a vocabulary; name in initial from what"
            )
        if not (self.vocabulary.shared or self.vocabulary.inherited):
            if self.network.tying == "all":
                raise InvalidRecipe(
                    f"recipe {self.name!r} has separate vocabularies, and ties all embeddings; "
                    "let network.tying be decoder or none, or share the vocabulary"
                )
            if len(self.data.directions) > 1:
                raise InvalidRecipe(
                    f"recipe {self.name!r} has several directions, whose languages share the "
                    "pieces; it needs a shared vocabulary"
                )

    @property
    def bundle_name(self) -> str:
        return self.bundle or self.name

    def to_dict(self) -> dict[str, Any]:
        document: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return document

    def to_json(self) -> str:
        """The text of a recipe file."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, document: object) -> Recipe:
        """Parse plain values, as from JSON.

        Raises ``InvalidRecipe`` naming each field that is unknown, of another type, or impossible,
        and what is allowed.
        """
        try:
            # Parsed as JSON, because strict mode then takes a list for a tuple and an object for a
            # dataclass. Types that JSON lacks, such as a date of TOML, become text.
            return _ADAPTER.validate_json(json.dumps(document, default=str), strict=True)
        except ValidationError as error:
            errors = _without_followers(error.errors())
            invalid = InvalidRecipe(
                f"the recipe does not fit: {'; '.join(map(_complaint, errors))}"
            )
            invalid.places = frozenset(".".join(map(str, each["loc"])) for each in errors)
            raise invalid from error


def require_name(option: str, name: str) -> None:
    """Raises ``InvalidRecipe`` naming the option if a recipe or bundle cannot have the name."""
    if not re.fullmatch(NAME, name):
        raise InvalidRecipe(
            f"{option} {name!r} is no name of a recipe or bundle; give it lower-case letters, "
            "digits, dots, dashes and underscores, and a letter or digit first"
        )


def _require_usual(code: str) -> None:
    try:
        usual = canonical(code)
    except ValueError as error:
        raise InvalidRecipe(f"{error}; for a language of your own, write x-NAME") from error
    if usual != code:
        raise InvalidRecipe(
            f"the language {code!r} is written {usual!r}, here and at the end of files' names"
        )


def _without_followers(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without those of lists that are short only because an item is invalid."""
    places = [error["loc"] for error in errors]
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or not any(
            place != error["loc"] and place[: len(error["loc"])] == error["loc"] for place in places
        )
    ]


def _complaint(error: ErrorDetails, within: tuple[str, ...] = ()) -> str:
    loc = (*within, *map(str, error["loc"]))
    place = ".".join(loc) or "the document"
    match error["type"]:
        case "unexpected_keyword_argument" | "extra_forbidden":
            return f"{place}: there is no such field; there are {', '.join(_siblings(loc))}"
        case "missing_argument" | "missing_keyword_only_argument" | "missing":
            return f"{place}: is missing"
    # A whole document says nothing.
    shown = bool(loc) and not isinstance(error["input"], dict | list)
    found = f", not {error['input']!r}" if shown else ""
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
    """The valid field names beside an unknown one."""
    if loc[0] == "decoding":
        return list(DecodingDefaults.model_fields)
    parents = [part for part in loc[:-1] if part in _PARTS]
    return [each.name for each in fields(_PARTS[parents[-1]] if parents else Recipe)]


_ADAPTER = TypeAdapter(Recipe)
