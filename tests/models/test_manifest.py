from __future__ import annotations

import json
from typing import Any

import pytest

from models.bundle.card import render_card
from models.bundle.manifest import AlignmentSource, Direction, InvalidBundle, Manifest
from tests.models.tiny import MANIFEST


def document() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(MANIFEST.to_json())
    return parsed


def manifest_with(change: dict[str, Any]) -> Manifest:
    """The manifest in which these fields are replaced, read from JSON."""
    return Manifest.from_json(json.dumps(document() | change))


def test_languages_are_read_in_their_canonical_form() -> None:
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST
    directions = [{"source": "DEU", "target": "pt_br"}]
    manifest = manifest_with({"directions": directions})
    assert manifest.directions == (Direction(source="de", target="pt-BR"),)
    assert Direction(source="x-digits", target="en").private_use
    assert not Direction(source="de", target="x-digits").private_use


@pytest.mark.parametrize("missing", sorted(document().keys() - {"schema"}))
def test_missing_field_without_default_is_refused(missing: str) -> None:
    text = json.dumps({name: value for name, value in document().items() if name != missing})
    if missing in {"alignment", "decoding", "examples", "files", "int8_fits_16_bits"}:
        Manifest.from_json(text)
        return
    with pytest.raises(InvalidBundle, match=f"{missing}: Field required"):
        Manifest.from_json(text)


TWO_WAYS = [
    {"source": "de", "target": "en", "source_prefix": [4], "target_prefix": []},
    {"source": "en", "target": "de", "source_prefix": [5], "target_prefix": [6, 7]},
]
AGAIN = TWO_WAYS[0] | {"source": "DEU", "source_prefix": [5]}
"""The first direction in another spelling."""
DEPTH = document()["dimensions"]["decoder_layers"]
EXAMPLE = document()["examples"][0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"surprise": 1}, "surprise: "),
        ({"name": "../tiny"}, "name: "),
        ({"name": "tiny\n"}, "name: "),
        ({"version": ""}, "version: "),
        ({"version": "\ud800"}, "surrogates not allowed"),
        ({"directions": [{"source": "german", "target": "en"}]}, r"directions\.0\.source: "),
        ({"directions": []}, "directions: "),
        ({"precisions": []}, "precisions: "),
        ({"precisions": ["fp8"]}, r"precisions\.0: "),
        ({"files": {"README.md": {"size": -1, "sha256": "0" * 64}}}, r"files\.README\.md\.size: "),
        ({"files": {"README.md": {"size": 1, "sha256": "0"}}}, r"files\.README\.md\.sha256: "),
        ({"files": {"..\\x": {"size": 1, "sha256": "0" * 64}}}, "the plain name of a file"),
        # All invalid fields are named at once.
        (
            {"version": "", "directions": [{"source": "de", "target": "zz"}]},
            r"version: .*; directions\.0\.target: ",
        ),
        ({"special_ids": {"pad": 0, "unk": 1, "bos": 2, "eos": 14}}, "14 is not a token id"),
        ({"examples": [EXAMPLE | {"source_ids": [14]}]}, "14 is not a token id"),
        ({"examples": [EXAMPLE | {"target_ids": {"fp32": [4, 14]}}]}, "14 is not a token id"),
        ({"dimensions": document()["dimensions"] | {"heads": 3}}, "3 heads"),
        ({"directions": [TWO_WAYS[0], AGAIN], "examples": []}, "de-en twice"),
        ({"alignment": {"layer": DEPTH}}, f"layer {DEPTH}"),
    ],
)
def test_invalid_field_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidBundle, match=named):
        manifest_with(change)


def test_a_bundle_may_translate_several_directions() -> None:
    manifest = manifest_with({"directions": TWO_WAYS, "examples": []})
    assert [d.target_prefix for d in manifest.directions] == [(), (6, 7)]
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"source_prefix": [14]}, "14 is not a token id of a source"),
        ({"target_prefix": [10]}, "10 is not a token id of a target"),
        ({"target_prefix": [-1]}, "-1 is not a token id of a target"),
        ({"source_prefix": [3]}, "source_prefix of de-en"),
        ({"target_prefix": [2]}, "target_prefix of de-en"),
        ({"source_prefix": [4] * 7}, "source_prefix of de-en"),
        ({"target_prefix": [4] * 7}, "target_prefix of de-en"),
    ],
)
def test_invalid_prefix_is_refused(change: dict[str, Any], named: str) -> None:
    sizes = {"vocabulary_size": 10, "source_vocabulary_size": 14}
    dimensions, directions = document()["dimensions"] | sizes, [TWO_WAYS[0] | change]
    with pytest.raises(InvalidBundle, match=named):
        manifest_with({"dimensions": dimensions, "directions": directions, "examples": []})


def test_example_without_its_directions_prefix_is_refused() -> None:
    one = EXAMPLE | {"source_ids": [4, 8, 3]}
    manifest_with({"directions": TWO_WAYS, "examples": [one]})
    for direction, named in ((1, "source_prefix"), (2, "direction 2")):
        with pytest.raises(InvalidBundle, match=named):
            manifest_with({"directions": TWO_WAYS, "examples": [one | {"direction": direction}]})


def test_card_lists_directions_or_languages_if_there_are_many() -> None:
    two = manifest_with({"directions": TWO_WAYS, "examples": []})
    assert "Translates German to English and English to German. " in render_card(two)
    codes = ["de", "en", "fr"]
    many = [Direction(source=s, target=t) for s in codes for t in codes]
    card = render_card(two.model_copy(update={"directions": tuple(many)}))
    assert "Translates between 3 languages in 9 directions: English, French, German. " in card
    sizes = two.dimensions.model_copy(update={"source_vocabulary_size": 20})
    card = render_card(two.model_copy(update={"dimensions": sizes}))
    assert "20 source and 14 target pieces" in card


def test_alignment_source_defaults_to_the_last_layer() -> None:
    layers = document()["dimensions"]["decoder_layers"]
    assert manifest_with({}).alignment_source == AlignmentSource(layer=layers - 1, shifted=False)
    manifest = manifest_with({"alignment": {"layer": 0, "shifted": True}})
    assert manifest.alignment_source == AlignmentSource(layer=0, shifted=True)
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("name", ["copy_without_letters", "keep_figures"])
def test_copy_and_figure_options_are_none_true_or_false(name: str) -> None:
    assert getattr(MANIFEST.decoding, name) is None
    for value in (None, True, False):
        manifest = manifest_with({"decoding": {"beam_size": 2, name: value}})
        assert getattr(Manifest.from_json(manifest.to_json()).decoding, name) is value
