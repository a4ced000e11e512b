from __future__ import annotations

import functools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.bundle.graphs import Signature, TensorType
from models.bundle.manifest import GRAPHS, Precision
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.builder import PAGE, GraphBuilder, WeightFile
from models.export.calibration import Histogram, calibrate, quantised, step_and_zero
from models.export.emitter import Emitter
from models.export.graphs import build_graph
from models.export.parity import (
    ParityError,
    Translated,
    check_attention,
    check_translations,
)
from models.export.resident import build_resident
from models.export.session import GraphDecoder, open_graph
from models.export.weights import PAIR_MAX, Quantiser, collect_weights, quantise
from models.reference.beam import Hypothesis, Searching
from models.reference.transformer import ReferenceTransformer
from models.transformer.transformer import Transformer
from tests.support.networks import CONFIG, NETWORKS, random_network, random_ranges, write_bundle
from tests.support.proofs import attended_by_network, translated_by_both
from training.export.conversion import numpy_network

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "fp16")
SEARCHING = Searching(SPECIAL_IDS, beam_size=3, length_penalty=1.0)
Exported = Callable[[str], tuple[Transformer, Path]]
SOURCES = [(4, 5, 6, 7, 3), (29, 8, 3), (9, 9, 10, 11, 12, 13, 14, 3), (20, 3)]


def check(network: Transformer, directory: Path) -> list[Translated]:
    reference = numpy_network(network)
    translated = translated_by_both(reference, directory, PRECISIONS, SOURCES, SEARCHING)
    check_translations(translated)
    attended = attended_by_network(reference, translated)
    for precision in PRECISIONS:
        check_attention(attended, directory, SPECIAL_IDS, precision)
    return translated


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The network of a name and its bundle in every precision, which is written once."""

    @functools.cache
    def export(name: str) -> tuple[Transformer, Path]:
        network = random_network(NETWORKS[name])
        path = tmp_path_factory.mktemp("exported") / "bundle"
        return network, write_bundle(network, path, PRECISIONS).path

    return export


@pytest.mark.parametrize("name", NETWORKS)
def test_graphs_match_the_network(exported: Exported, name: str) -> None:
    for sentence in check(*exported(name)):
        best, int8 = sentence.network[0], sentence.graphs["int8"][0]
        assert sentence.graphs["fp32"][0].token_ids == best.token_ids
        # Close to the network despite quantised weights.
        assert int8.score == pytest.approx(best.score, abs=0.3)


@pytest.fixture(scope="module")
def network(exported: Exported) -> Transformer:
    return exported("usual")[0]


@pytest.fixture(scope="module")
def reference(network: Transformer) -> ReferenceTransformer:
    return numpy_network(network)


@pytest.fixture(scope="module")
def translated(exported: Exported) -> list[Translated]:
    return check(*exported("usual"))


@pytest.fixture
def graphs(tmp_path: Path, exported: Exported) -> Path:
    """A copy of the usual network's bundle, to be tampered with."""
    return Path(shutil.copytree(exported("usual")[1], tmp_path / "bundle"))


def tensors_of(graphs: Path, precision: Precision) -> Iterator[onnx.TensorProto]:
    """The weights of every graph."""
    for graph in GRAPHS:
        model = onnx.load(graphs / f"{graph}.{precision}.onnx", load_external_data=False)
        yield from model.graph.initializer


def tamper(graphs: Path, name: str, factor: float, precision: Precision) -> None:
    weight = next(tensor for tensor in tensors_of(graphs, precision) if tensor.name == name)
    place = {entry.key: entry.value for entry in weight.external_data}
    start, length = int(place["offset"]), int(place["length"])
    content = bytearray((graphs / place["location"]).read_bytes())
    values = np.frombuffer(bytes(content[start : start + length]), np.float32)
    content[start : start + length] = (values * np.float32(factor)).tobytes()
    (graphs / place["location"]).write_bytes(content)


@pytest.mark.parametrize(
    ("weight", "factor", "precision"),
    [
        ("target.weight", 0.9, "fp32"),
        ("position_table", 0.9, "fp32"),
        ("encoder.0.attention.query_key_value.weight", 0.9, "fp32"),
        ("encoder.1.feed_forward.norm.scale", 0.9, "fp32"),
        ("decoder.0.cross.key_value.weight", 0.9, "fp32"),
        ("decoder.1.feed_forward.inner.bias", 0.9, "fp32"),
        ("decoder.0.cross.key_value.weight_scale", -1.0, "int8"),
    ],
)
def test_parity_check_finds_a_tampered_weight(
    reference: ReferenceTransformer,
    translated: list[Translated],
    graphs: Path,
    weight: str,
    factor: float,
    precision: Precision,
) -> None:
    tamper(graphs, weight, factor, precision)
    # The translations of int8 are compared with those of fp32.
    compared: list[Precision] = list(dict.fromkeys(("fp32", precision)))
    with pytest.raises(ParityError, match=f"{precision}: scores differ"):
        check_translations(translated_by_both(reference, graphs, compared, SOURCES, SEARCHING))
    with pytest.raises(ParityError, match="differ from the network's by"):
        check_attention(attended_by_network(reference, translated), graphs, SPECIAL_IDS, precision)


def test_no_translation_of_the_proof_is_longer_than_its_limit(
    reference: ReferenceTransformer, translated: list[Translated], graphs: Path
) -> None:
    limited = translated_by_both(reference, graphs, ["fp32"], SOURCES, SEARCHING, 2)
    assert max(len(each.network[0].token_ids) for each in translated) > 2
    for each in limited:
        assert len(each.network[0].token_ids) <= 2 and len(each.graphs["fp32"][0].token_ids) <= 2
    check_translations(limited)


def test_int8_sessions_use_the_serving_precision_option(graphs: Path) -> None:
    options = open_graph(graphs, "step", "int8").get_session_options()
    assert options.get_session_config_entry("session.x64quantprecision") == "1"


def test_parity_check_refuses_nan_and_leaves_out_ties_but_not_all() -> None:
    one, other = Hypothesis((4,), -1.0), Hypothesis((5,), -1.00001)
    nan = Translated((4, 3), [one], {"fp32": [Hypothesis((4,), float("nan"))]})
    with pytest.raises(ParityError, match="by nan"):
        check_translations([Translated((4, 3), [one], {"fp32": [one]}), nan])
    # The order of hypotheses with equal scores does not matter.
    check_translations([Translated((4, 3), [one, other], {"fp32": [other, one]})])
    same = Translated((4, 3), [one], {"fp32": [one]}, margins={"fp32": 0.1})
    worse = [Hypothesis((5,), -2.0)]
    tied = Translated((4, 3), [one], {"fp32": worse}, margins={"fp32": 0.0})
    check_translations([same, tied])
    with pytest.raises(ParityError, match="every search has a tie"):
        check_translations([tied])


def test_parity_check_of_a_translation_of_maximum_length(
    reference: ReferenceTransformer, graphs: Path
) -> None:
    longest = Hypothesis((5,) * CONFIG.max_length, -1.0)
    attended = attended_by_network(reference, [Translated((4, 3), [longest], {})])
    check_attention(attended, graphs, SPECIAL_IDS)


def test_the_graphs_of_a_precision_share_one_file_of_weights(graphs: Path) -> None:
    for precision in PRECISIONS:
        locations = {
            entry.value
            for tensor in tensors_of(graphs, precision)
            for entry in tensor.external_data
            if entry.key == "location"
        }
        assert locations == {f"weights.{precision}.bin"}


def test_step_in_fp16_adds_and_normalises_in_one_operator(graphs: Path) -> None:
    step = onnx.load(graphs / "step.fp16.onnx", load_external_data=False)
    operators = Counter(node.op_type for node in step.graph.node)
    assert operators["SkipLayerNormalization"] == 3 * CONFIG.decoder_layers
    assert operators["LayerNormalization"] <= 1
    # The additions are those of the positions and of the edits.
    assert operators["Add"] <= 2 + 1


def test_int8_is_a_fraction_of_the_size(tmp_path: Path) -> None:
    network = random_network(replace(CONFIG, width=64, feed_forward=256))
    graphs = write_bundle(network, tmp_path / "bundle").path
    whole, small = ((graphs / f"weights.{p}.bin").stat().st_size for p in ("fp32", "int8"))
    assert small < 0.35 * whole


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_weight_is_exported_once(precision: Precision) -> None:
    network = random_network(NETWORKS["before-learned-none"])
    weights = collect_weights(numpy_network(network), precision, random_ranges(network))
    exported = sum(
        array.size
        for name, array in weights.arrays.items()
        if not name.endswith(("_scale", "_zero"))
    )
    assert exported == network.num_parameters


def int8_linear_session(inputs: int, outputs: int) -> onnxruntime.InferenceSession:
    """A session of ``Emitter.linear`` alone."""
    torch.manual_seed(1)
    layer = torch.nn.Linear(inputs, outputs)
    matrix, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    weights = WeightFile("weights.bin")
    Quantiser(weights, {"input": (-4.0, 4.0)}).add("layer", "input", matrix, bias)
    builder = GraphBuilder(weights)
    builder.op("Identity", Emitter(builder, CONFIG, "int8").linear("x", "layer", "input"), into="y")
    ports = ({"x": TensorType("float", ("R", inputs))}, {"y": TensorType("float", ("R", outputs))})
    model = builder.model("linear", Signature(*ports))
    for tensor in model.graph.initializer:
        if tensor.name in weights.arrays:
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights.arrays[tensor.name], tensor.name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Exact products without VNNI, too, as the service and the proof of an export compute them.
    options.add_session_config_entry("session.x64quantprecision", "1")
    content = model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


INT8_LINEARS = {shape: int8_linear_session(*shape) for shape in ((16, 24), (64, 192), (256, 5))}


@settings(max_examples=30)
@given(
    shape=st.sampled_from(sorted(INT8_LINEARS)),
    rows=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
)
def test_int8_linear_row_does_not_depend_on_its_batch(
    shape: tuple[int, int], rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # Rows of very different magnitudes, zero included.
    sizes = rng.choice([0.0, 1e-6, 1.0, 1e4], (rows, 1))
    x = (rng.normal(size=(rows, shape[0])) * sizes).astype(np.float32)
    session = INT8_LINEARS[shape]
    (together,) = session.run(None, {"x": x})
    assert np.isfinite(together).all()
    for row in range(rows):
        (alone,) = session.run(None, {"x": x[row : row + 1]})
        assert alone.tobytes() == together[row : row + 1].tobytes()


@given(
    seed=st.integers(0, 2**32 - 1),
    inputs=st.integers(1, 9),
    sizes=st.lists(st.sampled_from([0.0, 1e-4, 1.0, 1e3]), min_size=4, max_size=4),
)
def test_quantised_pairs_fit_16_bits_and_errors_are_at_most_half_a_step(
    seed: int, inputs: int, sizes: list[float]
) -> None:
    matrix = np.random.default_rng(seed).normal(size=(4, inputs)) * np.array(sizes)[:, None]
    quantised, scale = quantise(matrix.astype(np.float32))
    assert quantised.dtype == np.int8 and quantised.min() >= -127
    assert (np.abs(matrix - quantised * scale[:, None]) <= scale[:, None] * 0.5001).all()
    products = 255 * quantised.astype(np.int32)
    sums = products[:, 0::2][:, : inputs // 2] + products[:, 1::2]
    assert ((sums >= -(2**15)) & (sums < 2**15)).all()


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 20), inputs=st.integers(1, 70))
def test_products_with_the_largest_pairs_are_exact_without_shifted_weights(
    seed: int, rows: int, inputs: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (24, inputs + 1))
    second = weights[:, 1::2]
    sums = weights[:, ::2][:, : second.shape[1]] + second
    second -= np.sign(sums) * np.maximum(np.abs(sums) - PAIR_MAX, 0)
    x, zero = rng.choice([0, 1, 128, 254, 255], (rows, inputs + 1)), rng.integers(0, 256)
    product = onnx.helper.make_node("MatMulInteger", ["x", "weights", "zero"], ["y"])
    numbers = {"weights": weights.T.astype(np.int8), "zero": np.array(zero, np.uint8)}
    graph = onnx.helper.make_graph(
        [product],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [rows, 24])],
        [onnx.numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    session = onnxruntime.InferenceSession(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString(),
        providers=["CPUExecutionProvider"],
    )
    (found,) = session.run(None, {"x": x.astype(np.uint8)})
    assert (found == (x - zero) @ weights.T).all()


def test_quantised_weights_are_quantised_to_the_same_values_again() -> None:
    quantised, scale = quantise(np.random.default_rng(1).normal(size=(20, 64)).astype(np.float32))
    again, same = quantise(quantised * scale[:, None])
    assert (again == quantised).all()
    np.testing.assert_allclose(same, scale, rtol=1e-5)


@pytest.mark.parametrize("times", [1, 2])
def test_changes_below_half_a_step_outlive_another_quantisation(times: int) -> None:
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(50, 256)).astype(np.float32)
    for _ in range(times):
        quantised, scale = quantise(weights)
        before = quantised * scale[:, None]
        weights = before + 0.2 * scale[:, None]
    quantised, larger = quantise(weights)
    moved = (quantised * larger[:, None] - before) / scale[:, None]
    # Rounding to the old values would move nothing.
    assert moved.mean() == pytest.approx(0.2, abs=0.02)
    assert (larger / scale).max() < 1.1


@pytest.mark.parametrize("tying", ["all", "none"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_piece_with_a_very_negative_bias_ranks_last(
    tmp_path: Path, precision: Precision, tying: Literal["all", "none"]
) -> None:
    network = random_network(replace(CONFIG, tying=tying, output_bias=True))
    hidden = [7, 19, 28]
    with torch.no_grad():
        network.generator.bias[hidden] = -1e4
        # A row so small that its bias, in units of its scale, overflows int32.
        network.generator.weight[19] *= 1e-6
    bundle = write_bundle(network, tmp_path / "bundle", PRECISIONS)
    decoder = GraphDecoder(bundle.path, bundle.manifest.dimensions, precision)
    decoder.start(SOURCES[0])
    columns, log_probs = decoder.extend([0], [SPECIAL_IDS.bos], CONFIG.target_vocabulary)
    assert set(columns[0, -3:].tolist()) == set(hidden)
    assert log_probs[0, -3:].max() < -1000
    assert np.exp(log_probs[0]).sum() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("lowest", "highest"), [(0.0, 2.0), (-0.17, 2.0), (-3.0, 1.0)])
def test_activation_range_uses_all_of_uint8(lowest: float, highest: float) -> None:
    weights = WeightFile("weights.bin")
    matrix = np.ones((2, 3), np.float32)
    Quantiser(weights, {"input": (lowest, highest)}).add("layer", "input", matrix, None)
    scale = weights.arrays["input.input_scale"].item()
    zero = weights.arrays["input.input_zero"].item()
    assert -zero * scale == pytest.approx(lowest, abs=scale)
    assert (255 - zero) * scale == pytest.approx(highest, abs=scale)
    assert (zero == 0) == (lowest == 0)


def test_ranges_do_not_depend_on_the_order_of_pairs(network: Transformer) -> None:
    reference = numpy_network(network)
    pairs = [((4, 5, 3), (2, 6)), ((7, 8, 9, 10, 11, 3), (2, 12, 13, 14, 15))]
    ranges = calibrate(reference, pairs)
    assert ranges == calibrate(reference, pairs[::-1])
    assert all(lowest < highest for lowest, highest in ranges.values())
    with pytest.raises(ValueError, match="at least one pair"):
        calibrate(reference, [])
    with pytest.raises(ValueError, match="ranges"):
        collect_weights(reference, "int8")


@given(
    batches=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    scale=st.floats(1e-3, 1e3),
    tails=st.sampled_from([1, 2, 3, 30]),
    centre=st.sampled_from([0, 1, 10]),
    seed=st.integers(0, 99),
)
def test_range_has_nearly_the_least_squared_error(
    batches: list[int], scale: float, tails: int, centre: int, seed: int
) -> None:
    """The values have tails as of Student's t, whose largest ones come in any batch."""
    rng = np.random.default_rng(seed)
    histogram, values = Histogram(), []
    for size in batches:
        values.append((scale * (rng.standard_t(tails, size) + centre)).astype(np.float32))
        histogram.add(values[-1])
    every = np.concatenate(values)
    lowest, highest = min(0.0, float(every.min())), max(0.0, float(every.max()))

    def error(chosen: tuple[float, float]) -> float:
        return float(np.square(quantised(every, *step_and_zero(*chosen)) - every).sum())

    found = histogram.best_range()
    assert lowest <= found[0] <= lowest / 2 and highest / 2 <= found[1] <= highest
    shares = np.linspace(0.5, 1, 26)
    least = min(error((lowest * low, highest * high)) for low in shares for high in shares)
    # A value is known up to the width of its bin.
    width = max(-lowest, highest) / 1024
    assert error(found) <= 1.1 * least + len(every) * width**2


def test_range_of_an_input_without_negative_values_begins_at_zero() -> None:
    histogram = Histogram()
    histogram.add(np.zeros(3, np.float32))
    assert histogram.best_range() == (0, 0)
    histogram.add(np.array([0, 1, 4], np.float32))
    assert histogram.best_range()[0] == 0


@pytest.mark.parametrize("norm", ["before", "after"])
def test_range_of_self_attention_is_that_of_its_normalised_input(norm: str) -> None:
    network = random_network(replace(CONFIG, norm=norm))  # type: ignore[arg-type]
    ranges = calibrate(numpy_network(network), [((4, 5, 6, 3), (2, 7, 8))])
    seen: list[torch.Tensor] = []
    attention = network.encoder_layers[1].attention
    joint = attention.queries_keys_values

    def watched(x_BQW: torch.Tensor) -> object:
        seen.append(x_BQW)
        return joint(x_BQW)

    attention.queries_keys_values = watched  # type: ignore[method-assign, assignment]
    with torch.inference_mode():
        memory = network.encode(torch.tensor([[4, 5, 6, 3]]))
    for name, inputs in (("encoder.1.attention", seen[0]), ("memory", memory)):
        histogram = Histogram()
        histogram.add(inputs.numpy())
        assert ranges[name] == pytest.approx(histogram.best_range(), rel=0.05)


def test_weights_are_aligned_for_memory_mapping(tmp_path: Path) -> None:
    weights = WeightFile("weights.bin")
    arrays: dict[str, NDArray[np.generic]] = {
        "small": np.arange(3, dtype=np.float32),
        "large": np.arange(40_000, dtype=np.float32),
        "last": np.arange(5, dtype=np.int8),
    }
    for name, array in arrays.items():
        weights.add(name, array)
    weights.write(tmp_path / "weights.bin")
    content = (tmp_path / "weights.bin").read_bytes()
    for name, array in arrays.items():
        entries = {e.key: e.value for e in weights.initializer(name).external_data}
        start = int(entries["offset"])
        assert start % (PAGE if name == "large" else 64) == 0
        assert content[start : start + int(entries["length"])] == array.tobytes()
    with pytest.raises(ValueError, match="weight small is there already"):
        weights.add("small", arrays["small"])
    with pytest.raises(KeyError, match="there is no weight absent"):
        GraphBuilder(weights).weight("absent")


@pytest.mark.parametrize("graph", ["step", "resident"])
def test_logits_in_fp16_have_columns_in_a_multiple_of_8(graph: Literal["step", "resident"]) -> None:
    network = numpy_network(random_network())
    assert network.config.target_vocabulary == 30
    weights = collect_weights(network, "fp16", None)
    model = (
        build_graph(graph, weights, network.config, "fp16")
        if graph == "step"
        else build_resident(weights, network.config, "fp16", 4, SPECIAL_IDS)
    )
    shapes = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    rows = {
        shapes[node.input[1]][0]
        for node in model.graph.node
        if node.op_type == "Gemm" and node.input[1] in shapes
    }
    # Only the output matrix is joined to other rows.
    assert rows == {32}
