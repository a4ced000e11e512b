"""Models with an engine on each of two simulated devices, through loading, draining and reload."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from models.bundle.manifest import Example, InvalidBundle, Manifest
from service.engine.types import DecodingOptions
from service.loading.loader import OpenedBundle, load_model, open_backends
from service.observability.metrics import Metrics
from service.runtime.backend import Backend, FloatArray
from service.settings import Settings
from service.translation.loaded_model import LoadedModel
from service.translation.repository import FoundBundle, ModelRepository
from service.translation.types import LanguagePair
from tests.support.scripted import Script, ScriptedBackend
from tests.support.shouting import (
    EOS,
    Both,
    ByteTokenizer,
    make_attention,
    make_limits,
    make_manifest,
    shouting,
)

pytestmark = pytest.mark.anyio
TOKENIZER = ByteTokenizer()
OPTIONS = DecodingOptions(beam_size=1)


def silent(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """A device that computes something else: it ends every translation at once."""
    logits = shouting(source, prefix)
    logits[EOS] = logits.max() + 10
    return logits


class TwoDevices:
    """Stands in for ``open_bundle`` on two GPUs."""

    def __init__(self, first: Script = shouting, second: Script = shouting) -> None:
        self.scripts = {"cuda:0": first, "cuda:1": second}
        self.backends: dict[str, ScriptedBackend] = {}
        self.metrics = Metrics()
        ids = TOKENIZER.encode("AB")
        example = Example(
            source="ab", target="AB", source_ids=(*TOKENIZER.encode("ab"), EOS),
            target_ids={"int8": ids},
        )  # fmt: skip
        self.manifest: Manifest = make_manifest("a", "de", "en").model_copy(
            update={"examples": (example,)}
        )

    def __call__(self, path: Path, settings: Settings) -> OpenedBundle:
        self.backends = {
            name: ScriptedBackend(script, make_limits()) for name, script in self.scripts.items()
        }
        attention = make_attention(self.manifest, shouting)
        return OpenedBundle(self.manifest, "int8", Both(TOKENIZER), self.backends, attention, "cpu")

    async def load(self, _: FoundBundle | None = None) -> LoadedModel:
        return await load_model(Path("bundle"), Settings(), self.metrics.observer, open_bundle=self)

    def value(self, name: str, device: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"model": "a", "device": device})


async def translate(model: LoadedModel, sentences: int) -> None:
    source = (*TOKENIZER.encode("abc"), EOS)
    decoded = await asyncio.gather(
        *(model.engine.decode(source, OPTIONS) for _ in range(sentences))
    )
    assert {each.hypotheses[0].token_ids for each in decoded} == {TOKENIZER.encode("ABC")}


async def test_every_device_decodes_the_examples_and_its_share_of_the_sentences() -> None:
    devices = TwoDevices()
    model = await devices.load()
    assert [backend.encode_sizes for backend in devices.backends.values()] == [[1], [1]]
    await translate(model, 12)
    assert [sum(backend.encode_sizes) for backend in devices.backends.values()] == [7, 7]
    await model.close()
    for device in devices.backends:
        assert (devices.value("nmt_engine_busy_seconds_total", device) or 0) > 0
        assert devices.value("nmt_sentences_running", device) == 0


async def test_device_that_fails_on_an_example_is_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    devices = TwoDevices(second=silent)
    model = await devices.load()
    assert (model.engine.alive, model.engine.complete) == (True, False)
    assert devices.backends["cuda:1"].closed
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line.startswith("not on cuda:1: bundle does not reproduce its example 'ab'")
    await translate(model, 6)
    await model.close()


async def test_bundle_that_fails_on_every_device_is_not_loaded() -> None:
    devices = TwoDevices(silent, silent)
    with pytest.raises(InvalidBundle, match="does not reproduce"):
        await devices.load()
    assert all(backend.closed for backend in devices.backends.values())


def test_device_without_room_is_left_out_unless_it_is_the_only_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def open_on(number: int) -> Backend:
        if number == 0:
            raise InvalidBundle("a cannot be loaded: GPU 0 has no room for these keys and values")
        return ScriptedBackend(shouting, make_limits())

    assert list(open_backends({"cuda:0": 0, "cuda:1": 1}, open_on)) == ["cuda:1"]
    assert "not on cuda:0: a cannot be loaded: GPU 0 has no room" in caplog.text
    with pytest.raises(InvalidBundle, match="GPU 0 has no room"):
        open_backends({"cuda:0": 0}, open_on)


async def test_sentences_on_both_devices_end_while_their_model_is_replaced() -> None:
    stamps = iter(range(9))
    devices = TwoDevices()

    def discover() -> list[FoundBundle]:
        return [FoundBundle("a", Path("a"), (("manifest.json", 1, 1, next(stamps)),))]

    repository = ModelRepository(discover, devices.load)
    await repository.reload()
    before = devices.backends

    async def work() -> None:
        async with repository.lease(LanguagePair("de", "en")) as (way,):
            await translate(way.model, 1)

    working = [asyncio.create_task(work()) for _ in range(20)]
    await asyncio.sleep(0)
    await repository.reload()
    await asyncio.gather(*working)
    assert devices.backends is not before
    assert [sum(backend.encode_sizes) for backend in before.values()] == [11, 11]
    assert all(backend.closed for backend in before.values())
    await repository.close()


async def test_lost_device_comes_back_by_an_explicit_reload_only() -> None:
    devices = TwoDevices(second=silent)
    repository = ModelRepository(lambda: [FoundBundle("a", Path("a"))], devices.load)
    await repository.reload()
    devices.scripts["cuda:1"] = shouting
    assert not (await repository.reload(retry=False)).changed
    assert (await repository.reload()).loaded == ("a",)
    (model,) = repository.offer.models
    assert model.engine.complete
    assert not (await repository.reload()).changed
    await repository.close()
