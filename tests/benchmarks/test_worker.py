"""Tests of engines in worker processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engines import CTranslate2, Dragoman, Search
from benchmarks.peers.ctranslate2 import convert
from benchmarks.worker import EngineFailed, Worker
from models.bundle.bundle import Bundle
from tests.support.networks import random_network, write_bundle

SEARCH = Search(beam_size=4, max_decoding_length=20)
SOURCES = ((5, 9, 4, 3), (21, 3), (8, 17, 25, 6, 6, 14, 10, 3))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(random_network(), tmp_path_factory.mktemp("bundles") / "random", ("fp32",))


def test_both_engines_do_the_same_work_and_write_the_same(bundle: Bundle, tmp_path: Path) -> None:
    model = convert(bundle, "fp32", tmp_path / "converted")
    with (
        Worker(Dragoman(bundle.path, "fp32", 1)) as ours,
        Worker(CTranslate2(model, "float32", 1)) as peer,
    ):
        both = [worker.translate((SOURCES, SOURCES[:1]), SEARCH) for worker in (ours, peer)]
    assert both[0].translations == both[1].translations
    assert [len(batch) for batch in both[0].translations] == [3, 1]
    written = sum(len(each) + 1 for batch in both[0].translations for each in batch)
    assert both[0].tokens == both[1].tokens == written


def test_failing_engine_reports_the_reason_and_continues(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match=r"ctranslate2 \(default\): .*model\.bin"):
        Worker(CTranslate2(tmp_path, "float32", 1))
    model = convert(bundle, "fp32", tmp_path / "converted")
    with Worker(CTranslate2(model, "float32", 1)) as worker:
        with pytest.raises(EngineFailed, match="list index out of range"):
            worker.translate((((99, 3),),), SEARCH)
        assert worker.translate((SOURCES,), SEARCH).tokens > 0
