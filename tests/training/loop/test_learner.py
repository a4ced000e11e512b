from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.transformer import Transformer
from tests.support.raising import raiser
from tests.support.tiny_training import tiny_network, tiny_recipe
from training.data.batching import BatchLoader
from training.data.portions import Portion, PortionLoader
from training.data.shards import Shards
from training.loop.execution import Execution, ImpossibleExecution
from training.loop.learner import Learner, Objective, OutOfMemory, optimiser_for
from training.loop.objective import smoothed_loss
from training.recipe import Optimisation

CPU = torch.device("cpu")
SETTINGS = r"tokens_per_batch.*accumulate.*--activation-check"
PLAIN = replace(tiny_recipe().optimisation, label_smoothing=0.1)


def rate(step: int) -> float:
    return 1e-3 * step


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    rng = np.random.default_rng(1)

    def ids() -> tuple[int, ...]:
        return tuple(rng.integers(4, 15, int(rng.integers(1, 14))).tolist())

    return Shards.write(tmp_path_factory.mktemp("shards"), [(ids(), ids()) for _ in range(120)])


def portions(shards: Shards, *, multiple: int = 1, accumulate: int = 1) -> PortionLoader:
    return PortionLoader(BatchLoader(shards, SPECIAL_IDS, 90, 1, multiple), accumulate)


def without_dropout(**changes: Any) -> Transformer:
    return tiny_network(residual_dropout=0.0, embedding_dropout=0.0, **changes)


def learner(network: Transformer, optimisation: Optimisation = PLAIN, **options: Any) -> Learner:
    return Learner(network, optimisation, rate, CPU, **options)


def steps(learner: Learner, loader: PortionLoader, count: int) -> list[tuple[float, float]]:
    return [learner.learn(loader.next(), step).read() for step in range(1, count + 1)]


def weights(network: Transformer) -> list[Tensor]:
    """Weights except key biases: softmax ignores them, so their gradients are rounding errors,
    which Adam scales up to its usual step size."""
    named = network.named_parameters()
    return [p.detach().clone() for name, p in named if not name.endswith("key.bias")]


def test_without_decay_the_optimiser_is_adam(shards: Shards) -> None:
    ours, plain = without_dropout(), without_dropout()
    steps(learner(ours), portions(shards), 6)
    adam = torch.optim.Adam(plain.parameters(), betas=PLAIN.betas, eps=PLAIN.epsilon)
    objective = Objective(plain.train(), PLAIN)
    loader = portions(shards)
    for step in range(1, 7):
        portion = loader.next()
        (batch,) = portion.batches
        adam.zero_grad()
        loss = objective(batch.source_BS, batch.input_BT, batch.positions_N, batch.targets_N)
        (loss * (1.0 / portion.amount.target_tokens)).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), PLAIN.clip_norm)
        adam.param_groups[0]["lr"] = rate(step)
        adam.step()
    torch.testing.assert_close(weights(ours), weights(plain), atol=1e-6, rtol=1e-4)


def test_matrices_decay_and_neither_biases_nor_norms() -> None:
    network = tiny_network(positions="learned")
    optimiser = optimiser_for(network, replace(PLAIN, weight_decay=0.5))
    for group in optimiser.param_groups:
        group["lr"] = 0.1
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    for name, parameter in network.named_parameters():
        factor = 0.95 if parameter.dim() > 1 else 1.0
        torch.testing.assert_close(parameter.detach(), before[name] * factor)
    decayed = {name for name, p in network.named_parameters() if p.dim() > 1}
    assert not any("norm" in name or name.endswith("bias") for name in decayed)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_activation_checkpointing_gives_equal_steps_in_less_memory(
    shards: Shards, precision: Literal["fp32", "bf16"]
) -> None:
    optimisation = replace(PLAIN, precision=precision)
    found = {}
    for recomputing in (False, True):
        network = tiny_network(encoder_layers=3, decoder_layers=3, residual_dropout=0.2)
        kept = 0

        def keep(tensor: Tensor) -> Tensor:
            nonlocal kept
            kept += tensor.numel()
            return tensor

        torch.manual_seed(3)
        execution = Execution(activation_checkpointing=recomputing)
        taking = learner(network, optimisation, execution=execution)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            losses = steps(taking, portions(shards), 3)
        found[recomputing] = losses, weights(network), kept
    assert found[True][0] == found[False][0]
    assert all(map(torch.equal, found[True][1], found[False][1]))
    assert found[True][2] < 0.5 * found[False][2]


def compiled(backend: str | Callable[..., object], shards: Shards, multiple: int) -> Learner:
    execution = Execution(compile=True, length_multiple=multiple)
    return learner(without_dropout(), execution=execution, backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("multiple", [1, 4])
def test_compiled_steps_equal_eager_ones_with_few_graphs(shards: Shards, multiple: int) -> None:
    torch.compiler.reset()
    counter = CompileCounterWithBackend("eager")
    ours = compiled(counter, shards, multiple)
    plain = learner(without_dropout())
    loader, same = portions(shards, multiple=multiple), portions(shards, multiple=multiple)
    shapes = set()
    for step in range(1, 25):
        portion = loader.next()
        shapes |= {
            (*b.source_BS.shape, *b.output_BT.shape, len(b.targets_N)) for b in portion.batches
        }
        found = ours.learn(portion, step).read()
        assert found == pytest.approx(plain.learn(same.next(), step).read(), rel=1e-4)
    assert len(shapes) >= 10
    # One graph for all shapes, plus special cases: equal source and target lengths, or a size of 1.
    assert counter.frame_count <= 3
    torch.testing.assert_close(weights(ours.network), weights(plain.network), atol=1e-5, rtol=1e-3)


def test_bucket_length_determines_the_number_of_rows(shards: Shards) -> None:
    loader = portions(shards, multiple=4)
    rows: dict[int, set[int]] = {}
    for _ in range(60):
        for batch in loader.next().batches:
            lengths = batch.source_BS.size(1), batch.output_BT.size(1)
            assert all(length % 4 == 0 for length in lengths)
            rows.setdefault(max(lengths), set()).add(batch.source_BS.size(0))
    assert rows == {length: {90 // length} for length in rows}
    assert len(rows) > 2


def test_cuda_graphs_with_accumulation_are_refused() -> None:
    recorded = Execution(compile=True, cuda_graphs=True)
    with pytest.raises(ImpossibleExecution, match="leave out --cuda-graphs"):
        learner(without_dropout(), replace(PLAIN, accumulate=2), execution=recorded)


def test_r_drop_loss_matches_the_formula(shards: Shards) -> None:
    alpha = 3.0
    optimisation = replace(PLAIN, r_drop=alpha)
    network = tiny_network(residual_dropout=0.2).train()
    (batch,) = portions(shards).next().batches
    torch.manual_seed(5)
    found = Objective(network, optimisation)(
        batch.source_BS, batch.input_BT, batch.positions_N, batch.targets_N
    )
    torch.manual_seed(5)
    both = network(batch.source_BS.repeat(2, 1), batch.input_BT.repeat(2, 1))
    real = batch.output_BT != 0
    one, other = (logits[real].log_softmax(-1) for logits in both.chunk(2))
    targets = batch.output_BT[real]
    likelihoods = sum(smoothed_loss(logits, targets, 0.1, 0) for logits in (one, other))
    apart = functional.kl_div(one, other, log_target=True, reduction="sum")
    apart += functional.kl_div(other, one, log_target=True, reduction="sum")
    torch.testing.assert_close(found, (likelihoods + alpha * apart / 2) / 2)


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), OutOfMemory, SETTINGS),
        (RuntimeError("[enforce fail] not enough memory: you tried to"), OutOfMemory, SETTINGS),
        (RuntimeError("a bug"), RuntimeError, "^a bug$"),
    ],
)
def test_out_of_memory_error_suggests_settings_and_other_errors_are_unchanged(
    shards: Shards,
    monkeypatch: pytest.MonkeyPatch,
    error: RuntimeError,
    raised: type[Exception],
    message: str,
) -> None:
    taking = learner(without_dropout())

    monkeypatch.setattr(taking.network, "encode", raiser(error))
    with pytest.raises(raised, match=message):
        taking.learn(portions(shards).next(), 1)


def test_accumulated_bucketed_batches_give_the_same_step(shards: Shards) -> None:
    """Padding of rows, lengths and positions adds nothing."""
    found = []
    for multiple in (1, 4):
        network = without_dropout()
        taking = learner(network)
        batches = BatchLoader(shards, SPECIAL_IDS, 10_000, 1, multiple)
        portion: Portion = PortionLoader(batches, 1).next()
        assert portion.batches[0].output_BT.size(1) % multiple == 0
        found.append((taking.learn(portion, 1).read(), [p.grad for p in network.parameters()]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
