from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from models.bundle.tokenizer import SPECIAL_IDS
from models.transformer.transformer import Transformer
from tests.support.raising import raiser
from tests.support.tiny_training import tiny_network, tiny_recipe
from training.cli import _parser, main
from training.commands.train import execution_of
from training.data.batching import BatchLoader
from training.data.portions import PortionLoader
from training.data.shards import Shards
from training.loop.execution import Execution, ImpossibleExecution
from training.loop.learner import Learner, Objective, OutOfMemory
from training.loop.muon import Muon, orthogonalised
from training.loop.objective import smoothed_loss
from training.loop.optimiser import optimiser_for
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
        kept = "norm" in name or name.endswith("bias")
        torch.testing.assert_close(parameter.detach(), before[name] * (1.0 if kept else 0.95))


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


def test_cuda_graphs_with_accumulation_are_refused() -> None:
    recorded = Execution(compile=True, cuda_graphs=True)
    with pytest.raises(ImpossibleExecution):
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


@pytest.mark.parametrize(
    "options", [{"cuda_graphs": True}, {"length_multiple": 0}, {"prefetch": 0}]
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ImpossibleExecution):
        Execution(**options)


def chosen(device: str, *options: str) -> Execution:
    parsed = _parser().parse_args(["train", "reverse", *options])
    return execution_of(parsed, torch.device(device))


def test_a_device_has_defaults_that_options_overrule() -> None:
    assert chosen("cpu") == Execution()
    assert chosen("cuda") == Execution.default_for(torch.device("cuda"))
    assert chosen("cuda").compile
    assert not chosen("cuda", "--no-compile").compile
    assert chosen("cpu", "--activation-checkpointing", "--prefetch", "2") == Execution(
        activation_checkpointing=True, prefetch=2
    )
    assert chosen("cpu", "--length-multiple", "8").length_multiple == 8
    assert chosen("cuda", "--cuda-graphs").cuda_graphs


def test_torchrun_is_refused_for_hops_other_than_train(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["run", "reverse"]) == 2
    assert "then `train` alone by torchrun" in capsys.readouterr().err


MUON = Optimisation(
    tokens_per_batch=100, schedule="constant", peak_learning_rate=1e-3, optimiser="muon"
)


@given(seed=st.integers(0, 2**32), rows=st.integers(2, 12), columns=st.integers(2, 12))
def test_orthogonalised_matrices_have_singular_values_near_one(
    seed: int, rows: int, columns: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(rows, rows, generator=generator))[0]
    right = torch.linalg.qr(torch.randn(columns, columns, generator=generator))[0]
    rank = min(rows, columns)
    values = torch.linspace(0.5, 2.0, rank)
    matrix = left[:, :rank] @ values.diag() @ right[:, :rank].T
    found = torch.linalg.svdvals(orthogonalised(matrix[None])[0])
    assert ((found > 0.6) & (found < 1.3)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_updates_equal_those_of_torch_but_for_the_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    start = torch.randn(8, 16)
    actual, reference = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    mine = Muon([actual], weight_decay=0.1, dtype=dtype)
    library = torch.optim.Muon(
        [reference], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    mine.param_groups[0]["lr"] = 0.01
    for _ in range(5):
        gradient = torch.randn(8, 16)
        actual.grad, reference.grad = gradient.clone(), gradient.clone()
        mine.step()
        library.step()
    # bf16 has three significant digits; updates are about 0.05.
    torch.testing.assert_close(actual, reference, atol=2e-3, rtol=0)


def test_muon_takes_layer_matrices_and_adam_everything_else() -> None:
    network = tiny_network()
    optimiser = optimiser_for(network, MUON)
    groups = optimiser.param_groups
    covered = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(covered) == sorted(map(id, network.parameters()))
    by_muon = {id(parameter) for parameter in groups[-1]["params"]}
    assert id(network.encoder_layers[0].feed_forward.inner.weight) in by_muon
    assert id(network.generator.weight) not in by_muon
    assert id(network.encoder_layers[0].feed_forward.inner.bias) not in by_muon
