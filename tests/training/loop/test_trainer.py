from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.importing.network import HIDDEN
from tests.support.tiny_training import (
    events,
    prepared,
    run_on,
    tiny_network,
    tiny_recipe,
    with_budget,
    with_network,
    with_optimisation,
    without_dropout,
)
from training import checkpoint
from training.averaged import average, averaged_network
from training.checkpoint import CheckpointError
from training.data.batching import Cursor, collate
from training.data.portions import Amount, Portion
from training.data.shards import Shards
from training.evaluation.scores import UnknownTokenisation
from training.loop import resuming, validation
from training.loop.distributed import World
from training.loop.execution import Execution
from training.loop.learner import Diverged
from training.loop.precision import AUTOCAST, Precision
from training.loop.progress import Progress
from training.loop.trainer import Trainer
from training.loop.validation import Validation, Validator
from training.recipe import Corpus, InvalidRecipe, Recipe, Vocabulary
from training.run_directory import RunDirectory

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Prepared, never trained."""
    return prepared(tmp_path_factory.mktemp("runs"), tiny_recipe())


@pytest.fixture
def run(tmp_path: Path, tiny_run: RunDirectory) -> RunDirectory:
    """A directory of its own for a test that trains."""
    return run_on(tiny_run, tmp_path)


def stepped(recipe: Recipe, run: RunDirectory, rows: list[list[int]]) -> tuple[Trainer, float]:
    trainer = Trainer(recipe, run, CPU)
    shards = Shards.open(run.shards("train"))
    batches = tuple(collate(shards, np.array(indices), trainer.special) for indices in rows)
    amount = sum((Amount.of(shards, np.array(indices)) for indices in rows), Amount())
    outcome = trainer.learner.learn(Portion(batches, amount, Cursor(), Cursor()), step=1)
    return trainer, outcome.read()[0]


@pytest.mark.parametrize(
    ("accumulate", "world", "expected"),
    [
        (1, 1, "a step of 600 padded tokens: 1 × 600; 1 process, each with 1 × 600"),
        (4, 2, "a step of 2,400 padded tokens: 4 × 600; 2 processes, each with 2 × 600"),
        (1, 8, "a step of 600 padded tokens: 1 × 600; 8 processes, each with 1 × 75"),
    ],
)
def test_the_size_of_a_step_and_of_its_parts_is_logged(
    tiny_run: RunDirectory,
    caplog: pytest.LogCaptureFixture,
    accumulate: int,
    world: int,
    expected: str,
) -> None:
    caplog.set_level(logging.INFO)
    recipe = with_optimisation(tiny_recipe(), tokens_per_batch=600, accumulate=accumulate)
    trainer = Trainer(recipe, tiny_run, CPU)
    trainer.world = World(size=world)
    trainer._log_division()
    assert caplog.messages[-1] == expected
    trainer.device = torch.device("cuda")
    trainer._log_division()
    assert f"--set optimisation.accumulate={accumulate * world} for" in caplog.messages[-1]


def test_accumulated_batches_are_one_large_batch(tiny_run: RunDirectory) -> None:
    recipe = without_dropout(tiny_recipe())
    whole, whole_loss = stepped(recipe, tiny_run, [[0, 1, 2, 3, 4, 5, 6]])
    parts, parts_loss = stepped(
        with_optimisation(recipe, accumulate=2), tiny_run, [[0, 1, 2, 3, 4], [5, 6]]
    )
    assert parts_loss == pytest.approx(whole_loss, rel=1e-5)
    for one, other in zip(parts.network.parameters(), whole.network.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-6, rtol=1e-4)


def gradient_norm(trainer: Trainer) -> float:
    gradients = [p.grad for p in trainer.network.parameters() if p.grad is not None]
    return float(torch.stack([gradient.norm() for gradient in gradients]).norm())


@pytest.mark.parametrize("clip_norm", [0.01, 1e6])
def test_gradients_are_clipped_and_reported_as_they_were(
    tiny_run: RunDirectory, clip_norm: float
) -> None:
    trainer = Trainer(with_optimisation(tiny_recipe(), clip_norm=clip_norm), tiny_run, CPU)
    _, reported = trainer.learner.learn(trainer.loader.next(), 1).read()
    assert 0.01 < reported < 1e6
    assert gradient_norm(trainer) == pytest.approx(min(clip_norm, reported), rel=1e-3)


def test_pieces_are_split_only_where_the_recipe_says_so_and_never_into_unwritable_ones(
    tiny_run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.loop.trainer.Splitter", lambda _, *given: given)
    recipe = with_network(tiny_recipe(), output_bias=True)
    for rate, expected in ((0.0, None), (0.1, (0.1, {7}))):
        trainer = Trainer(with_optimisation(recipe, split_pieces=rate), tiny_run, CPU)
        trainer.network.generator.bias.data[7] = HIDDEN
        trainer._begin()
        assert trainer.loader.splitter == expected


def test_training_learns(run: RunDirectory) -> None:
    recipe = with_budget(tiny_recipe(), steps=60, validate_every=30, keep_checkpoints=2)
    Trainer(with_optimisation(recipe, label_smoothing=0.0), run, CPU).train()
    losses = [line["loss"] for line in events(run, "train")]
    assert losses[0] == pytest.approx(math.log(15), rel=0.3)
    assert sum(losses[-5:]) / 5 < 0.85 * losses[0]
    early, late = events(run, "valid")
    assert late["loss"] < early["loss"]
    assert late["perplexity"] == pytest.approx(math.exp(late["loss"]))


def test_the_log_has_a_line_for_every_step_validation_and_checkpoint(run: RunDirectory) -> None:
    recipe = with_budget(tiny_recipe(), steps=10, save_every=3, keep_checkpoints=9)
    trainer = Trainer(recipe, run, CPU)
    progress = trainer.train()
    assert [line["step"] for line in events(run, "train")] == list(range(1, 11))
    # Every fourth, and the last.
    assert [line["step"] for line in events(run, "valid")] == [4, 8, 10]
    assert checkpoint.checkpoints(run.path) == [
        checkpoint.path_of(run.path, step) for step in (3, 6, 9, 10)
    ]
    rates = [line["learning_rate"] for line in events(run, "train")]
    assert rates == [pytest.approx(1e-3 * step) for step in range(1, 11)]
    assert progress.step == 10
    assert progress.tokens > 10 * 11
    speeds = events(run, "speed")
    assert [line["step"] for line in speeds] == [3, 6, 9, 10]
    for line in speeds:
        assert line["tokens_per_second"] > 0 and 0 <= line["waiting"] <= 1
        assert line["peak_memory"] > 10_000_000
        # The peak of a CPU is unknown.
        assert "utilisation" not in line
    assert trainer.speed.tokens_per_second > 0


def test_without_a_terminal_lines_in_the_log_replace_the_bar(
    run: RunDirectory,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("training.loop.trainer._SECONDS_PER_LINE", 0.0)
    caplog.set_level(logging.INFO)
    Trainer(with_budget(tiny_recipe(), steps=3, validate_every=3), run, CPU).train()
    lines = [line for line in caplog.messages if " of 3: " in line]
    assert [line.split(":")[0] for line in lines] == [f"step {n} of 3" for n in (1, 2, 3)]
    assert re.search(r": loss \d+\.\d{3}, [\d,]+ tokens/s, ", lines[-1])
    assert "\r" not in capfd.readouterr().err


def test_finished_run_takes_no_further_step(run: RunDirectory) -> None:
    Trainer(tiny_recipe(), run, CPU).train()
    log, saved = run.log.read_bytes(), checkpoint.checkpoints(run.path)[-1].read_bytes()
    # A killed run leaves a partial checkpoint.
    (run.path / "checkpoint-00000003.partial").write_bytes(b"PK")
    progress = Trainer(tiny_recipe(), run, CPU).train()
    assert progress.step == 8
    assert run.log.read_bytes() == log
    assert checkpoint.checkpoints(run.path)[-1].read_bytes() == saved
    assert not list(run.path.glob("*.partial"))


def test_a_run_that_is_judged_by_another_metric_forgets_what_was_best(run: RunDirectory) -> None:
    recipe = with_budget(tiny_recipe(), steps=4, validate_every=2, patience=9)
    before = Trainer(recipe, run, CPU).train()
    assert (before.judged, before.best_step > 0) == (("bleu", None), True)
    path = checkpoint.checkpoints(run.path)[-1]
    document = checkpoint.load(path)
    document["progress"]["best_bleu"] = document["progress"].pop("best")
    same, other = (
        Trainer(recipe, run, CPU),
        Trainer(with_budget(recipe, judged_by="loss"), run, CPU),
    )
    for each in (same, other):
        each.load_state_dict(document)
    assert same.progress == before
    assert other.progress == Progress(before.step, before.tokens, judged=("loss", None))


@pytest.mark.parametrize(("metric", "sign"), [("bleu", 1), ("chrf", 1), ("loss", -1)])
def test_training_stops_once_validation_no_longer_improves(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, metric: str, sign: int
) -> None:
    values = iter([1.0, 3.0, 2.0, 3.0, 9.0])

    def validation(*_: object) -> Validation:
        value = next(values)
        shown = {"loss": 1.0, "bleu": 1.0, "chrf": 1.0, metric: value * sign}
        return Validation(perplexity=math.e, exact=0.0, **shown)

    monkeypatch.setattr(Validator, "validate", validation)
    recipe = tiny_recipe()
    recipe = with_budget(recipe, steps=100, validate_every=2, patience=2, judged_by=metric)
    progress = Trainer(recipe, run, CPU).train()
    assert (progress.step, progress.best_step, progress.best) == (8, 4, 3.0)
    # Nor does it start again.
    assert Trainer(recipe, run, CPU).train().step == 8
    # The best can be had though it is not among the last.
    kept = checkpoint.checkpoints(run.path)
    assert kept == [checkpoint.path_of(run.path, step) for step in (4, 6, 8)]
    best = checkpoint.load(checkpoint.path_of(run.path, 4))["network"]
    assert average(run, 1, best=True) == [4]
    for name, weight in averaged_network(run).state_dict().items():
        assert torch.equal(weight, best[name])
    assert average(run, 2) == [6, 8]
    # The first of equal values, then the next best of the checkpoints that are left.
    assert average(run, 2, best=True) == [4, 8]
    checkpoint.path_of(run.path, 4).unlink()
    assert average(run, 2, best=True) == [6, 8]
    with pytest.raises(CheckpointError, match="train RECIPE"):
        average(RunDirectory(run.path / "elsewhere"), 1, best=True)


def validating(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Let validations find these values of BLEU, in turn."""
    found = iter(values)

    def validate(*_: object) -> Validation:
        return Validation(loss=1.0, perplexity=math.e, bleu=next(found), chrf=1.0, exact=0.0)

    monkeypatch.setattr(Validator, "validate", validate)


def test_best_checkpoints_are_kept_and_averaged_also_after_resuming(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    validating(monkeypatch, [5.0, 9.0, 1.0, 9.0, 7.0, 2.0, 8.0, 3.0])
    recipe = replace(tiny_recipe(), average=3, average_of="best")
    recipe = with_budget(recipe, steps=16, validate_every=2, save_every=1, keep_checkpoints=1)
    Trainer(with_budget(recipe, steps=8), run, CPU).train()
    steps = [checkpoint.step_of(path) for path in checkpoint.checkpoints(run.path)]
    assert steps == [2, 4, 8]
    Trainer(recipe, run, CPU).train()
    steps = [checkpoint.step_of(path) for path in checkpoint.checkpoints(run.path)]
    assert steps == [4, 8, 14, 16]
    assert average(run, recipe.average, best=True) == [4, 8, 14]
    networks = [
        checkpoint.load(checkpoint.path_of(run.path, step))["network"] for step in (4, 8, 14)
    ]
    for name, weight in averaged_network(run).state_dict().items():
        mean = torch.stack([network[name] for network in networks]).mean(0)
        torch.testing.assert_close(weight, mean)


def test_run_of_a_version_without_values_still_has_its_best_checkpoint(run: RunDirectory) -> None:
    Trainer(with_budget(tiny_recipe(), steps=4, validate_every=2), run, CPU).train()
    last = checkpoint.checkpoints(run.path)[-1]
    document = checkpoint.load(last)
    del document["progress"]["validated"]
    checkpoint.save(document, last)
    assert average(run, 2, best=True) == [document["progress"]["best_step"]]
    document["progress"]["best_step"] = 0
    checkpoint.save(document, last)
    with pytest.raises(CheckpointError, match="was validated"):
        average(run, 1, best=True)


@pytest.mark.parametrize("part", ["loss", "gradient"])
def test_a_loss_or_gradient_that_is_no_number_is_named_before_it_spoils_a_weight(
    tiny_run: RunDirectory, part: str
) -> None:
    trainer = Trainer(tiny_recipe(), tiny_run, CPU)
    encoder, decoder = trainer.network.encoder_layers[0], trainer.network.decoder_layers[0]
    if part == "loss":
        with torch.no_grad():
            decoder.feed_forward.outer.bias[0] = float("nan")
    else:
        weight = encoder.feed_forward.outer.weight
        weight.register_hook(lambda gradient: gradient * float("inf"))  # type: ignore[no-untyped-call]
    before = trainer.network.generator.weight.clone()
    trainer.loader.cursor = Cursor(2, 1)
    with pytest.raises(Diverged, match=f"{part}.* at step 1, which begins with batch 1 of epoch 2"):
        trainer.learner.learn(trainer.loader.next(), 1).read()
    assert torch.equal(trainer.network.generator.weight, before)


@pytest.mark.parametrize("begun", ["fp32", "bf16"])
def test_a_resumed_run_keeps_the_precision_that_auto_chose(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, begun: Precision
) -> None:
    def choosing(precision: Precision) -> Callable[..., Precision]:
        return lambda optimisation, *_: (
            precision if optimisation.precision == "auto" else optimisation.precision
        )

    recipe = with_budget(with_optimisation(tiny_recipe(), precision="auto"), steps=4, save_every=2)
    monkeypatch.setattr(resuming, "precision_for", choosing(begun))
    Trainer(with_budget(recipe, steps=2), run, CPU).train()
    monkeypatch.setattr(resuming, "precision_for", choosing("fp32" if begun == "bf16" else "bf16"))
    resumed = Trainer(recipe, run, CPU)
    assert resumed.learner.autocast_dtype == AUTOCAST[begun]
    assert resumed.train().step == 4


def test_weights_stay_fp32_when_products_are_bf16(tiny_run: RunDirectory) -> None:
    recipe = without_dropout(tiny_recipe())
    plain = Trainer(recipe, tiny_run, CPU)
    mixed = Trainer(with_optimisation(recipe, precision="bf16"), tiny_run, CPU)
    expected, _ = plain.learner.learn(plain.loader.next(), 1).read()
    found, _ = mixed.learner.learn(mixed.loader.next(), 1).read()
    assert found != expected
    assert found == pytest.approx(expected, rel=0.02)
    assert {parameter.dtype for parameter in mixed.network.parameters()} == {torch.float32}


def test_validation_does_not_change_what_training_computes(run: RunDirectory) -> None:
    often = with_budget(tiny_recipe(), steps=6, validate_every=1)
    Trainer(often, run, CPU).train()
    trainer = Trainer(tiny_recipe(), run, CPU)
    learn, loader = trainer.learner.learn, trainer.loader
    losses = [learn(loader.next(), step).read()[0] for step in range(1, 7)]
    assert [line["loss"] for line in events(run, "train")] == losses


def test_resuming_with_another_recipe_network_or_vocabulary_is_refused(run: RunDirectory) -> None:
    recipe = with_budget(tiny_recipe(), steps=2)
    longer = with_budget(recipe, steps=3)
    Trainer(recipe, run, CPU, Execution(length_multiple=4)).train()
    buckets = Execution(length_multiple=4)
    for other, execution, named in (
        (replace(longer, seed=2), buckets, "another seed"),
        (with_optimisation(longer, tokens_per_batch=110), buckets, "another optimisation"),
        (with_network(longer, heads=4), buckets, "another network"),
        (longer, Execution(), "--length-multiple 4"),
    ):
        trainer = Trainer(other, run, CPU, execution)
        with pytest.raises(CheckpointError, match=named):
            trainer.train()
        assert trainer.progress.step == 0
    other = replace(longer, vocabulary=replace(longer.vocabulary, size=20))
    with pytest.raises(InvalidRecipe, match="another vocabulary"):
        Trainer(other, run, CPU, buckets)
    assert Trainer(longer, run, CPU, buckets).train().step == 3
    retrained = run.tokenizer.read_bytes().replace(b"unk", b"ukn")
    run.tokenizer.unlink()
    run.tokenizer.write_bytes(retrained)
    with pytest.raises(CheckpointError, match="another vocabulary"):
        Trainer(with_budget(recipe, steps=4), run, CPU, buckets).train()


def averaged(run: RunDirectory, recipe: Recipe) -> dict[str, Any]:
    Trainer(with_budget(recipe, steps=4), run, CPU).train()
    average(run, recipe.average)
    return checkpoint.load(run.averaged)


def beside(run: RunDirectory, name: str) -> RunDirectory:
    """Another run of the same data, which has not been trained."""
    other = RunDirectory(run.path.parent / name)
    other.path.mkdir()
    for path in run.path.iterdir():
        if path.name in ("data", "recipe.json", "prepare.json", "tokenizer.model"):
            (other.path / path.name).symlink_to(path)
    return other


def test_a_run_starts_from_the_weights_of_another(run: RunDirectory) -> None:
    document = averaged(run, tiny_recipe())
    finer = replace(with_network(tiny_recipe(), residual_dropout=0.3), initial=run.path.name)
    trainer = Trainer(with_budget(finer, steps=1), beside(run, "finer"), CPU)
    trainer._begin()
    for name, weight in trainer.network.state_dict().items():
        assert torch.equal(weight, document["network"][name])


def test_start_from_weights_that_do_not_fit_is_refused(run: RunDirectory) -> None:
    from_it = replace(tiny_recipe(), initial=run.path.name)
    with pytest.raises(InvalidRecipe, match=r"averaged\.pt does not exist"):
        Trainer(from_it, beside(run, "too-early"), CPU).train()
    averaged(run, tiny_recipe())
    with pytest.raises(InvalidRecipe, match=r"feed_forward \(32, not 48\)"):
        Trainer(with_network(from_it, feed_forward=48), beside(run, "wider"), CPU).train()
    run.tokenizer.write_bytes(run.tokenizer.read_bytes().replace(b"unk", b"ukn"))
    with pytest.raises(InvalidRecipe, match="another vocabulary"):
        Trainer(from_it, beside(run, "relearned"), CPU).train()


def trained(run: RunDirectory, recipe: Recipe) -> Trainer:
    trainer = Trainer(recipe, run, CPU)
    trainer.train()
    return trainer


def stable_recipe(steps: int, decay: int) -> Recipe:
    recipe = with_budget(
        tiny_recipe(), steps=steps, validate_every=50, save_every=50, keep_checkpoints=2
    )
    return with_optimisation(recipe, schedule="wsd", peak_learning_rate=1e-3, decay=decay)


@pytest.mark.parametrize("decay", [3, 6], ids=["later decay", "decay from the same step"])
@pytest.mark.parametrize(
    "changes", [{}, {"decay_accumulate": 3, "decay_label_smoothing": 0.0, "moving_average": 0.5}]
)
def test_longer_run_continues_from_before_the_decay_and_equals_an_unbroken_one(
    decay: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    short = stable_recipe(6, decay=2)
    long = with_optimisation(stable_recipe(10, decay=decay), **changes)
    interrupted = prepared(tmp_path / "interrupted", short)
    trained(interrupted, short)
    assert checkpoint.path_of(interrupted.path, 4) in checkpoint.checkpoints(interrupted.path)
    found = trained(interrupted, long)
    unbroken = prepared(tmp_path / "unbroken", long)
    expected = trained(unbroken, long)
    for actual, wanted in zip(
        found.network.state_dict().values(), expected.network.state_dict().values(), strict=True
    ):
        assert torch.equal(actual, wanted)


def test_decay_has_its_own_label_smoothing_and_batches_per_step(tmp_path: Path) -> None:
    recipe = with_optimisation(
        stable_recipe(4, decay=2), decay_accumulate=3, decay_label_smoothing=0.0
    )
    trainer = Trainer(recipe, prepared(tmp_path, recipe), CPU)
    batches, smoothings = [], []
    for step in range(1, 5):
        portion = trainer.learner.learn(trainer.loader.next(), step).portion
        batches.append(portion.end.batch - portion.begin.batch)
        smoothings.append(trainer.learner._unshared.smoothing)
    assert batches == [1, 1, 3, 3]
    assert smoothings == [0.1, 0.1, 0.0, 0.0]
    with pytest.raises(InvalidRecipe, match="decay_accumulate is of the decay"):
        with_optimisation(tiny_recipe(), decay_accumulate=3)


def test_moving_average_is_resumed_and_is_what_is_averaged(run: RunDirectory) -> None:
    recipe = with_optimisation(tiny_recipe(), moving_average=0.5)
    trainer = Trainer(recipe, run, CPU)
    expected: dict[str, torch.Tensor] = {}
    for step in range(6):
        trainer._advance(trainer.learner.learn(trainer.loader.next(), step + 1))
        for name, parameter in trainer.network.named_parameters():
            weight = parameter.detach().clone()
            share = max(0.5, 9 / (11 + step))
            expected[name] = torch.lerp(expected[name], weight, share) if step else weight
        if step == 2:
            document = trainer.state_dict()
            trainer = Trainer(recipe, run, CPU)
            trainer.load_state_dict(document)
    checkpoint.save(trainer.state_dict(), checkpoint.path_of(run.path, 6))
    average(run, 1)
    for name, weight in averaged_network(run).named_parameters():
        torch.testing.assert_close(weight, expected[name])
        assert not torch.equal(weight, trainer.network.get_parameter(name)), name


def test_run_may_begin_a_moving_average_later(tmp_path: Path) -> None:
    recipe = stable_recipe(6, decay=2)
    run = prepared(tmp_path, recipe)
    plain = trained(run, with_budget(recipe, steps=5))
    averaging = trained(run, with_optimisation(recipe, moving_average=0.5))
    assert plain.average is None
    assert averaging.average is not None


@pytest.mark.parametrize(
    ("steps", "decay", "spared"), [(3, 1, True), (4, 1, True), (6, 3, True), (10, 3, False)]
)
def test_run_whose_new_decay_begins_before_its_checkpoint_is_refused_and_keeps_checkpoints(
    steps: int, decay: int, spared: bool, tmp_path: Path
) -> None:
    recipe = stable_recipe(6, decay=2)
    run = prepared(tmp_path, recipe)
    trained(run, recipe)
    if not spared:
        # Without it, no run can continue from before the decay.
        checkpoint.path_of(run.path, 4).unlink()
    before = checkpoint.checkpoints(run.path)
    named = f"at least {4 + decay} steps" if spared else "before step 4"
    with pytest.raises(CheckpointError, match=named):
        trained(run, stable_recipe(steps, decay=decay))
    assert checkpoint.checkpoints(run.path) == before


def validator(tmp_path: Path, recipe: Recipe) -> Validator:
    run = prepared(tmp_path, recipe)
    return Validator(run, recipe.data, run.tokenizers(), CPU)


def test_pairs_held_out_of_a_corpus_are_a_validation_set_of_their_own(tmp_path: Path) -> None:
    for side in ("x-digits", "x-reversed"):
        text = "".join(f"{i} {i + 1}\n" for i in range(9))
        (tmp_path / f"found.{side}").write_text(text, encoding="utf-8")
    recipe = tiny_recipe()
    found = Corpus(name="found", hold_out=3)
    recipe = replace(recipe, data=replace(recipe.data, train=(*recipe.data.train, found)))
    sets = validator(tmp_path, recipe)
    network = tiny_network()
    assert sets.others == ["found"]
    assert sets.validate(network, "found").loss != sets.validate(network).loss


class PartOfWorld(World):
    """Processes that take turns in one, the first of them last."""

    sent: list[Any]

    def gathered(self, value: Any) -> list[Any]:
        self.sent.insert(0, value)
        return self.sent if self.first else []


@pytest.mark.parametrize("size", [2, 3, 9])
def test_validation_by_several_processes_equals_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(validation, "TOKENS_PER_BATCH", 15)
    recipe = tiny_recipe()
    run, network = prepared(tmp_path, recipe), tiny_network()
    monkeypatch.setattr(PartOfWorld, "sent", [], raising=False)
    *others, found = (
        Validator(
            run, recipe.data, run.tokenizers(), CPU, PartOfWorld(rank=rank, size=size)
        ).validate(network)
        for rank in reversed(range(size))
    )
    assert others == [None] * (size - 1)
    assert 2 <= max(map(len, PartOfWorld.sent)) < 6 or size == 9
    assert found == Validator(run, recipe.data, run.tokenizers(), CPU).validate(network)


def test_bleu_is_the_mean_of_both_directions(tmp_path: Path) -> None:
    one_way = tiny_recipe().data
    both_ways = replace(one_way, bidirectional=True)
    recipe = replace(tiny_recipe(), data=both_ways, vocabulary=Vocabulary(size=17, kind="word"))
    run = prepared(tmp_path, recipe)
    tokenizers = run.tokenizers()
    network = tiny_network(source_vocabulary=17, target_vocabulary=17)
    alone = []
    for i, shards in enumerate(run.shards_of("valid", both_ways.valid, both_ways).values()):
        (tmp_path / f"{i}" / "data").mkdir(parents=True)
        (tmp_path / f"{i}" / "data" / "valid").symlink_to(shards)
        direction = Validator(RunDirectory(tmp_path / f"{i}"), one_way, tokenizers, CPU)
        alone.append(direction.validate(network))
    forth, back = alone
    assert forth.bleu != back.bleu
    together = Validator(run, both_ways, tokenizers, CPU).validate(network)
    assert together.bleu == pytest.approx((forth.bleu + back.bleu) / 2)
    assert together.chrf == pytest.approx((forth.chrf + back.chrf) / 2)
    assert len(together.samples) == 2 * 3
    first, *_, last = together.samples
    assert (first.direction, last.direction) == ("x-digits-x-reversed", "x-reversed-x-digits")
    assert first.source.split()[-1] == first.reference.split()[0]
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
