from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from models.bundle.bundle import Bundle
from models.bundle.manifest import (
    DecodingDefaults,
    Example,
    InvalidBundle,
    Manifest,
    Precision,
)
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle
from service.loading.discovery import discover, only, pairs_of
from service.loading.loader import (
    OpenedBundle,
    announcing,
    load_model,
    open_bundle,
    place,
)
from service.observability.metrics import Metrics
from service.runtime.backend import FloatArray
from service.runtime.sessions import Device
from service.settings import Settings
from service.text.types import LanguagePair
from tests.models.tiny import MANIFEST, tiny_files
from tests.support.toy import (
    EOS,
    Both,
    ByteTokenizer,
    Script,
    ScriptedBackend,
    load_found,
    make_attention,
    make_limits,
    make_manifest,
    put_broken_bundle,
    put_bundle,
    shouting,
)
from tests.support.waiting import cancelled, until

SETTINGS = Settings()
TOKENIZER = ByteTokenizer()


def example(source: str = "ab", target: str = "AB") -> Example:
    ids = TOKENIZER.encode(target)
    return Example(
        source=source,
        target=target,
        source_ids=(*TOKENIZER.encode(source), EOS),
        target_ids={"int8": ids, "fp32": ids},
    )


class Opened:
    """Stands in for ``open_bundle``."""

    def __init__(
        self, manifest: Manifest, device: Device = "cpu", script: Script = shouting
    ) -> None:
        self.manifest, self.device = manifest, device
        self.backend = ScriptedBackend(script, make_limits())
        self.attention = make_attention(manifest, script)
        self.thread = ""

    def __call__(self, path: Path, settings: Settings) -> OpenedBundle:
        self.thread = threading.current_thread().name
        tokenizers = Both(TOKENIZER)
        return OpenedBundle(
            self.manifest, "int8", tokenizers, {"cpu": self.backend}, self.attention, self.device
        )


async def load(opened: Opened) -> LoadedModel:
    return await load_model(Path("bundle"), SETTINGS, Metrics().observer, open_bundle=opened)


def with_examples(*examples: Example) -> Manifest:
    return make_manifest("a", "de", "en").model_copy(update={"examples": examples})


async def test_loading_decodes_every_example_outside_the_event_loop_thread() -> None:
    opened = Opened(with_examples(example(), example("c", "C")))
    model = await load(opened)
    assert model.engine.alive
    assert len(opened.backend.encode_sizes) == 2
    assert opened.thread != threading.current_thread().name
    await model.close()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (example(target="AX"), "bundle does not reproduce its example 'ab' in int8: "),
        (
            example().model_copy(update={"source_ids": (5, EOS)}),
            "bundle does not read its example 'ab' as it should",
        ),
        (
            example().model_copy(update={"target_ids": {"fp32": (5,)}}),
            "bundle does not say what its example 'ab' becomes in int8",
        ),
        (example("x" * 70, "X" * 70), "bundle fails on its example 'xxx"),
    ],
)
async def test_failed_example_raises_invalid_bundle_and_closes_the_model(
    wrong: Example, problem: str
) -> None:
    before = set(threading.enumerate())
    opened = Opened(with_examples(example(), wrong))
    with pytest.raises(InvalidBundle) as caught:
        await load(opened)
    assert str(caught.value).startswith(problem)
    assert opened.backend.closed
    assert opened.attention.closed
    started = set(threading.enumerate()) - before
    assert "engine" not in {thread.name for thread in started}


def hesitating(margin: float) -> Script:
    """Shouts, but Y is better than X by ``margin`` nats at each token."""

    def script(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
        logits = shouting(source, prefix)
        (x,), (y,) = TOKENIZER.encode("X"), TOKENIZER.encode("Y")
        if logits[x] == logits.max():
            logits[y] = logits[x] + margin
        return logits

    return script


@pytest.mark.parametrize(
    ("device", "margin", "accepted"),
    [("cuda", 0.01, True), ("cuda", 0.2, False), ("cpu", 0.01, False)],
)
async def test_example_may_differ_on_a_gpu_by_rounding_only(
    device: Device, margin: float, accepted: bool
) -> None:
    opened = Opened(with_examples(example("xxx", "XXX")), device, hesitating(margin))
    if accepted:
        await (await load(opened)).close()
        return
    with pytest.raises(InvalidBundle, match="does not reproduce its example 'xxx' in int8"):
        await load(opened)
    assert opened.backend.closed


async def test_gpu_that_reproduces_no_example_exactly_is_refused() -> None:
    """Its translations may all be as good as the examples because it computes nothing."""
    several = [example(source, source.upper()) for source in ("xxx", "xx")]
    with pytest.raises(InvalidBundle, match="reproduces none of its 2 examples exactly"):
        await load(Opened(with_examples(*several), "cuda", hesitating(0.01)))
    one_exact = Opened(with_examples(*several, example()), "cuda", hesitating(0.01))
    await (await load(one_exact)).close()


async def test_bundle_opened_after_cancellation_is_closed() -> None:
    gate = threading.Event()

    class Slow(Opened):
        def __call__(self, path: Path, settings: Settings) -> OpenedBundle:
            gate.wait()
            return super().__call__(path, settings)

    opened = Slow(with_examples())
    loading = asyncio.create_task(load(opened))
    await asyncio.sleep(0.01)
    await cancelled(loading)
    gate.set()
    async with asyncio.timeout(5):
        await until(lambda: opened.backend.closed)


def write_tiny(path: Path, **changes: Any) -> None:
    Bundle.write(path, MANIFEST.model_copy(update=changes), tiny_files(path.parent / "files"))


@pytest.mark.parametrize(
    ("changes", "settings", "problem"),
    [
        ({}, Settings(precision="int8"), "bundle tiny offers fp32; not int8"),
        (
            {"decoding": DecodingDefaults(beam_size=9)},
            Settings(),
            "decodes with beam_size 9; DRAGOMAN_MAX_BEAM_SIZE permits at most 8",
        ),
        ({}, Settings(), "encoder.fp32.onnx"),
    ],
    ids=["precision", "beam", "graph"],
)
def test_unusable_bundle_raises_invalid_bundle_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], settings: Settings, problem: str
) -> None:
    write_tiny(tmp_path / "tiny", **changes)
    with pytest.raises(InvalidBundle) as caught:
        open_bundle(tmp_path / "tiny", settings)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("offered", "settings", "available", "expected"),
    [
        (("int8", "fp16"), {}, "cpu", ("cpu", "int8")),
        (("int8", "fp16"), {}, "cuda", ("cuda", "fp16")),
        (("int8", "fp32"), {}, "cuda", ("cuda", "fp32")),
        (("int8",), {}, "cuda", ("cpu", "int8")),
        (("int8",), {"device": "cuda"}, "cuda", ("cpu", "int8")),
        (("int8",), {"device": "cuda", "precision": "int8"}, "cuda", ("cuda", "int8")),
        (("int8", "fp16"), {"precision": "int8"}, "cuda", ("cpu", "int8")),
    ],
)
def test_int8_runs_on_the_cpu_unless_settings_name_it_and_the_gpu(
    offered: tuple[Precision, ...],
    settings: dict[str, str],
    available: Device,
    expected: tuple[Device, Precision],
) -> None:
    manifest = Manifest.model_construct(name="ab", precisions=offered)
    assert place(manifest, Settings.model_validate(settings), available) == expected


async def test_examples_beyond_a_shortlist_do_not_speak_against_a_bundle() -> None:
    path = Path(__file__).parents[2] / "bundles" / "general-de-en"
    settings = Settings(shortlist=True, threads=1, slots=4)
    model = await load_model(path, settings, Metrics().observer)
    shortlist = Bundle.open(path).shortlist()
    assert model.engine.alive and shortlist is not None
    await model.close()
    lost = [
        each
        for each in model.manifest.examples
        if not {*each.target_ids["int8"]} <= {*shortlist.ids_for(each.source_ids).tolist()}
    ]
    # The test would show nothing without such an example.
    assert 0 < len(lost) < len(model.manifest.examples)


def test_bundles_are_found_by_their_manifest_and_pair(tmp_path: Path) -> None:
    put_bundle(tmp_path, "b", "en", "de")
    put_bundle(tmp_path, "a", "de", "en")
    put_broken_bundle(tmp_path, "c")
    shutil.copytree(tmp_path / "a", tmp_path / ".unfinished")
    (tmp_path / "something").mkdir()
    (tmp_path / "README.md").touch()
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").symlink_to("manifest.json")
    found = discover(tmp_path)
    assert {bundle.name: pairs_of(bundle) for bundle in found} == {
        "a": {LanguagePair("de", "en")},
        "b": {LanguagePair("en", "de")},
        "c": None,
        "odd": None,
    }
    of_pair = only(found, LanguagePair("de", "en"))
    assert [bundle.name for bundle in of_pair] == ["a", "c", "odd"]
    with pytest.raises(InvalidBundle, match="cannot be read"):
        open_bundle(tmp_path / "odd", SETTINGS)


def test_change_of_any_file_changes_the_stamp(tmp_path: Path) -> None:
    put_bundle(tmp_path, "a")
    weights = tmp_path / "a" / "weights.bin"
    looks = [discover(tmp_path)]
    weights.write_bytes(b"half")
    looks.append(discover(tmp_path))
    weights.write_bytes(b"whole")
    looks.append(discover(tmp_path))
    weights.rename(tmp_path / "a" / "weights.other")
    looks.append(discover(tmp_path))
    (tmp_path / "a" / "weights.other").unlink()
    (tmp_path / "a" / "weights.other").symlink_to("nowhere")
    looks.append(discover(tmp_path))
    assert len(set(map(tuple, looks))) == len(looks)
    assert discover(tmp_path) == looks[-1]


async def test_a_loaded_model_is_announced(tmp_path: Path) -> None:
    put_bundle(tmp_path, "a")
    heard: dict[str, str] = {}

    def announce(facts: Mapping[str, str], seconds: float) -> None:
        assert seconds > 0
        heard.update(facts)

    async def load_path(path: Path) -> LoadedModel:
        return await load_found(FoundBundle(path.name, path))

    (bundle,) = discover(tmp_path)
    model = await announcing(load_path, announce)(bundle)
    await model.close()
    assert len(heard.pop("sha256")) == 64
    assert heard == {
        "model": "a",
        "version": "1",
        "source": "de",
        "target": "en",
        "precision": "int8",
    }
