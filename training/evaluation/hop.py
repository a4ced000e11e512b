"""Pipeline stage ``evaluate``: scores a run's averaged network on its recipe's test set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError

from models.bundle.manifest import DecodingDefaults
from models.reference.beam import searching_of
from models.transformer.transformer import Transformer
from training.evaluation.network import Reader, bitext_of, search_texts
from training.evaluation.scores import Measured, score
from training.recipe import Recipe
from training.refusal import Refusal
from training.run_directory import RunDirectory
from training.search.settings import decoding_of


class NotEvaluated(Refusal):
    """The run has no readable scores."""


@dataclass(frozen=True, slots=True)
class DirectionScores:
    source: str
    target: str
    sentences: int
    scores: tuple[Measured, ...]
    exact: float
    """Share of translations equal to their reference."""
    cut: int
    """Sentences truncated at the network's maximum length."""

    def __str__(self) -> str:
        scores = ", ".join(
            f"{each.metric} {each.score:.1f} ± {each.margin:.1f}" for each in self.scores
        )
        return f"{self.source}→{self.target}: {scores}; {self.exact:.1%} equal the reference"

    def score(self, metric: str) -> float:
        return next(each.score for each in self.scores if each.metric == metric)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Content of ``scores.json``."""

    test_set: str
    """Names of all test sets."""
    decoding: DecodingDefaults
    directions: tuple[DirectionScores, ...]

    @property
    def bleu(self) -> float:
        """Mean BLEU over all directions."""
        return sum(each.score("BLEU") for each in self.directions) / len(self.directions)

    def to_json(self) -> str:
        return _ADAPTER.dump_json(self, indent=2).decode() + "\n"

    @classmethod
    def read(cls, run: RunDirectory) -> Evaluation:
        """Raises ``NotEvaluated``."""
        try:
            return _ADAPTER.validate_json(run.scores.read_bytes())
        except (FileNotFoundError, ValidationError) as error:
            why = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
            raise NotEvaluated(
                f"{run.scores} {why}; run `python -m training evaluate {run.path.name}` first"
            ) from error


_ADAPTER = TypeAdapter(Evaluation)


def evaluate(
    recipe: Recipe,
    run: RunDirectory,
    network: Transformer,
    data_directory: Path,
    device: torch.device | None = None,
) -> Evaluation:
    """Translate the test set in every direction, by beam search; writes translations and scores."""
    data, tokenizers = recipe.data, run.tokenizers()
    decoding = decoding_of(recipe, run)
    searching = searching_of(decoding, tokenizers.target.special_ids)
    network.to(device)
    results = []
    for direction, path in run.translations_of(data).items():
        bitext = bitext_of(data.test_set(direction), data, direction, data_directory)
        assert bitext.sources is not None
        reader = Reader.of(data, bitext.target, tokenizers, network.config.max_length)
        sources, cut = reader.read(bitext.sources)
        found = search_texts(network, sources, searching, title=bitext.title)
        translations = [tokenizers.target.decode(each[0].token_ids) for each in found]
        pairs = zip(translations, bitext.references, strict=True)
        results.append(
            DirectionScores(
                *direction,
                sentences=len(translations),
                scores=tuple(score(translations, bitext)),
                exact=sum(text == reference for text, reference in pairs) / len(translations),
                cut=cut,
            )
        )
        path.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    names = ", ".join(corpus.name for corpus in data.test_sets)
    evaluation = Evaluation(names, decoding, tuple(results))
    run.scores.write_text(evaluation.to_json(), encoding="utf-8")
    return evaluation
