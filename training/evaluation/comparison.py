"""Whether one system is better than another, or was only lucky with these sentences.

Both tests are sacreBLEU's. The null hypothesis of each is that the two systems are of a kind; the
p-value is how often chance alone would make a difference as large as the one seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.significance import PairedTest, Result

from training.evaluation.bitext import Bitext
from training.evaluation.scores import metrics_for, quietly

Test = Literal["bootstrap", "randomisation"]
_SHORT: dict[Test, str] = {"bootstrap": "bs", "randomisation": "ar"}
SAMPLES: dict[Test, int] = {"bootstrap": 1000, "randomisation": 10_000}
"""sacreBLEU's own numbers."""
LEAST_SAMPLES = 1000
SWAPS = 20_000_000
"""Sentences that are swapped or drawn in all samples together: beyond 2,000 sentences,
randomisation takes fewer samples than sacreBLEU would, as its signature says."""
LEVEL = 0.05
"""Differences with a p-value below it are called significant."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One system beside the baseline, by one metric."""

    metric: str
    baseline: float
    system: float
    difference: float
    """Of the system over the baseline."""
    bootstrap: float
    """p-value of paired bootstrap resampling (Koehn 2004, section 4), as Moses computes it."""
    randomisation: float
    """p-value of paired approximate randomisation (Riezler and Maxwell 2005, section 4)."""
    bootstrap_signature: str
    randomisation_signature: str

    @property
    def significant(self) -> bool:
        """Whether both tests say so."""
        return max(self.bootstrap, self.randomisation) < LEVEL

    @property
    def verdict(self) -> Literal["better", "worse", "not significant"]:
        """What may be said of the system."""
        if not self.significant:
            return "not significant"
        # Of edits, fewer are better.
        return "better" if (self.difference > 0) != (self.metric == "TER") else "worse"


def compare(baseline: Sequence[str], system: Sequence[str], bitext: Bitext) -> list[Compared]:
    """Both tests by every metric; as many hypotheses of each system as references.

    Equal scores are never significant: where resampling cannot tell two systems apart at all,
    sacreBLEU counts that as evidence, since no resample exceeds a difference of nothing.
    """
    bootstrap, randomisation = (_paired(test, baseline, system, bitext) for test in SAMPLES)
    return [
        Compared(
            name,
            first.baseline,
            first.system,
            first.system - first.baseline,
            first.p_value,
            randomisation[name].p_value,
            first.signature,
            randomisation[name].signature,
        )
        for name, first in bootstrap.items()
    ]


@dataclass(frozen=True, slots=True)
class _Outcome:
    baseline: float
    system: float
    p_value: float
    signature: str


def _paired(
    test: Test, baseline: Sequence[str], system: Sequence[str], bitext: Bitext
) -> dict[str, _Outcome]:
    """What one test says, by the names of ``metrics_for``."""
    quietly()
    metrics = metrics_for(bitext.target)
    named: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("system", system)]
    signatures, columns = PairedTest(
        named,
        metrics,
        [bitext.references],
        test_type=_SHORT[test],
        n_samples=_samples(test, len(bitext.references)),
    )()
    outcomes = {}
    # sacreBLEU has names of its own, such as chrF2, and keeps the order.
    for name, (theirs, signature) in zip(metrics, signatures.items(), strict=True):
        first, second = columns[theirs]
        assert isinstance(first, Result) and isinstance(second, Result)
        assert second.p_value is not None
        same = first.score == second.score
        outcomes[name] = _Outcome(
            float(first.score),
            float(second.score),
            1.0 if same else float(second.p_value),
            str(signature),
        )
    return outcomes


def _samples(test: Test, sentences: int) -> int:
    return min(SAMPLES[test], max(LEAST_SAMPLES, SWAPS // sentences))
