"""Tests of importing models in the format of Firefox Translations."""

from __future__ import annotations

import gzip
import math
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.manifest import Direction
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.session import GraphDecoder
from models.export.weights import LARGEST_INPUT, collect_weights
from models.importing import marian_binary
from models.importing.importing import import_model, read_model
from models.importing.marian_native import is_marian
from models.importing.refusals import ImportRefused, NotACheckpoint, UnsupportedCheckpoint
from models.zstandard import zstd
from tests.support.firefox import FIRST, SIZES, Stored, Written, packed, write_firefox

SMALL = SIZES["small"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_firefox(tmp_path_factory.mktemp("firefox") / "deen", SMALL, lexical=True)


@pytest.fixture
def copied(written: Written, tmp_path: Path) -> Path:
    """A copy of the model's directory, to be changed."""
    return Path(shutil.copytree(written.model.parent, tmp_path / "copied"))


def items(path: Path) -> list[Stored]:
    file = marian_binary.Binary(path)
    return [
        (name, item.kind, item.shape, bytes(file._content[item.start : item.start + item.size]))
        for name, item in file._items.items()
    ]


def rewrite(directory: Path, change: Callable[[list[Stored]], list[Stored]]) -> None:
    (path,) = directory.glob("model.*")
    path.write_bytes(packed(change(items(path))))


def test_integers_and_scales_of_the_file_are_those_of_the_bundle(written: Written) -> None:
    imported = read_model(written.model.parent)
    assert imported.integers is not None
    weights = collect_weights(imported.network, "int8", integers=imported.integers).arrays
    file = marian_binary.Binary(written.model)
    for name, parts in (
        ("decoder.1.recurrence.input_gate", ["decoder_l2_rnn_W", "decoder_l2_rnn_Wf"]),
        ("encoder.0.attention.query_key_value", [f"encoder_l1_self_W{x}" for x in "qkv"]),
        ("decoder.0.feed_forward.outer", ["decoder_l1_ffn_W2"]),
    ):
        stored = [file.quantised(part) for part in parts]
        np.testing.assert_array_equal(
            weights[f"{name}.weight"], np.concatenate([each.values for each in stored])
        )
        scale = np.concatenate([np.full(len(s.values), 1 / s.multiplier) for s in stored])
        np.testing.assert_allclose(weights[f"{name}.weight_scale"], scale, rtol=1e-6)
        multiplier = file.read(f"{parts[0]}_QuantMultA")[0, 0]
        assert weights[f"{name}.input_scale"] == pytest.approx(1 / multiplier)
    assert weights["encoder.0.attention.query_key_value.input_zero"] == 127
    # A product after a ReLU has the same largest input, in numbers from zero.
    assert weights["decoder.0.feed_forward.outer.input_zero"] == 0
    assert weights[LARGEST_INPUT] == 128


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_model_is_imported_from_plain_and_packed_files(
    tmp_path: Path, suffix: str, shared: bool
) -> None:
    directory = tmp_path / "model"
    original = write_firefox(directory, SMALL, shared=shared, lexical=True)
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstd.compress}[suffix]
    for file in list(directory.iterdir()):
        content = file.read_bytes()
        file.unlink()
        file.with_name(file.name + suffix).write_bytes(pack(content))
    bundle, proof = import_model(directory, tmp_path / "bundles", name="firefox")
    manifest = bundle.manifest
    assert proof.sentences == 8 and proof.differing["fp32"] == 0
    assert manifest.directions == (Direction(source="de", target="en"),)
    assert manifest.dimensions.decoder == "ssru" and not manifest.int8_fits_16_bits
    assert manifest.alignment is not None
    assert (manifest.alignment.layer, manifest.alignment.head) == (1, 0)
    assert manifest.decoding.beam_size == 1
    assert bundle.has_resident("fp16")
    shortlist = bundle.shortlist()
    assert shortlist is not None and shortlist.source_vocabulary_size == SMALL.pieces + 2
    assert len(original.words[0]) == SMALL.pieces - 2


def test_shortlist_is_in_the_ids_of_the_bundle(written: Written) -> None:
    imported = read_model(written.model.parent)
    assert written.lex is not None and imported.shortlist is not None
    content = written.lex.read_bytes()
    first, per_source = struct.unpack_from("<2Q", content, 16)
    offsets = np.frombuffer(content, "<u8", SMALL.pieces + 1, 48)
    ids = np.frombuffer(content, "<u4", offset=48 + 8 * len(offsets))
    assert (first, per_source) == (FIRST, 12)
    # The file has eos 0 and unk 1; rows of words are in the same order.
    new = {0: SPECIAL_IDS.eos, 1: SPECIAL_IDS.unk}
    new |= {i: i + 2 for i in range(2, SMALL.pieces)}
    for old in (0, 1, 2, 40):
        own = {new[int(i)] for i in ids[int(offsets[old]) : int(offsets[old + 1])]}
        expected = {*own, new[old], *(new[i] for i in range(FIRST))}
        assert set(imported.shortlist.ids_for([new[old]]).tolist()) == expected


def test_matrices_of_one_input_may_have_different_scales(copied: Path, tmp_path: Path) -> None:
    def change(own: list[Stored]) -> list[Stored]:
        return [
            (name, kind, shape, struct.pack("<f", struct.unpack("<f", data)[0] * 1.25))
            if name in {"encoder_l1_self_Wk_QuantMultA", "decoder_l2_rnn_Wf_QuantMultA"}
            else (name, kind, shape, data)
            for name, kind, shape, data in own
        ]

    rewrite(copied, change)
    imported = read_model(copied)
    arrays = collect_weights(imported.network, "int8", integers=imported.integers).arrays
    scales = [arrays[f"encoder.0.attention.query_key_value.{i}.input_scale"] for i in range(3)]
    assert scales[0] == scales[2] == pytest.approx(scales[1] * 1.25)
    _, proof = import_model(copied, tmp_path / "bundles", name="firefox")
    assert proof.differing["fp32"] == 0


def option(**changes: Any) -> Callable[[list[Stored]], list[Stored]]:
    def change(own: list[Stored]) -> list[Stored]:
        *others, (name, kind, _, data) = own
        text = data.rstrip(b"\0")
        for key, value in changes.items():
            lines = [line for line in text.splitlines() if not line.startswith(f"{key}:".encode())]
            text = b"\n".join([*lines, f"{key}: {value}".encode()])
        text += b"\n\0"
        return [*others, (name, kind, (len(text),), text)]

    return change


def of(name: str, **changes: Any) -> Callable[[list[Stored]], list[Stored]]:
    """Change kind, shape or data of one item."""

    def change(own: list[Stored]) -> list[Stored]:
        found = {"kind": 1, "shape": 2, "data": 3}
        changed = []
        for item in own:
            fields: list[Any] = list(item)
            if item[0] == name:
                for key, value in changes.items():
                    fields[found[key]] = value
            changed.append(tuple(fields))
        return changed

    return change


def without(name: str) -> Callable[[list[Stored]], list[Stored]]:
    return lambda own: [item for item in own if item[0] != name]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (option(**{"dec-cell": "gru"}), "dec-cell 'gru'; of recurrent decoders 'ssru'"),
        (option(**{"transformer-tied-layers": "[1]"}), "tied-layers"),
        (option(**{"factors-combine": "concat"}), "factors-combine"),
        (option(**{"transformer-train-position-embeddings": "true"}), "position-embeddings"),
        (option(**{"dec-depth": 3}), "has no decoder_l3_rnn_W"),
        (without("decoder_l1_rnn_W_QuantMultA"), "has no decoder_l1_rnn_W_QuantMultA"),
        (without("special:model.yml"), "is no model of Marian"),
        (lambda own: [*own, ("more", 0x0404, (1,), bytes(4))], "no supported network has: more"),
        (lambda own: [*own, own[0]], "twice"),
        (of("encoder_l1_self_Wq", kind=0x7101), "intgemm8 prepared for AVX-512"),
        (of("encoder_l1_self_Wq", kind=0x0404), "has the shape"),
        (of("encoder_l1_self_Wq", shape=(16, 64)), "has the shape"),
        (of("encoder_l1_self_Wq", shape=(-32, -32)), "has the shape"),
        (of("encoder_l1_self_Wq", shape=(1 << 30, 1 << 30)), "has the shape"),
        (of("encoder_l1_self_Wq", shape=(1,) * 9), "9 dimensions"),
        (
            of("encoder_l1_self_Wq", data=bytes(1024) + struct.pack("<f", math.nan)),
            "the multiplier nan",
        ),
        (of("none_QuantMultA", data=struct.pack("<f", -1)), "none_QuantMultA is -1"),
        (of("encoder_l1_self_bq", data=struct.pack("<32f", *[math.inf] * 32)), "not a number"),
        (
            of("encoder_l1_self_Wq", kind=0x0404, data=np.ones(1024, "<f4").tobytes()),
            "has int8 matrices, but encoder.0.attention.query is none",
        ),
    ],
)
def test_what_differs_from_firefox_is_refused_by_name(
    copied: Path, change: Callable[[list[Stored]], list[Stored]], complaint: str
) -> None:
    rewrite(copied, change)
    with pytest.raises((UnsupportedCheckpoint, NotACheckpoint), match=complaint):
        read_model(copied)


MODEL, LEX = "model.deen.intgemm.alphas.bin", "lex.50.50.deen.s2t.bin"


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        (MODEL, b"", "no model of Marian, or damaged"),
        (MODEL, struct.pack("<QQ", 2, 0), "version 2 of Marian's binary format"),
        (MODEL, struct.pack("<QQ", 1, 1 << 60), "arrays; 10000 are allowed"),
        (MODEL, struct.pack("<6Q", 1, 1, 1 << 62, 0, 0, 0), "a name of"),
        (MODEL, struct.pack("<6Q", 1, 1, 4, 0, 0, 0) + b"a\0b\0", "its only NUL"),
        (MODEL, struct.pack("<6Q", 1, 1, 2, 0, 0, 1 << 63) + b"a\0" + bytes(8), "ends within a"),
        (MODEL, struct.pack("<2Q", 1, 0) + struct.pack("<Q", 1 << 63), "of padding"),
        (MODEL, struct.pack("<3Q", 1, 0, 0) + b"x", "1 bytes behind its last array"),
        (f"{MODEL}.gz", b"\x1f\x8b", "is damaged"),
        (f"{MODEL}.zst", b"(\xb5/\xfd", "is damaged|no model"),
        (f"{MODEL}.gz", gzip.compress(bytes(2 << 20)), "has more than 1048576 bytes"),
        (f"{MODEL}.zst", zstd.compress(bytes(2 << 20)), "has more than 1048576 bytes"),
        (LEX, b"", "is no shortlist"),
        (LEX, struct.pack("<6Q", 1, 0, 0, 0, 0, 0), "begins with 0x1"),
        (LEX, struct.pack("<6Q", 0xF11A48D5013417F5, 0, 0, 0, 1 << 61, 0), "offsets and 0 ids"),
        (LEX, struct.pack("<7Q", 0xF11A48D5013417F5, 0, 1 << 40, 0, 1, 0, 0), "other vocab"),
        (LEX, struct.pack("<8Q", 0xF11A48D5013417F5, 0, 0, 0, 2, 0, 1, 0), "other vocab"),
    ],
)
def test_damaged_and_hostile_files_are_named(
    copied: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, complaint: str
) -> None:
    monkeypatch.setattr(marian_binary, "LARGEST", 1 << 20)
    if name.startswith(MODEL):
        (copied / MODEL).unlink()
    (copied / name).write_bytes(content)
    with pytest.raises(NotACheckpoint, match=complaint):
        read_model(copied)


@settings(max_examples=60)
@given(place=st.integers(0, 1 << 20), value=st.integers(0, 255), cut=st.booleans())
def test_changed_bytes_give_a_model_or_a_refusal(
    written: Written, tmp_path_factory: pytest.TempPathFactory, place: int, value: int, cut: bool
) -> None:
    directory = tmp_path_factory.mktemp("changed") / "model"
    shutil.copytree(written.model.parent, directory)
    content = bytearray(written.model.read_bytes())
    place %= min(len(content), 12_000)
    content[place] = value
    (directory / MODEL).write_bytes(content[:place] if cut else content)
    try:
        read_model(directory)
    except ImportRefused as refusal:
        assert str(directory) in str(refusal)


def test_several_models_or_shortlists_are_refused(copied: Path) -> None:
    shutil.copy(copied / LEX, copied / "lex.50.50.ende.s2t.bin")
    with pytest.raises(NotACheckpoint, match="several shortlists"):
        read_model(copied)
    shutil.copy(copied / MODEL, copied / "model.ende.intgemm.alphas.bin")
    with pytest.raises(NotACheckpoint, match="several models"):
        read_model(copied)
    assert is_marian(copied / MODEL) and not is_marian(copied / "vocab.deen.spm")


def greedy(decoder: GraphDecoder, source_ids: tuple[int, ...], limit: int) -> Iterator[int]:
    decoder.start(source_ids)
    token = SPECIAL_IDS.bos
    for _ in range(limit):
        ids_1N, _ = decoder.extend([0], [token], 3)
        token = next(i for i in ids_1N[0].tolist() if i not in (SPECIAL_IDS.pad, SPECIAL_IDS.bos))
        if token == SPECIAL_IDS.eos:
            return
        yield token


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "base-memory", "base"])
@pytest.mark.parametrize("shared", [True, False])
def test_int8_translations_are_those_of_firefox_engine(
    tmp_path: Path, name: str, shared: bool
) -> None:
    fxtranslate = pytest.importorskip("fxtranslate")
    sizes = replace(SIZES[name], pieces=200)
    original = write_firefox(tmp_path / "model", sizes, shared=shared)
    imported = read_model(tmp_path / "model")
    bundle, _ = import_model(tmp_path / "model", tmp_path / "bundles", name="firefox")
    tokenizers = bundle.tokenizers()
    decoder = GraphDecoder(bundle.path, bundle.manifest.dimensions, "int8")
    files = (original.model, *original.vocabularies)
    theirs = fxtranslate.Translator(*(file.read_bytes() for file in files))
    sentences, equal = original.sentences(40, seed=7), 0
    for sentence in sentences:
        source_ids = (*tokenizers.source.encode(sentence), SPECIAL_IDS.eos)
        # Firefox's engine ends there.
        limit = 2 * len(source_ids) + 4
        ours = tokenizers.target.decode(list(greedy(decoder, source_ids, limit)))
        equal += ours == theirs.translate(sentence)
    # Near ties are decided by the order of sums.
    assert equal >= 38
    assert imported.network.config.recurrent
