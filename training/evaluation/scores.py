"""BLEU, chrF and TER by sacreBLEU, with signatures and bootstrap confidence intervals."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from training.evaluation.bitext import Bitext
from training.refusal import Refusal

RESAMPLES = 1000
"""Bootstrap resamples: sacreBLEU's default."""
TOKENISED_BLEU = "BLEU, lower-cased and tokenised"


class UnknownTokenisation(Refusal):
    """sacreBLEU has no tokenizer here for a language."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric over one test set. Lower is better for TER, higher for the other metrics."""

    metric: str
    score: float
    mean: float
    """Mean over the bootstrap resamples (Koehn 2004, section 3)."""
    margin: float
    """Half the width of the middle 95 % of the resamples: the interval is ``mean ± margin``."""
    signature: str
    """sacreBLEU's signature, which records all settings, resamples and seed included."""


def bleu_for(language: str) -> BLEU:
    """BLEU with the tokenizer of a language; raises ``UnknownTokenisation``."""
    try:
        return BLEU(trg_lang=language)
    except (ImportError, RuntimeError) as error:
        raise UnknownTokenisation(
            f"sacreBLEU cannot cut {language!r} into words here: {' '.join(str(error).split())}"
        ) from error


def metrics_for(language: str) -> dict[str, Metric]:
    """The metrics of every test set, by name."""
    return {"BLEU": bleu_for(language), "chrF": CHRF(), "TER": TER()}


def measured(
    name: str, metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> Measured:
    """Score one system with resampling; as many hypotheses as references, at least one."""
    # corpus_score fails on the mean of resamples if some of them score 0.
    quietly()
    system: list[tuple[str, Sequence[str]]] = [("system", hypotheses)]
    signatures, columns = PairedTest(
        system, {name: metric}, [references], test_type="bs", n_samples=RESAMPLES
    )()
    # sacreBLEU has its own metric names, such as chrF2.
    ((sacrebleu_name, signature),) = signatures.items()
    (result,) = columns[sacrebleu_name]
    assert isinstance(result, Result) and result.mean is not None and result.ci is not None
    return Measured(name, float(result.score), float(result.mean), float(result.ci), str(signature))


def quietly() -> None:
    """Silence sacreBLEU's log message at the start of each test."""
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)


def score(hypotheses: Sequence[str], bitext: Bitext) -> list[Measured]:
    """All metrics of this test set, BLEU first."""
    results = [
        measured(name, metric, hypotheses, bitext.references)
        for name, metric in metrics_for(bitext.target).items()
    ]
    if bitext.tokenised_references is not None:
        results.append(
            measured(
                TOKENISED_BLEU,
                BLEU(tokenize="none", lowercase=True, force=True),
                lower_cased_and_tokenised(hypotheses, bitext.target),
                bitext.tokenised_references,
            )
        )
    return results


def lower_cased_and_tokenised(texts: Sequence[str], language: str) -> list[str]:
    """Lower-cased texts after Moses's punctuation normaliser and tokenizer.

    For Multi30k's raw references the result equals the published ``lc.norm.tok`` files.
    """
    normaliser, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [
        tokenizer.tokenize(normaliser.normalize(text.lower()), return_str=True) for text in texts
    ]


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of each sentence. BLEU is unsuitable for single sentences."""
    metric = CHRF()
    return [
        float(metric.sentence_score(hypothesis, [reference]).score)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
