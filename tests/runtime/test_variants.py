from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.bundle import Bundle
from models.bundle.manifest import Precision
from models.bundle.tokenizer import SPECIAL_IDS
from service.engine.engine import Engine
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions, Hypothesis
from service.runtime.backend import CacheUse, Candidates, EncodeBatch, Limits, StepBatch
from service.runtime.measuring import SENTENCES, TimeBudget, measure
from service.runtime.onnx import OnnxBackend
from service.runtime.variants import NEAR, Choice, Variant, candidates, fastest
from tests.support.networks import random_network, write_bundle

USUAL, SINGLE = Variant(0), Variant(1)
UNSIGNED = Variant(0, unsigned=True)
VARIANTS = candidates(USUAL, 4, kernels=True)
TIMES = st.dictionaries(
    st.integers(1, 1000),
    st.fixed_dictionaries({variant: st.floats(1e-5, 1.0) for variant in VARIANTS}),
    max_size=4,
)


@given(TIMES)
def test_at_every_measured_size_the_choice_is_near_the_fastest(
    times: Mapping[int, Mapping[Variant, float]],
) -> None:
    choice = fastest(USUAL, times)
    for rows, taken in times.items():
        assert taken[choice.of(rows)] <= NEAR * min(taken.values())
    assert [most for most, _ in choice.few] == sorted({most for most, _ in choice.few})
    assert choice.of(10**9) == choice.many


def test_choice_prefers_the_usual_variant_and_then_one_that_is_open() -> None:
    assert fastest(USUAL, {}) == Choice(USUAL)
    assert fastest(USUAL, {4: {USUAL: 1.04, SINGLE: 1.0}}) == Choice(USUAL)
    times = {
        4: {USUAL: 2.0, SINGLE: 1.0, UNSIGNED: 3.0},
        16: {USUAL: 2.0, SINGLE: 1.01, UNSIGNED: 1.0},
        64: {USUAL: 1.0, SINGLE: 2.0, UNSIGNED: 1.0},
    }
    choice = fastest(USUAL, times)
    assert choice == Choice(USUAL, ((32, SINGLE),))
    assert [choice.of(rows) for rows in (1, 32, 33)] == [SINGLE, SINGLE, USUAL]


@pytest.mark.parametrize(
    ("threads", "cores", "expected"),
    [(0, 1, {0}), (0, 2, {0, 1}), (0, 16, {0, 1, 8, 4}), (4, 16, {4, 1, 2}), (1, 16, {1})],
)
def test_no_variant_has_more_threads_than_the_usual_one(
    threads: int, cores: int, expected: set[int]
) -> None:
    found = candidates(Variant(threads), cores, kernels=False)
    assert found[0] == Variant(threads)
    assert {variant.threads for variant in found} == expected
    assert not any(variant.unsigned for variant in found)
    both = candidates(Variant(threads), cores, kernels=True)
    assert len(set(both)) == len(both) == 2 * len(found)


@dataclass
class Timed:
    """A backend on which opening a variant and a step take given seconds of a simulated clock."""

    opening: float
    steps: Mapping[Variant, float]
    limits: Limits = field(default_factory=lambda: Limits(16, 4, 50, 50))
    now: float = 0.0
    opened: list[Variant] = field(default_factory=lambda: [USUAL])
    stepped: list[Variant] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def use(self, choice: Choice) -> None:
        if choice.many not in self.opened:
            self.opened.append(choice.many)
            self.now += self.opening
        self.current = choice.many

    def encode(self, batch: EncodeBatch) -> None: ...

    def step(self, batch: StepBatch) -> Candidates:
        self.now += self.steps[self.current] * batch.tokens_BK.size
        self.stepped.append(self.current)
        return None  # type: ignore[return-value]

    def move(self, origin: int, slot: int) -> None: ...

    def cache_use(self) -> CacheUse:
        return CacheUse(0, 0)

    @property
    def opening_seconds(self) -> float:
        return self.opening

    def close(self) -> None: ...


def test_measuring_takes_the_time_of_a_step_by_rows() -> None:
    backend = Timed(0.01, {USUAL: 2e-5, SINGLE: 1e-5})
    times = measure(backend, 4, 3, [USUAL, SINGLE], TimeBudget(clock=backend.clock))
    assert list(times) == [4 * sentences for sentences in SENTENCES]
    for rows, taken in times.items():
        assert taken == pytest.approx({USUAL: 2e-5 * rows, SINGLE: 1e-5 * rows})
    assert fastest(USUAL, times) == Choice(SINGLE)


def test_measuring_opens_no_variant_and_takes_no_step_beyond_its_budget() -> None:
    slow = Timed(0.15, dict.fromkeys(VARIANTS, 1e-4))
    budget = TimeBudget(opening=0.7, steps=0.4, clock=slow.clock)
    measure(slow, 4, 3, VARIANTS, budget)
    assert slow.opened == VARIANTS[:3]
    one_round = 3 * 3 * 1e-4 * 4 * sum(SENTENCES)
    assert slow.now <= 0.3 + budget.steps + one_round
    slower = Timed(0.6, dict.fromkeys(VARIANTS, 1e-3))
    assert measure(slower, 4, 3, VARIANTS, budget) == {}
    assert slower.opened == [USUAL]


def test_hopeless_variants_are_measured_once_after_warming_up() -> None:
    backend = Timed(0, {USUAL: 1e-5, SINGLE: 1e-4})
    measure(backend, 4, 3, [USUAL, SINGLE], TimeBudget(clock=backend.clock))
    assert backend.stepped.count(USUAL) > 2 * backend.stepped.count(SINGLE)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("bundles") / "random"
    return write_bundle(random_network(), path, ("fp32", "int8"))


def requests(count: int) -> Iterator[tuple[tuple[int, ...], DecodingOptions]]:
    rng = random.Random(3)
    for number in range(count):
        source = (*(rng.randint(4, 20) for _ in range(rng.randint(1, 9))), SPECIAL_IDS.eos)
        beam = 1 + number % 4
        yield source, DecodingOptions(beam_size=beam, max_decoding_length=12, num_hypotheses=beam)


def decoded(
    bundle: Bundle, precision: Precision, choice: Choice | None, slots: int = 8
) -> list[tuple[Hypothesis, ...]]:
    """Hypotheses of an engine whose backend runs by ``choice``."""
    backend = OnnxBackend.load(
        bundle,
        precision,
        slots=slots,
        rows_per_slot=4,
        threads=2,
        choose=None if choice is None else lambda backend, usual: choice,
    )

    async def run() -> list[tuple[Hypothesis, ...]]:
        engine = Engine(backend, Scheduler(backend.limits, SPECIAL_IDS))
        await engine.start()
        found = await asyncio.gather(*(engine.decode(*each) for each in requests(24)))
        await engine.close()
        return [each.hypotheses for each in found]

    return asyncio.run(run())


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_every_variant_and_choice_decodes_the_same(bundle: Bundle, precision: Precision) -> None:
    usual = Variant(2)
    variants = candidates(usual, 2, kernels=precision == "int8")
    mixed = Choice(usual, tuple((3 * i, each) for i, each in enumerate(variants[1:], start=1)))
    plain = decoded(bundle, precision, None)
    for choice in (*map(Choice, variants), mixed):
        assert decoded(bundle, precision, choice) == plain


def test_only_chosen_variants_stay_open(bundle: Bundle) -> None:
    def choose(backend: OnnxBackend, usual: Variant) -> Choice:
        measure(backend, 4, SPECIAL_IDS.eos, [usual, SINGLE])
        return Choice(SINGLE)

    backend = OnnxBackend.load(bundle, "int8", slots=4, rows_per_slot=4, threads=2, choose=choose)
    with pytest.raises(RuntimeError, match="2 threads"):
        backend.use(Choice(Variant(2)))
    backend.use(Choice(SINGLE))
    backend.close()
