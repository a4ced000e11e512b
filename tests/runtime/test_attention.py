from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from models.bundle.bundle import Bundle
from models.bundle.graphs import ENTROPIES
from models.bundle.manifest import InvalidBundle
from service.runtime.attention import AttentionGraph
from tests.support.networks import random_network, write_bundle


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


def test_a_graph_without_entropies_runs_without_them_and_is_named_in_the_log(
    bundle: Bundle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = onnx.load_from_string(bundle.read("attention.fp32.onnx"))
    (entropies,) = (each for each in graph.graph.output if each.name == ENTROPIES)
    graph.graph.output.remove(entropies)
    files = {file.name: file.read_bytes() for file in bundle.path.iterdir()}
    files["attention.fp32.onnx"] = graph.SerializeToString()
    found = AttentionGraph.load(Bundle(bundle.path, bundle.manifest, files), "fp32")
    maps = found.run((5, 6, 3), (7, 8))
    assert maps.entropies_T is None
    expected = AttentionGraph.load(bundle, "fp32").run((5, 6, 3), (7, 8))
    np.testing.assert_array_equal(maps.log_probs_T, expected.log_probs_T)
    assert [record.getMessage() for record in caplog.records] == [
        "random in fp32 has no entropies, so the confidence of words is without them; exporting or "
        "importing it again adds them"
    ]


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
