"""Significance tests between systems: paired bootstrap and paired approximate randomisation.

Both tests are sacreBLEU's. The null hypothesis is that the two systems are equally good. The
p-value is the probability of a difference at least as large as the observed one by chance alone.
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
"""Defaults of sacreBLEU."""
LEAST_SAMPLES = 1000
SWAPS = 20_000_000
"""Upper bound of sentences that all samples together swap or draw. Beyond 2,000 sentences,
randomisation takes fewer samples than sacreBLEU's default; its signature states the number."""
LEVEL = 0.05
"""Differences with a p-value below it are significant."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One system compared with the baseline by one metric."""

    metric: str
    baseline: float
    system: float
    difference: float
    """Score of the system minus score of the baseline."""
    bootstrap: float
    """p-value of paired bootstrap resampling (Koehn 2004, section 4), as Moses computes it."""
    randomisation: float
    """p-value of paired approximate randomisation (Riezler and Maxwell 2005, section 4)."""
    bootstrap_signature: str
    randomisation_signature: str

    @property
    def significant(self) -> bool:
        """Whether both tests have a p-value below ``LEVEL``."""
        return max(self.bootstrap, self.randomisation) < LEVEL

    @property
    def verdict(self) -> Literal["better", "worse", "not significant"]:
        """The conclusion about the system."""
        if not self.significant:
            return "not significant"
        # TER counts edits: lower is better.
        return "better" if (self.difference > 0) != (self.metric == "TER") else "worse"


def compare(baseline: Sequence[str], system: Sequence[str], bitext: Bitext) -> list[Compared]:
    """Both tests by every metric. Every system has as many hypotheses as there are references.

    Equal scores are never significant. Without this rule sacreBLEU would call systems significant
    that resampling cannot distinguish, since no resample exceeds a difference of 0.
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
    """The result of one test, by the names of ``metrics_for``."""
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
    # sacreBLEU has its own names, such as chrF2, and keeps the order.
    for name, (sacrebleu_name, signature) in zip(metrics, signatures.items(), strict=True):
        first, second = columns[sacrebleu_name]
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
