from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from models.bundle.bundle import Bundle
from models.bundle.manifest import DecodingDefaults, InvalidBundle, Precision
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.parity import (
    Translated,
    check_attention,
    check_translations,
)
from models.export.weights import collect_weights, quantise
from models.importing.importing import import_model, read_model
from models.reference.beam import Hypothesis, searching_of
from models.transformer.transformer import Transformer
from tests.support.firefox import SIZES, write_firefox
from tests.support.networks import CONFIG, random_network, random_ranges, write_bundle
from tests.support.proofs import attended_by_network, translated_by_both
from tests.support.tiny_training import CHOICES, tiny_network
from training.export.conversion import numpy_network
from training.initial.bundle_weights import read_network

COMMITTED = Path(__file__).parents[3] / "bundles" / "general-de-en"

OTHERS: list[dict[str, Any]] = [
    {"positions": "sinusoidal_halves", "activation": "silu", "output_bias": True},
    {"positions": "sinusoidal_tensor2tensor", "first_position": 2, "activation": "gelu"},
    {"tying": "none", "output_bias": True, "scaled_embeddings": False, "decoder_layers": 2},
    {"tying": "decoder", "source_vocabulary": 18, "max_length": 14, "heads": 4},
    {"decoder": "ssru", "norm": "after", "norm_epsilon": 1e-6, "decoder_layers": 2},
]
"""Properties of networks that ``CHOICES`` does not vary."""


@pytest.mark.parametrize(
    ("changes", "precision"),
    [
        *(
            ({"norm": norm, "positions": positions, "tying": tying}, "fp32")
            for norm, positions, tying in CHOICES
        ),
        *((changes, precision) for changes in OTHERS for precision in ("fp32", "fp16", "int8")),
    ],
    ids=str,
)
def test_configuration_and_weights_are_read_from_every_precision(
    tmp_path: Path, changes: dict[str, Any], precision: Precision
) -> None:
    network = tiny_network(**changes)
    config, weights = read_network(write_bundle(network, tmp_path / "bundle", (precision,)))
    assert config == network.config
    Transformer(config).load_state_dict(weights)
    # int8 is tested below.
    tolerance = {"fp32": 0.0, "fp16": 2**-10}.get(precision)
    for name, weight in network.state_dict().items() if tolerance is not None else ():
        torch.testing.assert_close(weights[name], weight, rtol=tolerance, atol=tolerance and 1e-6)


def test_most_exact_precision_is_read(tmp_path: Path) -> None:
    network = tiny_network()
    bundle = write_bundle(network, tmp_path / "bundle", ("int8", "fp16", "fp32"))
    _, weights = read_network(bundle)
    assert all(torch.equal(weights[name], each) for name, each in network.state_dict().items())


@pytest.mark.parametrize(
    ("norm", "positions", "tying"), [CHOICES[0], CHOICES[2], CHOICES[3], CHOICES[5]]
)
def test_int8_weights_are_within_half_a_quantisation_step(
    tmp_path: Path, norm: str, positions: str, tying: str
) -> None:
    network = tiny_network(norm=norm, positions=positions, tying=tying, output_bias=True)
    bundle = write_bundle(network, tmp_path / "bundle", ("int8",))
    _, weights = read_network(bundle)
    # The same values and scales as in the bundle.
    arrays = collect_weights(numpy_network(network), "int8", random_ranges(network)).arrays
    for name, weight in network.state_dict().items():
        error = (weights[name] - weight).abs()
        if weight.dim() == 2 and not name.endswith("positions"):
            _, scale = quantise(weight.numpy())
            assert bool((error <= torch.from_numpy(scale)[:, None] * 0.5001).all()), name
        elif "norm" in name or name.endswith("positions"):
            assert not error.any(), name
    inner = "decoder.0.feed_forward.inner"
    step = arrays["decoder.0.feed_forward.input_scale"] * arrays[f"{inner}.weight_scale"]
    error = (weights[f"{inner}.bias"] - network.state_dict()[f"{inner}.bias"]).abs().numpy()
    assert bool((error <= step * 0.5001).all())
    key = network.decoder_layers[0].cross.key.bias
    np.testing.assert_allclose(weights["decoder.0.cross.key.bias"], key.detach(), atol=1e-3)


@pytest.mark.parametrize(
    "other",
    [{"norm": "after"}, *OTHERS[:3], {"tying": "decoder", "source_vocabulary": 40}],
    ids=str,
)
def test_fp16_graphs_of_int8_weights_compute_what_the_dequantised_network_computes(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    network = random_network(replace(CONFIG, **other))
    path = tmp_path / "bundle"
    bundle = write_bundle(network, path, ("int8", "fp16"), share_weights=True)
    assert "weights.fp16.bin" not in bundle.manifest.files
    config, weights = read_network(bundle)
    dequantised = Transformer(config).eval()
    dequantised.load_state_dict(weights)
    sources = [(5, 9, 17, 3), (8, 3), (6, 7, 11, 4, 15, 3)]
    searching = searching_of(DecodingDefaults(), SPECIAL_IDS, ())
    reference = numpy_network(dequantised)
    translated = translated_by_both(reference, path, ["fp16"], sources, searching)
    check_translations(translated)
    check_attention(attended_by_network(reference, translated), path, SPECIAL_IDS, "fp16")


@pytest.mark.parametrize(
    ("shared", "joined"),
    [(True, True), (False, False)],
    ids=["one vocabulary and scale", "two, and a scale for each matrix"],
)
def test_weights_of_models_of_firefox_are_those_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, joined: bool
) -> None:
    write_firefox(tmp_path / "model", SIZES["small"], shared=shared)
    imported = read_model(tmp_path / "model")
    # ``import_model`` frees the weights that it has written.
    expected = dict(imported.network.weights)
    if not joined:
        assert imported.integers is not None
        integers = {
            name: replace(
                each, input_multiplier=each.input_multiplier and each.input_multiplier + i
            )
            for i, (name, each) in enumerate(imported.integers.items())
        }
        other = replace(imported, integers=integers)
        monkeypatch.setattr("models.importing.importing.read_model", lambda _: other)
    bundle, _ = import_model(tmp_path / "model", tmp_path / "bundles", precisions=("int8",))
    config, weights = read_network(bundle)
    assert config == imported.network.config
    assert weights.keys() <= expected.keys()
    for name, weight in weights.items():
        # Biases are in units of a product.
        tolerance = {"atol": 1e-3} if name.endswith("bias") else {"rtol": 1e-6}
        np.testing.assert_allclose(weight, expected[name], err_msg=name, **tolerance)


@pytest.fixture(scope="module")
def committed() -> tuple[Bundle, Transformer, list[Translated]]:
    """A committed bundle, its network in fp32 with dequantised weights, and its examples."""
    bundle = Bundle.open(COMMITTED)
    config, weights = read_network(bundle)
    network = Transformer(config).eval()
    network.load_state_dict(weights)
    examples = [
        Translated(each.source_ids, [Hypothesis(each.target_ids["int8"], 0.0)], {})
        for each in bundle.manifest.examples
    ]
    return bundle, network, examples


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_network_of_a_committed_bundle_computes_what_its_graphs_compute(
    committed: tuple[Bundle, Transformer, list[Translated]], precision: Precision
) -> None:
    bundle, network, examples = committed
    attended = attended_by_network(numpy_network(network), examples)
    check_attention(attended, bundle.path, SPECIAL_IDS, precision)


def test_activations_of_a_committed_bundle_are_far_from_the_limit_of_fp16(
    committed: tuple[Bundle, Transformer, list[Translated]],
) -> None:
    _, network, examples = committed
    largest = 0.0

    def note(_: nn.Module, __: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, torch.Tensor):
            largest = max(largest, float(output.abs().max()))

    handles = [module.register_forward_hook(note) for module in network.modules()]
    with torch.inference_mode():
        for each in examples:
            source = torch.tensor([each.source_ids])
            network(source, torch.tensor([(SPECIAL_IDS.bos, *each.network[0].token_ids)]))
    for handle in handles:
        handle.remove()
    assert 0 < largest < torch.finfo(torch.float16).max / 2


def test_graphs_that_contradict_the_manifest_or_have_unknown_positions_are_refused(
    tmp_path: Path,
) -> None:
    bundle = write_bundle(tiny_network(), tmp_path / "bundle", ("fp32",))
    dimensions = bundle.manifest.dimensions.model_copy(update={"feed_forward": 32})
    other = replace(bundle, manifest=bundle.manifest.model_copy(update={"dimensions": dimensions}))
    with pytest.raises(InvalidBundle, match=r"decoder\.0\.feed_forward\.inner\.b"):
        read_network(other)
    network = tiny_network()
    for side in (network.source_embedding, network.target_embedding):
        side.positions.add_(0.01)
    with pytest.raises(InvalidBundle, match="position_table"):
        read_network(write_bundle(network, tmp_path / "other", ("fp32",)))
