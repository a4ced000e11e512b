"""Grid search over beam size and length penalty on a validation set.

Every positive length penalty gives the same search: it ends with as many hypotheses as the beam is
wide, and the penalty only ranks them. So every beam size is searched once, and its hypotheses are
ranked again for every penalty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import TypeAdapter

from models.bundle.manifest import DecodingDefaults, LengthNormalisation
from models.reference.beam import Hypothesis, default_max_length, norm_of, searching_of
from models.transformer.transformer import Transformer
from training.evaluation.bitext import Bitext
from training.evaluation.network import Reader, bitext_of, search_texts
from training.evaluation.scores import bleu_for
from training.recipe import Recipe
from training.run_directory import RunDirectory

PENALTIES: dict[LengthNormalisation, tuple[float, ...]] = {
    "power": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0),
    "gnmt": (0.6, 1.0, 1.5, 2.0),
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trial:
    beam_size: int
    length_penalty: float
    length_normalisation: LengthNormalisation
    bleu: float
    """Mean over all directions on the validation set."""

    @property
    def decoding(self) -> DecodingDefaults:
        return DecodingDefaults(
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            length_normalisation=self.length_normalisation,
        )


@dataclass(frozen=True, slots=True)
class Tuning:
    """Content of ``decoding.json``."""

    validation_set: str
    sentences: int
    """Sentences per direction."""
    decoding: DecodingDefaults
    """The best setting; among equals, the narrowest beam."""
    instead_of: dict[str, bool | int | float | str]
    """The recipe's setting."""
    trials: tuple[Trial, ...]
    """Best first."""

    def to_json(self) -> str:
        return _ADAPTER.dump_json(self, indent=2).decode() + "\n"


_ADAPTER = TypeAdapter(Tuning)


def tune(
    recipe: Recipe,
    run: RunDirectory,
    network: Transformer,
    data_directory: Path,
    device: torch.device | None = None,
    *,
    beam_sizes: Sequence[int],
    sentences: int,
) -> Tuning:
    """Try every beam size and penalty on the first sentences of the validation set; writes
    ``decoding.json``, which ``evaluate`` and ``export`` read."""
    data, tokenizers = recipe.data, run.tokenizers()
    network.to(device)
    texts = [
        bitext_of(data.valid_set(direction), data, direction, data_directory).first(sentences)
        for direction in data.directions
    ]
    trials: list[Trial] = []
    for beam_size in sorted(beam_sizes):
        found = []
        for bitext in texts:
            assert bitext.sources is not None
            reader = Reader.of(data, bitext.target, tokenizers, network.config.max_length)
            sources, _ = reader.read(bitext.sources)
            searching = searching_of(
                DecodingDefaults(beam_size=beam_size), tokenizers.target.special_ids
            )
            title = f"{bitext.title}, beam {beam_size}"
            hypotheses = search_texts(network, sources, searching, title=title)
            limits = [default_max_length(len(ids), network.config.max_length) for ids in sources]
            found.append((bitext, hypotheses, limits))
        for normalisation, penalty in _penalties(beam_size):
            bleu = [
                _bleu(
                    [
                        tokenizers.target.decode(best_of(each, limit, penalty, normalisation))
                        for each, limit in zip(hypotheses, limits, strict=True)
                    ],
                    bitext,
                )
                for bitext, hypotheses, limits in found
            ]
            trial = Trial(beam_size, penalty, normalisation, sum(bleu) / len(bleu))
            logger.info("%s", trial)
            trials.append(trial)
    # Sorting is stable, and narrow beams come first.
    trials.sort(key=lambda trial: -trial.bleu)
    used = max(len(bitext.references) for bitext in texts)
    found_best = trials[0].decoding.model_dump(exclude_unset=True)
    decoding = DecodingDefaults.model_validate({**recipe.decoding, **found_best})
    tuning = Tuning(data.valid.name, used, decoding, recipe.decoding, tuple(trials))
    run.decoding.write_text(tuning.to_json(), encoding="utf-8")
    return tuning


def best_of(
    hypotheses: Sequence[Hypothesis],
    limit: int,
    length_penalty: float,
    length_normalisation: LengthNormalisation,
) -> tuple[int, ...]:
    """The best hypothesis under another penalty; input scores are those of ``power`` and 1.0."""

    def score(hypothesis: Hypothesis) -> float:
        # A hypothesis truncated at the maximum length has no eos.
        length = min(len(hypothesis.token_ids) + 1, limit)
        norm = norm_of(length, length_penalty, length_normalisation)
        return hypothesis.score * length / norm

    return max(hypotheses, key=score).token_ids


def _penalties(beam_size: int) -> Iterator[tuple[LengthNormalisation, float]]:
    if beam_size == 1:
        # A beam of 1 has one hypothesis, so the penalty has no effect.
        yield "power", DecodingDefaults().length_penalty
        return
    for normalisation, penalties in PENALTIES.items():
        for penalty in penalties:
            yield normalisation, penalty


def _bleu(translations: Sequence[str], bitext: Bitext) -> float:
    return float(bleu_for(bitext.target).corpus_score(translations, [bitext.references]).score)
