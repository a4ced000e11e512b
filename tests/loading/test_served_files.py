"""Changes to the files of a served bundle have no effect until a reload succeeds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from models.bundle.bundle import MANIFEST, Bundle
from models.bundle.manifest import InvalidBundle
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle, ModelRepository
from service.engine.types import Decoded, DecodingOptions
from service.loading.discovery import discover, pairs_of
from service.loading.loader import load_model, open_bundle
from service.observability.metrics import Metrics
from service.settings import Settings
from tests.support.networks import random_network, write_bundle

SETTINGS = Settings(threads=1, slots=4, precision="int8")
SOURCES = [(5, 9, 17, 3), (8, 3), (6, 7, 11, 4, 15, 3), (21, 22, 23, 24, 25, 26, 3)]
OPTIONS = DecodingOptions(beam_size=3, max_decoding_length=12)


def overwrite(file: Path) -> None:
    content = file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(bytes(byte ^ 0x55 for byte in content))


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes()[::-1])
    other.rename(file)


def grow(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"more")


DAMAGES = [overwrite, truncate, replace, grow, Path.unlink]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    directory = tmp_path_factory.mktemp("bundles")
    return write_bundle(random_network(), directory / "random", ("int8",))


async def translations(model: LoadedModel) -> list[Decoded]:
    return await asyncio.gather(*(model.engine.decode(ids, OPTIONS) for ids in SOURCES))


def tokens(decoded: list[Decoded]) -> list[tuple[int, ...]]:
    return [each.hypotheses[0].token_ids for each in decoded]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_damaged_file_of_a_served_bundle_changes_no_translation_and_fails_the_reload(
    bundle: Bundle, damage: Callable[[Path], None]
) -> None:
    async def load(found: FoundBundle) -> LoadedModel:
        return await load_model(found.path, SETTINGS, Metrics().observer)

    repository = ModelRepository(lambda: discover(bundle.path.parent), load)
    assert (await repository.reload()).loaded == ("random",)
    (model,) = repository.catalogue.models
    expected = tokens(await translations(model))
    maps = await model.attention.read(SOURCES[0], expected[0])
    for name in [*bundle.manifest.files, MANIFEST]:
        if (damage, name) == (Path.unlink, MANIFEST):
            # A directory without a manifest is no bundle: its model is retired.
            continue
        file = bundle.path / name
        content = file.read_bytes()
        translating = asyncio.create_task(translations(model))
        await asyncio.sleep(0)
        damage(file)
        try:
            assert tokens(await translating) == expected
            again = await model.attention.read(SOURCES[0], expected[0])
            assert (again.cross_LHTS == maps.cross_LHTS).all()
            done = await repository.reload()
            assert not done.changed
            assert name in done.failed["random"]
            assert repository.catalogue.models == (model,)
            assert tokens(await translations(model)) == expected
        finally:
            file.write_bytes(content)
    assert (await repository.reload()).loaded == ("random",)
    await repository.close()


@pytest.mark.parametrize("name", [MANIFEST, "weights.int8.bin", "tokenizer.model"])
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_fifo_or_device_in_a_bundle_is_refused_without_waiting(
    bundle: Bundle, tmp_path: Path, name: str, kind: str
) -> None:
    copy = tmp_path / "random"
    copy.mkdir()
    for file in bundle.path.iterdir():
        if file.name != name:
            (copy / file.name).hardlink_to(file)
    if kind == "fifo":
        os.mkfifo(copy / name)
    else:
        (copy / name).symlink_to("/dev/zero")
    with pytest.raises(InvalidBundle, match=f"{name} is not a plain file"):
        open_bundle(copy, SETTINGS)
    (found,) = discover(tmp_path)
    assert (pairs_of(found) is None) == (name == MANIFEST)


def test_content_that_changes_between_verification_and_reading_is_refused(bundle: Bundle) -> None:
    weights = bundle.path / "weights.int8.bin"
    content = weights.read_bytes()
    opened = Bundle.open(bundle.path)
    try:
        weights.write_bytes(content[::-1])
        with pytest.raises(InvalidBundle, match=weights.name):
            opened.in_memory("int8")
    finally:
        weights.write_bytes(content)
    assert opened.in_memory("int8").read(weights.name) == content
