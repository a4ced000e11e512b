"""Tests of the choice between fp32 and bf16, with injected times."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from models.transformer.config import TransformerConfig
from tests.support.raising import raiser
from training.loop.precision import Pass, Precision, layer_pass, precision_for
from training.recipe import Optimisation

CONFIG = TransformerConfig(source_vocabulary=9, target_vocabulary=9, width=16, heads=2)
CPU = torch.device("cpu")


def timed(fp32: list[float], bf16: list[float]) -> Pass:
    """Passes of these seconds; the last one repeats."""

    def each(seconds: list[float]) -> Iterator[float]:
        yield from seconds
        while True:
            yield seconds[-1]

    times = {"fp32": each(fp32), "bf16": each(bf16)}
    return lambda precision: next(times[precision])


def choose(seconds: Pass, native: bool = True) -> Precision:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": native})
        return precision_for(Optimisation(), CONFIG, CPU, lambda *_: seconds)


@pytest.mark.parametrize(
    ("fp32", "bf16", "faster"),
    [
        ([0.02], [0.01], "bf16"),
        ([0.01], [0.02], "fp32"),
        ([0.01], [0.01], "fp32"),
        # The first pass allocates memory.
        ([0.01, 0.02], [9.0, 0.01], "bf16"),
        # A disturbed pass decides nothing.
        ([0.02], [0.01, 0.5, 0.01], "bf16"),
    ],
)
def test_auto_is_the_precision_with_the_shortest_pass(
    fp32: list[float], bf16: list[float], faster: Precision
) -> None:
    assert choose(timed(fp32, bf16)) == faster


def test_slow_passes_are_repeated_less_often() -> None:
    counts: dict[float, int] = {}
    for seconds in (0.001, 0.3):

        def counting(precision: Precision, seconds: float = seconds) -> float:
            counts[seconds] = counts.get(seconds, 0) + 1
            return seconds

        choose(counting)
    assert counts[0.3] < counts[0.001]


def test_nothing_is_timed_without_bf16_instructions_or_with_a_named_precision() -> None:
    unexpected = raiser(AssertionError("timed"))
    assert choose(unexpected, native=False) == "fp32"
    for precision in ("fp32", "bf16"):
        named = Optimisation(precision=precision)
        assert precision_for(named, CONFIG, CPU, lambda *_: unexpected) == precision


@pytest.mark.parametrize(
    ("capability", "precision"), [((7, 5), "fp32"), ((8, 0), "bf16"), ((9, 0), "bf16")]
)
def test_a_gpu_multiplies_in_bf16_if_its_capability_has_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: Precision
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert precision_for(Optimisation(), CONFIG, torch.device("cuda")) == precision


def test_timing_a_layer_leaves_random_numbers_as_they_were() -> None:
    before = torch.get_rng_state()
    seconds = layer_pass(Optimisation(tokens_per_batch=64), CONFIG)
    assert seconds("fp32") >= 0.0
    assert seconds("bf16") >= 0.0
    assert torch.equal(torch.get_rng_state(), before)
