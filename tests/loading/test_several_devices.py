"""Models with an engine on each of two simulated devices, through loading, draining and reload."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path

import pytest

from models.bundle.bundle import Bundle
from models.bundle.manifest import Example, InvalidBundle, Manifest
from models.bundle.tokenizer import SPECIAL_IDS
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle, ModelRepository
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions
from service.loading.loader import OpenedBundle, load_model, open_backends
from service.observability.metrics import Metrics
from service.runtime.backend import Backend, FloatArray, Launch, Ranked
from service.runtime.onnx import OnnxBackend
from service.runtime.resident import ResidentBackend
from service.settings import Settings
from service.text.types import LanguagePair
from tests.engine.batch_runner import decode_arriving
from tests.support.networks import random_network, write_bundle
from tests.support.toy import (
    EOS,
    Both,
    ByteTokenizer,
    Script,
    ScriptedBackend,
    make_attention,
    make_limits,
    make_manifest,
    shouting,
)

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


async def test_device_that_fails_on_an_example_is_left_out_until_an_explicit_reload(
    caplog: pytest.LogCaptureFixture,
) -> None:
    devices = TwoDevices(second=silent)
    repository = ModelRepository(lambda: [FoundBundle("a", Path("a"))], devices.load)
    await repository.reload()
    (model,) = repository.catalogue.models
    assert (model.engine.alive, model.engine.complete) == (True, False)
    assert devices.backends["cuda:1"].closed
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line.startswith("not on cuda:1: bundle does not reproduce its example 'ab'")
    await translate(model, 6)
    devices.scripts["cuda:1"] = shouting
    assert not (await repository.reload(retry=False)).changed
    assert (await repository.reload()).loaded == ("a",)
    (model,) = repository.catalogue.models
    assert model.engine.complete
    assert not (await repository.reload()).changed
    await repository.close()

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


class WithResident(TwoDevices):
    """Two devices, the GPU with a second backend for beam searches. Here both are CPUs in fp32."""

    def __init__(self, bundle: Bundle, *, examples: bool = True) -> None:
        self.bundle, self.metrics = bundle, Metrics()
        self.manifest = bundle.manifest
        source = (*bundle.tokenizers().source.encode("w1 w2 w3"), SPECIAL_IDS.eos)
        self.source, self.launches = source, 0
        if examples:
            expected = self._decoded(source)
            text = bundle.tokenizers().target.decode(expected)
            example = Example(
                source="w1 w2 w3", target=text, source_ids=source, target_ids={"fp32": expected}
            )
            self.manifest = self.manifest.model_copy(update={"examples": (example,)})
        self.resident_fails = False

    def _decoded(self, source: tuple[int, ...]) -> tuple[int, ...]:
        backend = OnnxBackend.load(self.bundle, "fp32", slots=2, rows_per_slot=4, threads=1)
        scheduler = Scheduler(backend.limits, SPECIAL_IDS)
        sequence = Sequence(0, source, DecodingOptions(max_decoding_length=24))
        found = decode_arriving(backend, scheduler, [sequence], random.Random(1))
        return found[0].hypotheses[0].token_ids

    def __call__(self, path: Path, settings: Settings) -> OpenedBundle:
        backend = OnnxBackend.load(self.bundle, "fp32", slots=8, rows_per_slot=8, threads=1)
        resident = ResidentBackend.load(self.bundle, "fp32", slots=8, threads=1)
        step = resident.step

        def counting(batch: Launch) -> Ranked:
            self.launches += 1
            ranked = step(batch)
            if self.resident_fails:
                ranked.tokens_PR[:, 0] = 9
            return ranked

        resident.step = counting  # type: ignore[method-assign]
        attention = make_attention(self.manifest, shouting)
        return OpenedBundle(
            self.manifest, "fp32", self.bundle.tokenizers(), {"cuda:0": backend}, attention, "cpu",
            {"cuda:0": resident},
        )  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("resident") / "bundle"
    return write_bundle(random_network(), folder, ("fp32",), beam=4)


async def test_beam_searches_run_on_the_device_and_constrained_ones_beside(bundle: Bundle) -> None:
    device = WithResident(bundle)
    model = await device.load()
    proved = device.launches
    assert proved > 0
    free = await model.engine.decode(device.source, DecodingOptions(max_decoding_length=24))
    assert free.hypotheses[0].token_ids == model.manifest.examples[0].target_ids["fp32"]
    assert device.launches > proved
    launches = device.launches
    options = DecodingOptions(target_prefix=(5,), max_decoding_length=24)
    forced = await model.engine.decode(device.source, options)
    assert forced.hypotheses[0].token_ids[0] == 5
    assert device.launches == launches
    await model.close()


async def test_beam_searches_that_differ_on_the_device_do_not_run_there(
    bundle: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    device = WithResident(bundle)
    device.resident_fails = True
    model = await device.load()
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert line.startswith("beam searches do not run on cuda:0: bundle does not reproduce")
    launches = device.launches
    decoded = await model.engine.decode(device.source, DecodingOptions(max_decoding_length=24))
    assert decoded.hypotheses[0].token_ids == model.manifest.examples[0].target_ids["fp32"]
    assert device.launches == launches
    assert model.engine.complete
    await model.close()
    without = WithResident(bundle, examples=False)
    await (await without.load()).close()
    assert "has no example that shows whether they are right" in caplog.text
    assert without.launches == 0
