from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle
from service.runtime.attention import AttentionGraph
from tests.support.networks import random_network, write_bundle
from tests.support.scripted import ScriptedAttention
from tests.support.shouting import EOS, make_attention, make_manifest, shouting


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return write_bundle(random_network(), tmp_path_factory.mktemp("bundles") / "random", ("fp32",))


def test_an_open_graph_runs_after_its_bundle_is_deleted(bundle: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in bundle.path.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    graph = AttentionGraph.load(Bundle.open(copy), "fp32")
    before = graph.run((5, 6, 3), (7, 8))
    for file in list(copy.iterdir()):
        file.unlink()
    np.testing.assert_array_equal(graph.run((5, 6, 3), (7, 8)).cross_LHTS, before.cross_LHTS)


def test_run_on_a_closed_graph_raises_runtime_error(bundle: Bundle) -> None:
    graph = AttentionGraph.load(bundle, "fp32")
    graph.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        graph.run((5, 3), ())


def test_a_graph_that_onnx_runtime_cannot_read_is_refused(bundle: Bundle) -> None:
    broken = Bundle(bundle.path, bundle.manifest, {"attention.fp32.onnx": b"not a graph"})
    with pytest.raises(InvalidBundle, match="cannot be opened by ONNX Runtime"):
        AttentionGraph.load(broken, "fp32")


def test_a_graph_that_reads_another_file_is_refused(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, other = "weights.fp32.bin", "elsewhere32.data"
    (tmp_path / other).write_bytes(bundle.read(weights))
    monkeypatch.chdir(tmp_path)
    graph = bundle.read("attention.fp32.onnx").replace(weights.encode(), other.encode())
    reading = Bundle(bundle.path, bundle.manifest, {"attention.fp32.onnx": graph})
    with pytest.raises(InvalidBundle, match=other):
        AttentionGraph.load(reading, "fp32")


@given(st.integers(0, 8), st.integers(0, 8))
def test_scripted_maps_have_shapes_and_rows_that_sum_to_one(sources: int, targets: int) -> None:
    scripted: ScriptedAttention = make_attention(make_manifest("a", "de", "en"))
    source_ids = (*range(100, 100 + sources), EOS)
    maps = scripted.run(source_ids, tuple(range(68, 68 + targets)))
    assert maps.encoder_LHSS.shape == (1, 2, sources + 1, sources + 1)
    assert maps.decoder_LHTT.shape == (1, 2, targets + 1, targets + 1)
    assert maps.cross_LHTS.shape == (1, 2, targets + 1, sources + 1)
    for weights in (maps.encoder_LHSS, maps.decoder_LHTT, maps.cross_LHTS):
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert not np.triu(maps.decoder_LHTT, 1).any()
    assert maps.log_probs_T.shape == (targets + 1,)


def test_scripted_heads_differ_and_log_probs_are_the_scripts() -> None:
    scripted = make_attention(make_manifest("a", "de", "en"))
    source_ids, target_ids = (101, 102, EOS), (69, 70)
    maps = scripted.run(source_ids, target_ids)
    assert (maps.cross_LHTS[0, 1] != maps.cross_LHTS[0, 0]).any()
    assert (maps.cross_LHTS.argmax(-1) == [0, 1, 2]).all()
    likely = shouting(source_ids, (2,))
    assert maps.log_probs_T[0] == pytest.approx(
        likely[69] - np.log(np.exp(likely.astype(float)).sum()), abs=1e-5
    )
