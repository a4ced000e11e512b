from __future__ import annotations

import logging
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from models.bundle.bundle import Bundle
from service.loading import choices
from service.loading.choices import FILE_NAME, Chooser, compared
from service.runtime import processor
from service.runtime.onnx import OnnxBackend
from service.runtime.variants import Choice, Variant
from tests.support.networks import random_network, write_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("bundles") / "random"
    return write_bundle(random_network(), path, ("int8",))


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Measurements of a quiet machine, where one thread is twice as fast; grows with each one."""
    counted: list[int] = []

    def measure(*_: object) -> dict[int, dict[Variant, float]]:
        counted.append(1)
        return {4: {Variant(2): 2.0, Variant(1): 1.0}}

    monkeypatch.setattr(choices, "measure", measure)
    monkeypatch.setattr(processor, "timed", lambda work: (work(), 1.0, 0.0))
    return counted


def chosen(bundle: Bundle, state: Path, threads: int = 2) -> Choice:
    found: list[Choice] = []

    def choose(backend: OnnxBackend, usual: Variant) -> Choice:
        found.append(Chooser(bundle.manifest, "int8", state)(backend, usual))
        return found[0]

    OnnxBackend.load(
        bundle, "int8", slots=2, rows_per_slot=2, threads=threads, choose=choose
    ).close()
    return found[0]


def test_choice_is_measured_once_and_kept_for_its_machine_and_threads(
    bundle: Bundle, tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert chosen(bundle, tmp_path) == Choice(Variant(1))
    assert len(measured) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    chosen(bundle, tmp_path, threads=4)
    monkeypatch.setattr(processor, "description", lambda: "another, 2 cores")
    chosen(bundle, tmp_path)
    assert len(measured) == 3


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[]"])
def test_damaged_file_is_named_and_replaced(
    bundle: Bundle,
    tmp_path: Path,
    measured: list[int],
    content: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    for _ in range(2):
        assert chosen(bundle, tmp_path) == Choice(Variant(1))
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warned and all(FILE_NAME in record.getMessage() for record in warned)
    assert len(measured) == 1


def test_choice_made_beside_other_programs_or_without_a_directory_is_not_kept(
    bundle: Bundle, tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(bundle, tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(processor, "timed", lambda work: (work(), 1.0, 0.5))
    for _ in range(2):
        chosen(bundle, tmp_path)
    assert len(measured) == 3
    monkeypatch.setattr(processor, "timed", lambda work: (work(), 1.0, None))
    for _ in range(2):
        chosen(bundle, tmp_path)
    assert len(measured) == 4, "kept where the use by other programs is unknown"
    monkeypatch.setattr(processor, "int8_saturates", lambda: True)
    chosen(overflowing(bundle), tmp_path, threads=1)
    assert len(measured) == 4, "there is one variant only"


def overflowing(bundle: Bundle) -> Bundle:
    """The bundle, as one whose sums of products do not fit in 16 bits."""
    manifest = bundle.manifest.model_copy(update={"int8_fits_16_bits": False})
    return replace(bundle, manifest=manifest)


@pytest.mark.parametrize("saturates", [False, True])
def test_kernels_are_compared_unless_sums_of_products_overflow(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, saturates: bool
) -> None:
    monkeypatch.setattr(processor, "int8_saturates", lambda: saturates)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    both = [Variant(1), Variant(1, unsigned=True)]
    assert compared(bundle.manifest, "int8", Variant(1)) == both
    found = compared(overflowing(bundle).manifest, "int8", Variant(1))
    assert found == (both[:1] if saturates else both)
