from __future__ import annotations

import json
from typing import Any

import pytest

from models.bundle.manifest import AlignmentSource, InvalidBundle, Manifest
from tests.models.tiny import MANIFEST


def document() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(MANIFEST.to_json())
    return parsed


def test_a_manifest_reads_back_as_it_was_written() -> None:
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST


def test_a_manifest_says_which_schema_it_has() -> None:
    assert document()["schema"] == 1


def test_languages_are_read_in_their_canonical_form() -> None:
    manifest = Manifest.from_json(json.dumps(document() | {"source": "DEU", "target": "pt_br"}))
    assert (manifest.source, manifest.target) == ("de", "pt-BR")


@pytest.mark.parametrize("missing", sorted(document().keys() - {"schema"}))
def test_only_what_has_a_default_may_be_missing(missing: str) -> None:
    text = json.dumps({name: value for name, value in document().items() if name != missing})
    if missing in {"alignment", "decoding", "examples", "files"}:
        Manifest.from_json(text)
        return
    with pytest.raises(InvalidBundle, match=f"{missing}: Field required"):
        Manifest.from_json(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surprise": 1}, "surprise: Extra inputs"),
        ({"name": "../tiny"}, "name: String should match"),
        ({"name": "tiny\n"}, "name: String should match"),
        ({"version": ""}, "version: String should have at least 1"),
        ({"source": "german"}, "source: .*'german' is not a language code"),
        ({"precisions": []}, "precisions: "),
        ({"precisions": ["fp8"]}, r"precisions\.0: "),
        ({"files": {"README.md": {"size": -1, "sha256": "0" * 64}}}, r"files\.README\.md\.size: "),
        ({"files": {"README.md": {"size": 1, "sha256": "0"}}}, r"files\.README\.md\.sha256: "),
        ({"files": {"..\\x": {"size": 1, "sha256": "0" * 64}}}, "not the plain name of a file"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidBundle, match=f"does not fit: .*{message}"):
        Manifest.from_json(json.dumps(document() | change))


def test_everything_that_does_not_fit_is_named_at_once() -> None:
    with pytest.raises(InvalidBundle, match=r"version: .*; target: "):
        Manifest.from_json(json.dumps(document() | {"version": "", "target": "zz"}))


def test_heads_share_the_width_evenly() -> None:
    dimensions = document()["dimensions"] | {"heads": 3}
    with pytest.raises(InvalidBundle, match="a width of 8 does not divide into 3 heads"):
        Manifest.from_json(json.dumps(document() | {"dimensions": dimensions}))


@pytest.mark.parametrize(
    "change",
    [
        {"special_ids": {"pad": 0, "unk": 1, "bos": 2, "eos": 14}},
        {"examples": [document()["examples"][0] | {"source_ids": [14]}]},
        {"examples": [document()["examples"][0] | {"target_ids": {"fp32": [4, 14]}}]},
    ],
)
def test_every_token_id_is_in_the_vocabulary(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidBundle, match="14 is not a token id of a vocabulary of 14"):
        Manifest.from_json(json.dumps(document() | change))


def test_alignments_are_read_off_the_last_layer_unless_the_bundle_says_otherwise() -> None:
    layers = document()["dimensions"]["decoder_layers"]
    silent = Manifest.from_json(json.dumps(document()))
    assert silent.alignment_source == AlignmentSource(layer=layers - 1, shifted=False)
    said = {"alignment": {"layer": 0, "shifted": True}}
    manifest = Manifest.from_json(json.dumps(document() | said))
    assert manifest.alignment_source == AlignmentSource(layer=0, shifted=True)
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_alignments_are_read_off_a_layer_that_exists() -> None:
    layers = document()["dimensions"]["decoder_layers"]
    with pytest.raises(InvalidBundle, match=f"off layer {layers}, counted from 0; the decoder has"):
        Manifest.from_json(json.dumps(document() | {"alignment": {"layer": layers}}))
