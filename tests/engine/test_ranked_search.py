"""Compares ``RankedSearch`` with the reference search, on a device that is simulated in Python."""

from __future__ import annotations

import random
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.beam_scheduler import BeamScheduler
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions
from service.runtime.backend import (
    Admission,
    Beam,
    CacheUse,
    FloatArray,
    Launch,
    Limits,
    Ranked,
    WarmUp,
)
from tests.engine.batch_runner import decode_arriving
from tests.engine.options import MAX_ROWS
from tests.engine.reference import log_softmax, reference_decode
from tests.engine.toy import (
    BOS,
    EOS,
    SPECIAL_IDS,
    VOCABULARY,
    random_attention,
    random_model,
    undecided_model,
)
from tests.support.toy import Script, ScriptedBackend

LIMITS = Limits(slots=3, rows_per_slot=MAX_ROWS, source_length=8, target_length=10)
DEAD = np.float32(-1e30)

sources = st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=8).map(tuple)


@st.composite
def beam_options(draw: st.DrawFn) -> DecodingOptions:
    beam_size = draw(st.integers(1, MAX_ROWS))
    patience = draw(st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    longest = draw(st.integers(1, LIMITS.target_length))
    return DecodingOptions(
        beam_size=beam_size,
        patience=patience,
        num_hypotheses=draw(st.integers(1, max(1, int(beam_size * patience + 0.5)))),
        length_penalty=draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0])),
        length_normalisation=draw(st.sampled_from(["power", "gnmt"])),
        min_decoding_length=draw(st.integers(0, min(3, longest))),
        max_decoding_length=longest,
        disable_unk=draw(st.booleans()),
        all_finished=draw(st.booleans()),
    )


@dataclass
class State:
    """A sentence on the device, with prefix and sum of each live row."""

    source: tuple[int, ...]
    beam: Beam
    rows: list[tuple[tuple[int, ...], np.float32] | None]


class SimulatedDevice:
    """A ``BeamBackend``. What it ranks for slots that are not launched is noise."""

    def __init__(self, model: Script, limits: Limits, rng: random.Random) -> None:
        self.limits = limits
        self._model = model
        self._rng = np.random.default_rng(rng.getrandbits(32))
        self._states: dict[int, State] = {}
        self._record = self._noise()
        self.steps = 0

    def encode(self, batch: Admission) -> None:
        for slot, source, beam in zip(batch.slots, batch.sources, batch.beams, strict=True):
            self._states[slot] = State(source, beam, [((), np.float32(0))])

    def step(self, batch: Launch) -> Ranked:
        self.steps += 1
        record, self._record = self._record, self._noise()
        for slot in batch.slots.tolist():
            self._rank(self._states[slot], slot)
        return record

    def check(self) -> None: ...

    def reserve(self) -> None: ...

    def warm_up(self, padded_tokens: int, seconds: float) -> WarmUp:
        return WarmUp(0, 0, 0.0)

    def cache_use(self) -> CacheUse:
        return CacheUse(0, 0)

    def close(self) -> None:
        pass

    def _noise(self) -> Ranked:
        shape = self.limits.slots, 2 * self.limits.rows_per_slot
        places_PR = self._rng.integers(0, self.limits.rows_per_slot * VOCABULARY, shape)
        tokens_PR = self._rng.choice([EOS, 5, 6], shape)
        sums_PR = self._rng.choice(np.array([np.nan, DEAD, -1], np.float32), shape)
        return Ranked(places_PR, VOCABULARY, tokens_PR, sums_PR)

    def _rank(self, state: State, slot: int) -> None:
        """Rank the candidates of a sentence, and refill the positions of endings."""
        found: list[tuple[np.float32, int, int]] = []
        for row, live in enumerate(state.rows):
            if live is not None:
                log_probs = self._log_probs(state, live[0])
                order = sorted(range(VOCABULARY), key=lambda t: (-log_probs[t], t))
                found += [
                    (live[1] + log_probs[token], row * VOCABULARY + number, token)
                    for number, token in enumerate(order)
                    if log_probs[token] > -np.inf
                ]
        ranked = sorted(found, key=lambda candidate: (-candidate[0], candidate[1]))
        ranked = ranked[: 2 * self.limits.rows_per_slot]
        self._record.sums_PR[slot] = DEAD
        for rank, (total, place, token) in enumerate(ranked):
            self._record.sums_PR[slot, rank] = total
            self._record.places_PR[slot, rank] = place
            self._record.tokens_PR[slot, rank] = token
        rows = state.beam.rows
        spare = iter([each for each in ranked[rows : 2 * rows] if each[2] != EOS])
        chosen = [next(spare, None) if each[2] == EOS else each for each in ranked[:rows]]
        state.rows = [None if each is None else _grown(state.rows, each) for each in chosen]

    def _log_probs(self, state: State, prefix: tuple[int, ...]) -> FloatArray:
        logits = self._model(state.source, (BOS, *prefix)).copy()
        if len(prefix) < state.beam.min_length:
            logits[EOS] = -np.inf
        if state.beam.bar_unk:
            logits[SPECIAL_IDS.unk] = -np.inf
        log_probs = log_softmax(logits)
        log_probs[[BOS, SPECIAL_IDS.pad]] = -np.inf
        return log_probs


def _grown(
    rows: SequenceOf[tuple[tuple[int, ...], np.float32] | None],
    candidate: tuple[np.float32, int, int],
) -> tuple[tuple[int, ...], np.float32]:
    total, place, token = candidate
    parent = rows[place // VOCABULARY]
    assert parent is not None
    return (*parent[0], token), total


def narrow_model(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Allows one word of at most six, and ``eos`` after some: ranks stay empty, beams run dry."""
    tokens = len(prefix) - 1
    logits = np.full(VOCABULARY, -np.inf, np.float32)
    if tokens < 6:
        logits[4 + tokens % 3] = 0
    if tokens in (3, 4, 6):
        logits[EOS] = random_model(source, prefix)[EOS]
    return logits


@pytest.mark.parametrize("model", [random_model, undecided_model, narrow_model])
@settings(max_examples=80, deadline=None)
@given(
    requests=st.lists(st.tuples(sources, beam_options()), min_size=1, max_size=10),
    rng=st.randoms(),
)
def test_records_read_one_step_late_give_the_hypotheses_of_the_reference_search(
    model: Script, requests: list[tuple[tuple[int, ...], DecodingOptions]], rng: random.Random
) -> None:
    scheduler = BeamScheduler(LIMITS, SPECIAL_IDS)
    arriving = [Sequence(i, *request) for i, request in enumerate(requests)]
    device = SimulatedDevice(model, LIMITS, rng)
    results = decode_arriving(device, scheduler, arriving, rng)  # type: ignore[arg-type]
    for i, (source, options) in enumerate(requests):

        def after(prefix: tuple[int, ...], source: tuple[int, ...] = source):  # type: ignore[no-untyped-def]
            whole = (BOS, *prefix)
            return model(source, whole), random_attention(source, whole)

        expected = reference_decode(
            after,
            replace(options, all_finished=False),
            eos=EOS,
            unk=SPECIAL_IDS.unk,
            never={SPECIAL_IDS.pad, BOS},
        )
        best = results[i].hypotheses[: len(expected.hypotheses)]
        further = results[i].hypotheses[len(expected.hypotheses) :]
        assert [h.token_ids for h in best] == [h.token_ids for h in expected.hypotheses]
        assert np.allclose([h.score for h in best], [h.score for h in expected.hypotheses])
        assert results[i].finish_reason is expected.finish_reason
        assert not further or options.all_finished


@pytest.mark.parametrize("model", [random_model, undecided_model, narrow_model])
@settings(max_examples=80, deadline=None)
@given(source=sources, options=beam_options(), rng=st.randoms())
def test_sentence_takes_one_step_more_than_on_the_host(
    model: Script, source: tuple[int, ...], options: DecodingOptions, rng: random.Random
) -> None:
    host, device = ScriptedBackend(model, LIMITS), SimulatedDevice(model, LIMITS, rng)
    decode_arriving(host, Scheduler(LIMITS, SPECIAL_IDS), [Sequence(0, source, options)], rng)
    arriving = [Sequence(0, source, options)]
    decode_arriving(device, BeamScheduler(LIMITS, SPECIAL_IDS), arriving, rng)  # type: ignore[arg-type]
    assert device.steps == len(host.batch_sizes) + 1
