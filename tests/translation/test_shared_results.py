"""Results that one replica decodes and another one takes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.catalogue import shared_results
from service.catalogue.shared_results import SharedResults
from service.engine.types import (
    Decoded,
    DecodingOptions,
    Durations,
    FinishReason,
    Hypothesis,
    Origin,
    WordPieces,
)

SOURCE, OPTIONS, ORIGIN = (5, 7, 2), DecodingOptions(target_prefix=(9,)), Origin("ann", scope="ann")
RESULT = Decoded(
    (Hypothesis((9, 4), -1.5), Hypothesis((9,), -2.5)), FinishReason.COMPLETE, Durations(1.0, 2.0)
)


class Memory:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.asked = self.most_asked = 0

    async def put(self, key: str, value: bytes, seconds: int) -> None:
        self.kept[key] = value

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        self.most_asked = max(self.asked, self.most_asked)
        await asyncio.sleep(0)
        self.asked -= 1
        return self.kept.get(key)


class Replica:
    def __init__(
        self, memory: Memory, name: str = "m", version: str = "1", precision: str = "int8"
    ) -> None:
        self.decoded = 0
        manifest = SimpleNamespace(version=version)
        model = cast(Any, SimpleNamespace(name=name, manifest=manifest, precision=precision))
        turns = asyncio.Semaphore(shared_results._AT_A_TIME)
        self.ask = SharedResults(self._decode, model, memory, turns).decode

    async def _decode(self, *_: object) -> Decoded:
        self.decoded += 1
        return RESULT


async def test_another_replica_takes_the_result_as_it_was_without_its_durations() -> None:
    memory = Memory()
    one, other = Replica(memory), Replica(memory)
    assert await one.ask(SOURCE, OPTIONS, ORIGIN) is RESULT
    taken = await other.ask(SOURCE, replace(OPTIONS), Origin("bob", "bulk", scope="ann"))
    assert taken == RESULT and taken.durations == Durations()
    assert (one.decoded, other.decoded) == (1, 0)
    assert "ann" not in "".join(memory.kept)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "n"},
        {"version": "2"},
        {"precision": "fp16"},
        {"source_ids": (5, 7, 7, 2)},
        {"options": replace(OPTIONS, beam_size=5)},
        {"origin": Origin("ann", scope="bob")},
    ],
)
async def test_another_question_is_decoded(changes: dict[str, Any]) -> None:
    memory = Memory()
    asked = {"source_ids": SOURCE, "options": OPTIONS, "origin": ORIGIN}
    await Replica(memory).ask(**asked)
    other = Replica(memory, **{k: v for k, v in changes.items() if k not in asked})
    await other.ask(**asked | {k: v for k, v in changes.items() if k in asked})
    assert other.decoded == 1


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(beam_size=1, sampling_topk=3),
        DecodingOptions(recorded=True),
        replace(OPTIONS, completions=(frozenset({4, 5}),)),
        DecodingOptions(
            length_penalty=0.0, alternative_words=WordPieces(frozenset({1}), frozenset())
        ),
    ],
)
async def test_what_may_differ_or_has_no_fixed_key_is_not_shared(options: DecodingOptions) -> None:
    memory = Memory()
    assert await Replica(memory).ask(SOURCE, options, ORIGIN) is RESULT
    assert not memory.kept


async def test_large_results_and_unreadable_ones_are_decoded_by_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory()
    monkeypatch.setattr(shared_results, "_MOST_BYTES", 20)
    replica = Replica(memory)
    await replica.ask(SOURCE, OPTIONS, ORIGIN)
    assert not memory.kept
    monkeypatch.undo()
    await replica.ask(SOURCE, OPTIONS, ORIGIN)
    memory.kept = dict.fromkeys(memory.kept, b"\x91\x01")
    assert await replica.ask(SOURCE, OPTIONS, ORIGIN) is RESULT
    assert replica.decoded == 3


async def test_long_text_asks_for_few_sentences_at_a_time() -> None:
    memory = Memory()
    replica = Replica(memory)
    await asyncio.gather(*(replica.ask((n, 2), OPTIONS, ORIGIN) for n in range(200)))
    assert memory.most_asked == shared_results._AT_A_TIME
    assert len(memory.kept) == 200
