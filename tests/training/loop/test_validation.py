from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.tiny_training import prepared, tiny_network, tiny_recipe
from training.evaluation.scores import UnknownTokenisation
from training.loop.learner import Diverged
from training.loop.validation import Validator
from training.recipe import Recipe, Vocabulary
from training.run_directory import RunDirectory

CPU = torch.device("cpu")


def validator(tmp_path: Path, recipe: Recipe) -> Validator:
    run = prepared(tmp_path, recipe)
    return Validator(run, recipe.data, run.tokenizers().target, CPU)


def test_bleu_is_the_mean_of_both_directions(tmp_path: Path) -> None:
    one_way = tiny_recipe().data
    both_ways = replace(one_way, bidirectional=True)
    recipe = replace(tiny_recipe(), data=both_ways, vocabulary=Vocabulary(size=17, kind="word"))
    run = prepared(tmp_path, recipe)
    tokenizer = run.tokenizers().target
    network = tiny_network(source_vocabulary=17, target_vocabulary=17)
    alone = []
    for i, shards in enumerate(run.shards_of("valid", both_ways).values()):
        (tmp_path / f"{i}" / "data").mkdir(parents=True)
        (tmp_path / f"{i}" / "data" / "valid").symlink_to(shards)
        direction = Validator(RunDirectory(tmp_path / f"{i}"), one_way, tokenizer, CPU)
        alone.append(direction.validate(network))
    forth, back = alone
    assert forth.bleu != back.bleu
    together = Validator(run, both_ways, tokenizer, CPU).validate(network)
    assert together.bleu == pytest.approx((forth.bleu + back.bleu) / 2)
    # Reversed sequences have as many tokens as their sources, so both directions weigh the same.
    assert together.loss == pytest.approx((forth.loss + back.loss) / 2)
    assert together.perplexity == pytest.approx(math.exp(together.loss))


def test_bleu_tokenisation_follows_the_target_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe()
    japanese = replace(recipe, data=replace(recipe.data, target="ja"))
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(UnknownTokenisation, match="'ja'"):
        validator(tmp_path, japanese)


def test_infinite_perplexity_raises_diverged(tmp_path: Path) -> None:
    validate, network = validator(tmp_path, tiny_recipe()), tiny_network()
    for factor in (1e8, float("nan")):
        with torch.no_grad():
            network.generator.weight.mul_(factor)
        with pytest.raises(Diverged, match="lower the learning rate"):
            validate.validate(network)
