from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from models.bundle.manifest import SentenceLimits
from service.catalogue.attention_reader import AttentionReader, TargetTooLong
from service.engine.errors import BackendFailed, EngineStopped, SentenceTooLong
from service.runtime.backend import AttentionMaps
from tests.support.toy import BOS, EOS, ScriptedAttention, shouting
from tests.support.waiting import cancelled, until

LIMITS = SentenceLimits(source_length=4, target_length=3)
SOURCE, TARGET = (101, EOS), (69,)


class Slow(ScriptedAttention):
    """Waits for ``gate``, raises ``failure`` if set, and counts concurrent calls."""

    def __init__(self) -> None:
        super().__init__(shouting, encoder_layers=1, decoder_layers=1, heads=1, bos=BOS, eos=EOS)
        self.gate = threading.Event()
        self.gate.set()
        self.inside = self.most_inside = 0
        self.failure: Exception | None = None
        self.spoil = False

    def run(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            self.gate.wait()
            if self.failure is not None:
                raise self.failure
            maps = super().run(source_ids, target_ids)
            if self.spoil:
                maps.cross_LHTS[0, 0, 0, 0] = np.nan
            return maps
        finally:
            self.inside -= 1


@pytest.fixture
def model() -> Slow:
    return Slow()


@pytest.fixture
async def reader(model: Slow) -> AsyncIterator[AttentionReader]:
    reader = AttentionReader(model, LIMITS)
    yield reader
    model.gate.set()
    await reader.close()


async def test_read_runs_the_model_on_the_sentence(reader: AttentionReader, model: Slow) -> None:
    maps = await reader.read(SOURCE, TARGET)
    assert maps.cross_LHTS.shape == (1, 1, 2, 2)
    assert model.calls == [(SOURCE, TARGET)]


async def test_one_sentence_is_read_at_a_time(reader: AttentionReader, model: Slow) -> None:
    await asyncio.gather(*(reader.read(SOURCE, TARGET) for _ in range(5)))
    assert model.most_inside == 1


async def test_sentence_at_the_limits_is_read_and_a_longer_one_is_refused(
    reader: AttentionReader,
) -> None:
    await reader.read((4, 5, 6, EOS), (7, 8))
    with pytest.raises(SentenceTooLong, match="sentence has 5 tokens; the model reads at most 4"):
        await reader.read((4, 5, 6, 7, EOS), ())
    with pytest.raises(TargetTooLong, match="has 4 tokens; the model writes at most 3"):
        await reader.read(SOURCE, (7, 8, 9))


async def test_model_failure_raises_backend_failed_and_the_next_read_works(
    reader: AttentionReader, model: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    model.failure = RuntimeError("broken")
    with pytest.raises(BackendFailed, match="failed to look"):
        await reader.read(SOURCE, TARGET)
    assert "broken" in caplog.text
    model.failure = None
    await reader.read(SOURCE, TARGET)


async def test_nan_in_maps_raises_backend_failed(
    reader: AttentionReader, model: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    model.spoil = True
    with pytest.raises(BackendFailed):
        await reader.read(SOURCE, TARGET)
    assert "not made of numbers" in caplog.text


async def test_callers_take_turns(reader: AttentionReader, model: Slow) -> None:
    model.gate.clear()
    ours = [asyncio.create_task(reader.read(SOURCE, TARGET, "a")) for _ in range(20)]
    await asyncio.sleep(0.01)
    other = asyncio.create_task(reader.read(SOURCE, (), "b"))
    await asyncio.sleep(0.01)
    model.gate.set()
    await asyncio.gather(*ours, other)
    assert model.calls.index((SOURCE, ())) == 1


async def test_cancelled_read_is_removed_from_the_queue(
    reader: AttentionReader, model: Slow
) -> None:
    model.gate.clear()
    first = asyncio.create_task(reader.read(SOURCE, TARGET))
    second = asyncio.create_task(reader.read(SOURCE, ()))
    await asyncio.sleep(0.01)
    await cancelled(second)
    model.gate.set()
    await first
    await reader.read(SOURCE, TARGET)
    assert (SOURCE, ()) not in model.calls


async def test_close_finishes_the_running_read_fails_queued_ones_and_frees_the_model(
    reader: AttentionReader, model: Slow
) -> None:
    model.gate.clear()
    tasks = [asyncio.create_task(reader.read(SOURCE, TARGET)) for _ in range(3)]
    await until(lambda: model.inside)
    closing = asyncio.create_task(reader.close())
    await asyncio.sleep(0.01)
    model.gate.set()
    await closing
    first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, AttentionMaps)
    assert all(isinstance(other, EngineStopped) for other in others)
    assert model.closed
    assert not any(thread.name.startswith("attention") for thread in threading.enumerate())
    with pytest.raises(EngineStopped, match="closed"):
        await reader.read(SOURCE, TARGET)
    await reader.close()
