"""Data types of the decoding engine: options, hypotheses, results, finish reasons."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import Literal

from models.bundle.manifest import LengthNormalisation as LengthNormalisation
from service.engine.search_tree import SearchTree

MOST_SAMPLED = 256
"""Likeliest tokens that a token is drawn from, at most. More cost every sentence in the batch."""

MOST_ALTERNATIVES = 20
"""Alternative words of a place, at most, and hypotheses that compete for them."""


def sampled_from(sampling_topk: int) -> int:
    """Number of likeliest tokens that a token is drawn from."""
    return min(sampling_topk or MOST_SAMPLED, MOST_SAMPLED)


def row_cost(sampling_topk: int) -> float:
    """Cost of a row relative to a row of beam search, for admission and fairness.

    A row that samples from ``MOST_SAMPLED`` tokens costs less than two rows (docs/log.md).
    """
    return 1.0 if sampling_topk == 1 else 1 + sampled_from(sampling_topk) / MOST_SAMPLED


Priority = Literal["interactive", "bulk"]
"""Class of a sentence in the waiting queue: a user's request, or a file."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a sentence, which decides its turn and its share of the batch."""

    priority: Priority = "interactive"
    request: int = 0
    """Number of the request, whose sentences share its turns in the waiting queue."""
    caller: str = ""
    """Caller of the request. All sentences of a caller share its part of the batch."""
    scope: str = ""
    """Recent results are shared only between requests of the same scope."""


DEFAULT_ORIGIN = Origin()


@dataclass(frozen=True, slots=True)
class WordPieces:
    """How the tokens of a vocabulary make words; ``service.catalogue.vocabulary`` derives it."""

    starts: frozenset[int]
    """Tokens that end the word before them, ``eos`` among them."""
    closes: frozenset[int]
    """Tokens, such as punctuation marks, that end their own word."""


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """Search options of one sentence. Names and meanings are CTranslate2's where it has them.

    A hypothesis of ``T`` tokens (``eos`` and ``target_prefix`` counted) scores
    ``sum of log_probs / norm(T)``, where ``norm(T)`` is ``T**length_penalty`` (``power``) or
    ``((5 + T) / 6)**length_penalty`` (``gnmt``; Wu et al. 2016, equation 14, the one of "Attention
    Is All You Need"). A search ends when ``round(beam_size * patience)`` hypotheses have ended, or
    at ``max_decoding_length`` tokens, where the likeliest prefixes count as hypotheses as they
    are. See ``service.engine.search`` for the order of events.
    """

    beam_size: int = 4
    """1 is greedy search, or sampling."""
    patience: float = 1.0
    """The search ends after ``beam_size`` times this many hypotheses (Kasai et al. 2022)."""
    num_hypotheses: int = 1
    length_penalty: float = 1.0
    length_normalisation: LengthNormalisation = "power"
    coverage_penalty: float = 0.0
    """Adds this times the sum over the source of ``log(min(attention received, 1))`` to the score
    (Wu et al. 2016); the attention is the last layer's, averaged over its heads."""
    repetition_penalty: float = 1.0
    """Logits of tokens already written are divided by this, negative ones multiplied."""
    no_repeat_ngram_size: int = 0
    """No n-gram of this many tokens is written twice; 0 allows repetition."""
    disable_unk: bool = False
    suppress_sequences: tuple[tuple[int, ...], ...] = ()
    """These sequences of tokens are never written."""
    target_prefix: tuple[int, ...] = ()
    """Prefix of the translation; its tokens add nothing to the score."""
    forced_prefix_length: int = 0
    """Number of ``target_prefix`` tokens that come from the model and are always forced."""
    begins_after_prefix: bool = False
    """Whether the search begins after ``target_prefix``: its tokens are not counted in ``T``, and
    an ending right after it is a hypothesis at any rank."""
    completions: tuple[frozenset[int], ...] = ()
    """Substitutes for the last tokens of ``target_prefix``, in order: tokens that may stand in
    place of such a token and of all tokens after it. These last tokens are written with their
    log-probabilities."""
    prefix_bias_beta: float = 0.0
    """0 forces all of ``target_prefix``. Above 0 is CTranslate2's biased decoding: a position that
    has followed the prefix gives this share β of the probability to its next token."""
    min_decoding_length: int = 1
    """Least number of tokens before ``eos``."""
    max_decoding_length: int = 256
    """``eos`` counted. Reduced to the model's limit if above it."""
    sampling_topk: int = 1
    """1 is search; above 1, samples from that many likeliest tokens; 0 samples from as many as
    possible, which are ``MOST_SAMPLED``."""
    sampling_topp: float = 1.0
    """Samples from the fewest likeliest tokens whose probabilities sum to this."""
    sampling_temperature: float = 1.0
    """Divides the logits before sampling."""
    all_finished: bool = False
    """Returns, after the best ``num_hypotheses``, all further hypotheses with ``eos`` that the
    search has found when it stops. It does not run longer for them."""
    return_scores: bool = True
    """Whether scores are needed. Greedy search without them gives NaN, and takes less time."""
    seed: int = 0
    """Seed of sampling. The same seed gives the same translation in any batch."""
    alternative_words: WordPieces | None = None
    """Returns the ``num_hypotheses`` likeliest words after ``target_prefix``, each continued by
    greedy search. ``beam_size`` hypotheses compete for them. Scores are the log-probabilities of
    the words."""
    min_alternative_expansion_prob: float = 0.0
    """Least probability of an alternative."""
    recorded: bool = False
    """Returns the tree of the search. Changes nothing else; alternative words have none."""

    def __post_init__(self) -> None:
        def require(condition: bool, claim: str) -> None:
            if not condition:
                raise ValueError(claim)

        for name in (
            "patience",
            "length_penalty",
            "coverage_penalty",
            "repetition_penalty",
            "prefix_bias_beta",
            "sampling_topp",
            "sampling_temperature",
            "min_alternative_expansion_prob",
        ):
            require(math.isfinite(getattr(self, name)), f"{name} must be a finite number")
        require(self.beam_size >= 1, "beam_size must be at least 1")
        require(0 < self.patience <= 10, "patience must be above 0 and at most 10")
        require(self.max_finished >= 1, "beam_size * patience must round to 1 at least")
        require(self.num_hypotheses >= 1, "num_hypotheses must be at least 1")
        require(-10 <= self.length_penalty <= 10, "length_penalty must be between -10 and 10")
        require(0 <= self.coverage_penalty <= 10, "coverage_penalty must be between 0 and 10")
        require(0 < self.repetition_penalty <= 100, "repetition_penalty must be above 0, up to 100")
        require(self.no_repeat_ngram_size >= 0, "no_repeat_ngram_size must not be negative")
        require(all(self.suppress_sequences), "suppress_sequences must not hold an empty one")
        require(0 <= self.prefix_bias_beta < 1, "prefix_bias_beta must be at least 0 and below 1")
        require(self.min_decoding_length >= 0, "min_decoding_length must not be negative")
        require(self.max_decoding_length >= 1, "max_decoding_length must be at least 1")
        require(
            self.min_decoding_length <= self.max_decoding_length,
            "min_decoding_length must not be larger than max_decoding_length",
        )
        require(self.sampling_topk >= 0, "sampling_topk must not be negative")
        require(0 < self.sampling_topp <= 1, "sampling_topp must be above 0 and at most 1")
        require(self.sampling_temperature > 0, "sampling_temperature must be above 0")
        require(0 <= self.seed < 2**64, "seed must be a whole number from 0 to 2**64 - 1")
        require(
            0 <= self.min_alternative_expansion_prob <= 1,
            "min_alternative_expansion_prob must be between 0 and 1",
        )
        if self.alternative_words is not None:
            require(not self.samples, "alternative words are not sampled")
            require(self.coverage_penalty == 0, "alternative words have no coverage_penalty")
            require(self.prefix_bias_beta == 0, "alternative words have no prefix_bias_beta")
            require(self.length_penalty == 0, "alternative words have no length_penalty")
            require(not self.recorded, "the search for alternative words is not recorded")
        if self.samples:
            require(self.beam_size == 1, "sampling needs beam_size 1")
            require(self.coverage_penalty == 0, "sampling has no coverage_penalty")
            require(self.prefix_bias_beta == 0, "sampling has no prefix_bias_beta")
        else:
            require(
                self.num_hypotheses <= self.max_finished,
                "num_hypotheses must not be larger than beam_size * patience",
            )
        require(
            0 <= self.forced_prefix_length <= len(self.target_prefix),
            "forced_prefix_length must be of a part of target_prefix",
        )
        if self.completions:
            require(
                len(self.completions) <= len(self.target_prefix) - self.forced_prefix_length,
                "completions must be of a part of target_prefix",
            )
            require(self.prefix_bias_beta == 0, "completions have no prefix_bias_beta")
            require(not self.independent, "completions need beam or greedy search")
        require(
            not self.target_prefix or len(self.target_prefix) < self.max_decoding_length,
            "target_prefix must be shorter than max_decoding_length",
        )

    @property
    def forced_tokens(self) -> int:
        """Number of ``target_prefix`` tokens that are forced."""
        if self.prefix_bias_beta:
            return self.forced_prefix_length
        return len(self.target_prefix) - len(self.completions)

    @property
    def samples(self) -> bool:
        """Whether tokens are sampled; each hypothesis then has its own row."""
        return self.sampling_topk != 1

    @property
    def greedy(self) -> bool:
        """Whether the search has one row and stops at the first ending, for any ``patience``."""
        return self.beam_size == 1 and self.prefix_bias_beta == 0 and not self.independent

    @property
    def independent(self) -> bool:
        """Whether rows do not compete to the end, so that each gives a hypothesis of its own."""
        return self.samples or self.alternative_words is not None

    @property
    def rows(self) -> int:
        """Number of rows of the search."""
        return self.num_hypotheses if self.samples else self.beam_size

    @property
    def ranks(self) -> int:
        """Number of candidates of a sentence that are ranked in each step."""
        if self.independent:
            return self.rows
        # Each row has at most one ending, so 2 * beam_size candidates always refill the beam.
        return 1 if self.greedy else 2 * self.beam_size

    @property
    def sampled_from(self) -> int:
        """Number of candidates of each row that sampling needs; 0 without sampling."""
        return sampled_from(self.sampling_topk) if self.samples else 0

    @property
    def ends_early(self) -> bool:
        """Whether an ending of rank 0 may stop the search: no later hypothesis scores better."""
        unpunished = self.length_penalty == 0 and self.coverage_penalty == 0
        return unpunished and not self.independent and not self.greedy

    @property
    def enough_ends(self) -> int:
        """Number of finished hypotheses that stop a search."""
        if self.independent:
            return self.rows
        if self.ends_early:
            return self.num_hypotheses
        return 1 if self.greedy else self.max_finished

    @property
    def least_share(self) -> float:
        """Smallest factor from a row's sum of log-probabilities to its score; NaN if unbounded.

        Sums are never positive, so with a length penalty the longest hypothesis can score best.
        """
        if self.independent or self.length_penalty < 0:
            return math.nan
        return self.normalised(1.0, self.max_decoding_length)

    def needs_scores(self, constrained: bool) -> bool:
        """Whether the search needs log-probabilities, not only the order of candidates."""
        return self.return_scores or not self.greedy or constrained

    def normalised(self, log_prob: float, length: int) -> float:
        """The score of a hypothesis of ``length`` tokens, before any coverage penalty."""
        if self.begins_after_prefix:
            length = max(0, length - len(self.target_prefix))
        base = length if self.length_normalisation == "power" else (5 + length) / 6
        return log_prob / base**self.length_penalty if length else 0.0

    @property
    def max_finished(self) -> int:
        """Number of finished hypotheses that stop the search."""
        # Rounds halves up, as C's round does; Python's round goes to even.
        return math.floor(self.beam_size * self.patience + 0.5)


class FinishReason(enum.Enum):
    """Reason for the end of the best hypothesis."""

    COMPLETE = "complete"
    """It ended with ``eos``."""
    LENGTH = "length"
    """It was cut at ``max_decoding_length``, or had no allowed next token."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    token_ids: tuple[int, ...]
    """Tokens without ``bos`` and ``eos``, a forced prefix included."""
    score: float
    """Normalised by length; comparable among hypotheses of one sentence."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds that a sentence waited for its slot, and spent in the batch."""

    queued: float = 0.0
    decoding: float = 0.0


@dataclass(frozen=True, slots=True)
class Decoded:
    """Result of decoding one sentence: hypotheses, best first.

    ``finish_reason`` is that of the best hypothesis.
    """

    hypotheses: tuple[Hypothesis, ...]
    finish_reason: FinishReason
    durations: Durations = field(default=Durations(), compare=False)
    tree: SearchTree | None = None
    """Only if the search was ``recorded``."""
