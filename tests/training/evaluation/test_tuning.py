from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from models.bundle.manifest import DecodingDefaults, LengthNormalisation
from models.bundle.tokenizer import SPECIAL_IDS
from models.reference.beam import Searching, default_max_length
from tests.support.prefix_decoder import PrefixDecoder
from tests.support.tiny_training import VOCABULARY_SIZE, prepared, tiny_network, tiny_recipe
from training.evaluation.hop import Evaluation, NotEvaluated, evaluate
from training.evaluation.tuning import best_of, tune
from training.recipe import InvalidRecipe
from training.search.batched import search_together
from training.search.settings import decoding_of

pytestmark = pytest.mark.usefixtures("few_samples")


@pytest.mark.parametrize(
    ("penalty", "normalisation"), [(0.2, "power"), (2.0, "power"), (0.6, "gnmt"), (3.0, "gnmt")]
)
def test_reranked_hypotheses_equal_those_of_a_search_with_that_penalty(
    penalty: float, normalisation: LengthNormalisation
) -> None:
    for seed in range(6):
        network = tiny_network(seed)
        source = (4, 5 + seed % 3, 7, SPECIAL_IDS.eos)
        limit = default_max_length(len(source), 9)
        (found,) = search_together(network, [source], Searching(SPECIAL_IDS, 4, 1.0), 9)
        wanted = Searching(SPECIAL_IDS, 4, penalty, normalisation)
        expected = wanted.best(PrefixDecoder(network), source, 9)
        assert best_of(found, limit, penalty, normalisation) == expected[0].token_ids


def test_evaluate_and_export_use_the_tuned_decoding(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    run = prepared(tmp_path, recipe)
    network = tiny_network()
    assert decoding_of(recipe, run) == DecodingDefaults(beam_size=2)
    tuning = tune(recipe, run, network, tmp_path, beam_sizes=(3, 1), sentences=4)
    assert (tuning.validation_set, tuning.sentences) == ("valid", 4)
    assert {trial.beam_size for trial in tuning.trials} == {1, 3}
    assert len([trial for trial in tuning.trials if trial.beam_size == 1]) == 1
    scores = [trial.bleu for trial in tuning.trials]
    assert scores == sorted(scores, reverse=True)
    assert decoding_of(recipe, run) == tuning.decoding == tuning.trials[0].decoding
    assert evaluate(recipe, run, network, tmp_path).decoding == tuning.decoding
    # A random network translates nothing correctly with any beam: the narrowest is chosen.
    if len(set(scores)) == 1:
        assert tuning.decoding.beam_size == 1
    # A recipe that changed since then must not use the tuned decoding.
    with pytest.raises(InvalidRecipe, match="7"):
        decoding_of(replace(recipe, decoding={"beam_size": 7}), run)
    for text in ("{", "{}", '{"decoding": {"beam_size": 0}}'):
        run.decoding.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidRecipe, match=r"decoding\.json"):
            decoding_of(recipe, run)


def test_an_evaluation_is_written_with_its_translations_and_read_again(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    run = prepared(tmp_path, recipe)
    with pytest.raises(NotEvaluated, match=r"scores\.json does not exist; run `python -m training"):
        Evaluation.read(run)
    evaluation = evaluate(recipe, run, tiny_network(), tmp_path)
    assert Evaluation.read(run) == evaluation
    assert json.loads(run.scores.read_text(encoding="utf-8"))["decoding"]["beam_size"] == 2
    (direction,) = evaluation.directions
    assert (direction.source, direction.target) == ("x-digits", "x-reversed")
    assert (direction.sentences, direction.cut) == (5, 0)
    assert evaluation.bleu == direction.score("BLEU")
    assert len(run.translations.read_text(encoding="utf-8").splitlines()) == 5
    run.scores.write_text('{"bleu": 1.0}', encoding="utf-8")
    with pytest.raises(NotEvaluated, match="cannot be read"):
        Evaluation.read(run)


def test_a_bidirectional_run_is_evaluated_in_each_direction(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    recipe = replace(
        recipe,
        data=replace(recipe.data, bidirectional=True),
        vocabulary=replace(recipe.vocabulary, size=VOCABULARY_SIZE + 2),
    )
    run = prepared(tmp_path, recipe)
    network = tiny_network(
        source_vocabulary=VOCABULARY_SIZE + 2, target_vocabulary=VOCABULARY_SIZE + 2
    )
    evaluation = evaluate(recipe, run, network, tmp_path)
    directions = [(each.source, each.target) for each in evaluation.directions]
    assert directions == [("x-digits", "x-reversed"), ("x-reversed", "x-digits")]
    for source, target in directions:
        path = run.path / f"translations.{source}-{target}.txt"
        assert len(path.read_text(encoding="utf-8").splitlines()) == 5
    forth, back = evaluation.directions
    assert evaluation.bleu == (forth.score("BLEU") + back.score("BLEU")) / 2
    assert tune(recipe, run, network, tmp_path, beam_sizes=(1,), sentences=2).sentences == 2
