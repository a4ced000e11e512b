"""BLEU, chrF and TER as sacreBLEU counts them, with its signatures and confidence intervals."""

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
"""Of a bootstrap: sacreBLEU's own number."""
TOKENISED_BLEU = "BLEU, lower-cased and tokenised"


class UnknownTokenisation(Refusal):
    """sacreBLEU cannot cut a language into words here."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric over one test set. In TER less is better, in the others more."""

    metric: str
    score: float
    mean: float
    """Over the resamples of the bootstrap (Koehn 2004, section 3)."""
    margin: float
    """Half the width of the middle 95 % of the resamples: the interval is ``mean ± margin``."""
    signature: str
    """sacreBLEU's, which says how it was counted, resamples and seed included."""


def bleu_for(language: str) -> BLEU:
    """BLEU with the words of a language; raises ``UnknownTokenisation``."""
    try:
        return BLEU(trg_lang=language)
    except (ImportError, RuntimeError) as error:
        raise UnknownTokenisation(
            f"sacreBLEU cannot cut {language!r} into words here: {' '.join(str(error).split())}"
        ) from error


def metrics_for(language: str) -> dict[str, Metric]:
    """The metrics that every test set is scored with, by name."""
    return {"BLEU": bleu_for(language), "chrF": CHRF(), "TER": TER()}


def measured(
    name: str, metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> Measured:
    """Score one text, resampled; as many hypotheses as references, at least one."""
    # Not by corpus_score, which cannot take the mean of resamples of which some are worth 0.
    quietly()
    system: list[tuple[str, Sequence[str]]] = [("system", hypotheses)]
    signatures, columns = PairedTest(
        system, {name: metric}, [references], test_type="bs", n_samples=RESAMPLES
    )()
    # sacreBLEU has names of its own for metrics, such as chrF2.
    ((theirs, signature),) = signatures.items()
    (result,) = columns[theirs]
    assert isinstance(result, Result) and result.mean is not None and result.ci is not None
    return Measured(name, float(result.score), float(result.mean), float(result.ci), str(signature))


def quietly() -> None:
    """sacreBLEU tells of every sum that its tests begin."""
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)


def score(hypotheses: Sequence[str], bitext: Bitext) -> list[Measured]:
    """Every metric there is for this test set; BLEU first."""
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
    """Moses's punctuation normaliser and tokenizer over lower-cased text.

    On Multi30k's raw references it gives the published ``lc.norm.tok`` files, line for line.
    """
    normaliser, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [
        tokenizer.tokenize(normaliser.normalize(text.lower()), return_str=True) for text in texts
    ]


def sentence_scores(hypotheses: Sequence[str], references: Sequence[str]) -> list[float]:
    """chrF of every sentence by itself, which BLEU is not made for."""
    metric = CHRF()
    return [
        float(metric.sentence_score(hypothesis, [reference]).score)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
