"""Reads the inputs of figures from run directories, or says which command creates them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from models.reference.beam import default_max_length
from models.transformer.transformer import AttentionMaps, Transformer
from training import checkpoint
from training.averaged import averaged_network
from training.data.corpus import read_lines
from training.data.shards import Shards
from training.data.tags import source_prefix
from training.evaluation.diagnostics import Bucket, diagnose
from training.evaluation.hop import Evaluation
from training.evaluation.network import bitext_of
from training.figures.curves import Average, History
from training.recipe import Recipe
from training.refusal import Refusal
from training.run_directory import RunDirectory, validated_splits
from training.search.greedy import greedy

_PLEASANT = range(8, 15)
"""Numbers of pieces at which attention maps are readable."""


@dataclass(frozen=True, slots=True)
class Material:
    """The selected runs; figures of a single run use the first."""

    runs: tuple[RunDirectory, ...]
    toy: RunDirectory
    data: Path
    sentence: str | None = None
    into: str | None = None
    """Target language of the sentence; ``None``: the recipe's target."""
    layers: tuple[int, ...] | None = None
    """Layers whose attention is shown, counted from one; ``None``: all."""

    @property
    def run(self) -> RunDirectory:
        return self.runs[0]

    def name_of(self, run: RunDirectory) -> str:
        """A name that distinguishes the run from the other runs."""
        names = [each.path.resolve().name for each in self.runs]
        name = run.path.resolve().name
        return name if names.count(name) <= 1 else str(run.path)


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence, its translation and the attention maps of every head."""

    source: tuple[str, ...]
    """Pieces, ``</s>`` last."""
    target: tuple[str, ...]
    """Pieces as the decoder reads them: ``<s>`` first."""
    maps: AttentionMaps


def recipe_of(run: RunDirectory) -> Recipe:
    """The recipe that a run was prepared with."""
    if not run.recipe.is_file():
        raise Refusal(
            f"{run.recipe} does not exist; run `python -m training run {run.path.name}` first, or "
            "name another run with --run"
        )
    return Recipe.from_dict(json.loads(run.recipe.read_text(encoding="utf-8")))


def network_of(run: RunDirectory) -> Transformer:
    """The averaged network; raises ``CheckpointError`` where there is none."""
    recipe_of(run)
    return averaged_network(run)


@torch.inference_mode()
def read(
    run: RunDirectory, network: Transformer, sentence: str | None, into: str | None = None
) -> Reading:
    """Translate a sentence greedily and keep all maps; default is one of the validation set.

    Raises ``Refusal`` if the run does not translate into that language, or the sentence is too long
    for the network.
    """
    data, tokenizers = recipe_of(run).data, run.tokenizers()
    special = tokenizers.source.special_ids
    into = into or data.target
    found = [direction for direction in data.directions if direction[1] == into]
    if not found:
        known = " and ".join(target for _, target in data.directions)
        raise Refusal(f"{run.path} translates into {known}, not into {into!r}; choose with --into")
    ids: tuple[int, ...]
    if sentence is None:
        split, corpus = next(
            each
            for each in validated_splits(data).values()
            if found[0] in data.directions_of(each[1])
        )
        ids = _validation_sentence(run.shards_of(split, corpus, data)[found[0]])
    else:
        ids = source_prefix(data, into, tokenizers.source) + tokenizers.source.encode(sentence)
    if len(ids) >= network.config.max_length:
        raise Refusal(
            f"the sentence has {len(ids)} pieces and the network reads "
            f"{network.config.max_length - 1}; give a shorter one with --sentence"
        )
    source_BS = torch.tensor([(*ids, special.eos)])
    limit = default_max_length(len(ids), network.config.max_length)
    (translated,) = greedy(network, source_BS, special, max_length=limit)
    # The last token of a truncated translation has no decoder position.
    target_BT = torch.tensor([(special.bos, *translated)[:limit]])
    _, maps = network.attention_maps(source_BS, target_BT)
    return Reading(
        tokenizers.source.pieces(source_BS[0].tolist()),
        tokenizers.target.pieces(target_BT[0].tolist()),
        maps,
    )


def history_of(run: RunDirectory, name: str) -> History:
    """A run's log, with the score of its averaged checkpoints if it has been evaluated."""
    recipe_of(run)
    average = None
    if run.scores.is_file() and run.averaged.is_file():
        evaluation = Evaluation.read(run)
        steps = tuple(checkpoint.load(run.averaged)["averaged"])
        average = Average(steps, evaluation.bleu, evaluation.test_set)
    return History.read(run.log, name, average)


def buckets_of(run: RunDirectory, name: str, data_directory: Path) -> dict[str, tuple[Bucket, ...]]:
    """BLEU by length of the translations that ``evaluate`` wrote, by run and direction.

    Raises ``Refusal`` if the run has not been evaluated, or on another test set.
    """
    data = recipe_of(run).data
    found = {}
    for direction, path in run.translations_of(data).items():
        again = f"run `python -m training evaluate {run.path.name}`"
        if not path.is_file():
            raise Refusal(f"{path} does not exist; {again} first")
        translations = tuple(read_lines(path))
        bitext = bitext_of(data.test_set(direction), data, direction, data_directory)
        if len(translations) != len(bitext.references):
            raise Refusal(
                f"{path} has {len(translations)} lines and {bitext.title} has "
                f"{len(bitext.references)}; {again} again"
            )
        label = f"{name}, {bitext.direction}" if len(data.directions) > 1 else name
        found[label] = diagnose(translations, bitext).buckets
    return found


def learned_positions(run: RunDirectory) -> torch.Tensor | None:
    """The embeddings of the encoder's positions, ``[P, W]``; ``None`` if they are not learned."""
    if not run.recipe.is_file() or recipe_of(run).network.positions != "learned":
        return None
    return network_of(run).source_embedding.positions.detach()


def shards_of(run: RunDirectory) -> Shards:
    recipe_of(run)
    return Shards.open(run.shards("train"))


def _validation_sentence(shards: Path) -> tuple[int, ...]:
    source = Shards.open(shards).source
    pleasant = np.flatnonzero(np.isin(source.lengths, _PLEASANT))
    return tuple(source[int(pleasant[0]) if len(pleasant) else 0].tolist())
