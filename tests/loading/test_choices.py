from __future__ import annotations

import logging
import platform
from collections.abc import Callable
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
    """Measuring finds one thread to be twice as fast; the list grows with each time it happens."""
    counted: list[int] = []

    def measure(*_: object) -> dict[int, dict[Variant, float]]:
        counted.append(1)
        return {4: {Variant(2): 2.0, Variant(1): 1.0}}

    monkeypatch.setattr(choices, "measure", measure)
    return counted


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Callable[[float | None], None]:
    """Sets how many cores other programs seem to use."""

    def use(cores: float | None) -> None:
        monkeypatch.setattr(processor, "timed", lambda work: (work(), 1.0, cores))

    use(0.0)
    return use


def chosen(bundle: Bundle, state: Path, threads: int = 2) -> Choice:
    found: list[Choice] = []

    def choose(backend: OnnxBackend, usual: Variant) -> Choice:
        found.append(Chooser(bundle.manifest, "int8", state)(backend, usual))
        return found[0]

    OnnxBackend.load(
        bundle, "int8", slots=2, rows_per_slot=2, threads=threads, choose=choose
    ).close()
    return found[0]


@pytest.mark.usefixtures("others")
def test_choice_is_measured_once_and_kept(
    bundle: Bundle, tmp_path: Path, measured: list[int]
) -> None:
    for _ in range(2):
        assert chosen(bundle, tmp_path) == Choice(Variant(1))
    assert len(measured) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.usefixtures("others")
def test_other_threads_or_another_machine_are_measured_again(
    bundle: Bundle, tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen(bundle, tmp_path)
    chosen(bundle, tmp_path, threads=4)
    monkeypatch.setattr(processor, "description", lambda: "another, 2 cores")
    chosen(bundle, tmp_path)
    assert len(measured) == 3
    monkeypatch.undo()


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[]"])
def test_damaged_file_is_named_and_replaced(
    bundle: Bundle,
    tmp_path: Path,
    measured: list[int],
    content: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    assert chosen(bundle, tmp_path) == Choice(Variant(1))
    assert any(
        record.levelno == logging.WARNING and FILE_NAME in record.message
        for record in caplog.records
    )
    chosen(bundle, tmp_path)
    assert len(measured) == 1


@pytest.mark.parametrize("cores", [None, 0.5])
def test_choice_made_beside_other_programs_is_not_kept(
    bundle: Bundle,
    tmp_path: Path,
    measured: list[int],
    others: Callable[[float | None], None],
    cores: float | None,
) -> None:
    others(cores)
    for _ in range(2):
        assert chosen(bundle, tmp_path) == Choice(Variant(1))
    assert len(measured) == (1 if cores is None else 2)


@pytest.mark.usefixtures("others")
def test_without_a_state_directory_nothing_is_written(
    bundle: Bundle, tmp_path: Path, measured: list[int]
) -> None:
    chosen(bundle, tmp_path / "state")
    assert measured
    assert list(tmp_path.iterdir()) == []


def overflowing(bundle: Bundle) -> Bundle:
    """The bundle, as one whose sums of products do not fit in 16 bits."""
    manifest = bundle.manifest.model_copy(update={"int8_fits_16_bits": False})
    return replace(bundle, manifest=manifest)


def test_a_single_variant_is_not_measured(
    bundle: Bundle, tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "int8_saturates", lambda: True)
    assert chosen(overflowing(bundle), tmp_path, threads=1) == Choice(Variant(1))
    assert not measured


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
