"""Tests of importing CTranslate2 models; CTranslate2 itself is the oracle."""

from __future__ import annotations

import json
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sentencepiece
from ctranslate2.specs import common_spec
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.argos import is_argos, read_argos
from models.importing.ctranslate2 import read_ctranslate2
from models.importing.ctranslate2_file import ModelFile
from models.importing.importing import import_model, read_model
from models.importing.refusals import (
    ImportRefused,
    NotACheckpoint,
    UnknownLanguages,
    UnsupportedCheckpoint,
)
from service.engine.scheduler import Scheduler, Sequence
from service.engine.types import DecodingOptions
from service.runtime.onnx import OnnxBackend
from tests.engine.batch_runner import decode_arriving
from tests.support.checkpoints import sentences, train_spm
from tests.support.ctranslate2_models import WIDTH, hypotheses, random_spec, saved

FOREIGN = Path(__file__).parents[4] / "shared" / "data" / "ctranslate2-models"
"""Models that CTranslate2 is tested with."""
needs_foreign = pytest.mark.skipif(not FOREIGN.is_dir(), reason="the models are not here")


def opened(directory: Path) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(directory), compute_type="float32", inter_threads=1, intra_threads=1
    )


@needs_foreign
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        pytest.param("aren-transliteration", 1000, marks=pytest.mark.slow),
        ("aren-transliteration-i8", 50),
        ("aren-transliteration-i16", 50),
    ],
)
def test_engine_gives_the_n_best_lists_of_ctranslate2(
    tmp_path: Path, model: str, inputs: int
) -> None:
    bundle, _ = import_model(
        FOREIGN / model, tmp_path, sources=["ar"], targets=["en"], precisions=["fp32"]
    )
    (direction,) = bundle.manifest.directions
    assert not direction.source_eos
    tokenizers = bundle.tokenizers()
    tokens = (FOREIGN / model / "source_vocabulary.txt").read_text(encoding="utf-8").split("\n")
    characters = [token for token in tokens if len(token) == 1]
    rng = random.Random(1)
    texts = ["".join(rng.choices(characters, k=rng.randint(1, 12))) for _ in range(inputs)]
    translator = opened(FOREIGN / model)
    backend = OnnxBackend.load(bundle, "fp32", slots=64, rows_per_slot=4, threads=1)
    for beam_size in (1, 4):
        expected = translator.translate_batch(
            list(map(list, texts)),
            beam_size=beam_size,
            num_hypotheses=beam_size,
            return_scores=True,
            max_decoding_length=60,
        )
        options = DecodingOptions(
            beam_size=beam_size, num_hypotheses=beam_size, max_decoding_length=60
        )
        arriving = [
            Sequence(
                i, direction.source_ids(tokenizers.source.encode(text), SPECIAL_IDS.eos), options
            )
            for i, text in enumerate(texts)
        ]
        scheduler = Scheduler(backend.limits, SPECIAL_IDS)
        found = decode_arriving(backend, scheduler, arriving, random.Random(0))
        for i, result in enumerate(expected):
            ours = found[i].hypotheses
            pieces = [list(tokenizers.target.pieces(each.token_ids)) for each in ours]
            assert pieces == result.hypotheses, texts[i]
            assert [each.score for each in ours] == pytest.approx(result.scores, abs=1e-4)


OPTIONS: dict[str, dict[str, Any]] = {
    "as OpenNMT-py": {"pre_norm": True},
    "as fairseq": {"decoder_start_token": "</s>", "add_source_eos": True},
    "as Marian": {
        "start_from_zero_embedding": True,
        "add_source_eos": True,
        "activation": common_spec.Activation.SWISH,
    },
    "computed sinusoids, gelu": {"positions": False, "activation": common_spec.Activation.GELU},
    "decoder tied": {"tying": "decoder"},
    "nothing tied, no biases": {"tying": "none", "biases": False},
    "not scaled": {"scale": False},
    "factor": {"scale": float(WIDTH) ** 0.5},
    "deep encoder": {"layers": (3, 1)},
    "int8": {"quantization": "int8"},
    "int16": {"quantization": "int16", "tying": "none"},
    "fp16": {"quantization": "float16"},
    "bf16": {"quantization": "bfloat16"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_converters_gives_the_translations_of_ctranslate2(
    tmp_path: Path, name: str
) -> None:
    directory = saved(tmp_path / "model", **OPTIONS[name])
    imported = read_ctranslate2(directory)
    model = sentencepiece.SentencePieceProcessor(model_file=str(directory / "sentencepiece.model"))
    texts = [*sentences("source", 6, seed=5), "der xyz hund"]
    # A marker that CTranslate2 does not add and the bundle does is given by the caller.
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    end = ["</s>"] if imported.source_eos and not config["add_source_eos"] else []
    expected = opened(directory).translate_batch(
        [[*model.encode(text, out_type=str), *end] for text in texts],
        beam_size=4,
        return_scores=True,
        min_decoding_length=0,
        max_decoding_length=30,
    )
    for (pieces, score), result in zip(hypotheses(imported, texts, 4), expected, strict=True):
        if len(result.hypotheses[0]) < 30:
            assert pieces == result.hypotheses[0]
            assert score == pytest.approx(result.scores[0], abs=2e-3)


def test_tokens_of_languages_become_directions(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    pieces = train_spm(sentences("source", 100), directory / "sentencepiece.model", 60)
    spec = random_spec([*pieces, "__de__", "__en__"], decoder_start_token="</s>")
    spec.validate()
    spec.save(str(directory))
    imported = read_ctranslate2(directory)
    (direction,) = imported.languages.directions(["de"], ["en"])
    names = sentencepiece.SentencePieceProcessor(model_proto=imported.source_model)
    assert list(map(names.id_to_piece, direction.source_prefix)) == ["__de__"]
    assert list(map(names.id_to_piece, direction.target_prefix)) == ["__en__"]
    assert imported.source_eos


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"activation": common_spec.Activation.Tanh}, "the activation 5; relu, silu, gelu"),
        ({"scale": 3.0}, "multiplies embeddings by 3; √W and 1"),
        ({"decoder_start_token": None}, "no start token"),
        ({"add_source_bos": True}, "begins with bos"),
        ({"alibi": True}, "has alibi"),
        ({"eos_token": "</end>"}, "has no </end>"),
    ],
)
def test_unsupported_networks_are_refused_by_name(
    tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises((UnsupportedCheckpoint, NotACheckpoint), match=complaint):
        read_ctranslate2(saved(tmp_path / "model", **options))


@pytest.mark.parametrize(
    ("name", "content", "version", "complaint"),
    [
        ("encoder/layer_0/self_attention/relative_position_keys", b"\0", 6, ".*relative_pos"),
        ("encoder/layer_" + "9" * 5000 + "/x", b"\0", 6, "encoder/layer_999"),
        ("bos_token", b"\xff", 5, "bos_token is not a text"),
    ],
)
def test_foreign_variables_are_refused_by_name(
    tmp_path: Path, name: str, content: bytes, version: int, complaint: str
) -> None:
    directory = saved(tmp_path / "model")
    path = directory / "model.bin"
    before, file = path.read_bytes(), ModelFile(path)
    variable = struct.pack(f"<H{len(name) + 1}s", len(name) + 1, name.encode())
    variable += struct.pack("<BIBI", 1, len(content), 1, len(content)) + content
    # The number of variables stands after the version, the specification and its revision.
    at = 4 + 2 + len(file.specification) + 1 + 4
    (count,) = struct.unpack_from("<I", before, at)
    start = struct.pack("<I", version) + before[4:at] + struct.pack("<I", count + 1)
    path.write_bytes(start + variable + before[at + 4 :])
    with pytest.raises((NotACheckpoint, UnsupportedCheckpoint), match=complaint):
        read_ctranslate2(directory)


def test_negative_number_of_heads_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "model") / "model.bin"
    content, file = bytearray(path.read_bytes()), ModelFile(path)
    for side in ("encoder", "decoder"):
        # The number is the last of the variable: its name, no dimensions, type and length.
        name = f"{side}/num_heads\0".encode()
        at = content.index(name) + len(name) + struct.calcsize("<BBI")
        struct.pack_into("<h", content, at, -int(file.number(f"{side}/num_heads") or 0))
    path.write_bytes(bytes(content))
    with pytest.raises(UnsupportedCheckpoint, match="not a multiple of -4 heads"):
        read_ctranslate2(path.parent)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("whole") / "model", quantization="int8")


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda d: (d / "model.bin").write_bytes(b"\x07\0\0\0"), "of version 7; versions 2 to 6"),
        (lambda d: (d / "shared_vocabulary.json").unlink(), "no vocabulary of its source"),
        (lambda d: (d / "shared_vocabulary.json").write_text("{}"), "not a list of tokens"),
        (lambda d: (d / "shared_vocabulary.json").write_text('["</s>"]' * 2), "read as JSON"),
        (lambda d: (d / "sentencepiece.model").write_bytes(b"\xff"), "not a SentencePiece model"),
        (lambda d: (d / "sentencepiece.model").unlink(), "put the model beside the vocabulary"),
        (lambda d: (d / "config.json").write_text("[]"), "holds no JSON object"),
        (
            lambda d: (d / "config.json").write_text('{"quantization_type": 1}'),
            "has AWQ weights",
        ),
    ],
)
def test_missing_and_damaged_files_are_named(
    whole: Path, tmp_path: Path, break_it: Callable[[Path], object], complaint: str
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    for file in whole.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    break_it(directory)
    with pytest.raises((NotACheckpoint, UnsupportedCheckpoint), match=complaint):
        read_ctranslate2(directory)


def test_truncated_files_are_refused(whole: Path, tmp_path: Path) -> None:
    content = (whole / "model.bin").read_bytes()
    path = tmp_path / "model.bin"
    for length in range(0, len(content) - 1, len(content) // 50):
        path.write_bytes(content[:length])
        with pytest.raises(NotACheckpoint, match="damaged"):
            ModelFile(path)


def test_empty_variables_with_absurd_lengths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    variable = struct.pack("<H2sB4IBI", 2, b"a\0", 4, 0, *[(1 << 32) - 1] * 3, 0, 0)
    path.write_bytes(struct.pack("<IH2sII", 6, 2, b"S\0", 1, 1) + variable + struct.pack("<I", 0))
    with pytest.raises(NotACheckpoint, match=r"a has the shape \[0, 4294967295, .* and 0 bytes"):
        ModelFile(path)


@given(place=st.integers(0, 400), value=st.binary(min_size=1, max_size=4))
def test_changed_bytes_raise_nothing_but_refusals(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, place: int, value: bytes
) -> None:
    content = bytearray((whole / "model.bin").read_bytes())
    content[place : place + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "changed.bin"
    path.write_bytes(bytes(content))
    try:
        file = ModelFile(path)
        for name in file.names:
            file.floats(name)
    except ImportRefused:
        pass


METADATA = {
    "package_version": "1.9",
    "argos_version": "1.9.0",
    "from_code": "de",
    "from_name": "German",
    "to_code": "en",
    "to_name": "English",
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a package unpacks to."""
    directory = tmp_path_factory.mktemp("argos") / "translate-de_en-1_9"
    directory.mkdir()
    saved(directory / "model", pre_norm=True, quantization="int8")
    (directory / "model" / "sentencepiece.model").rename(directory / "sentencepiece.model")
    (directory / "metadata.json").write_text(json.dumps(METADATA), encoding="utf-8")
    (directory / "README.md").write_text("# German - English\n", encoding="utf-8")
    return directory


def packed(unpacked: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(unpacked.rglob("*")):
            archive.write(file, file.relative_to(unpacked.parent))
    return path


def test_package_and_its_directory_become_the_same_bundle(unpacked: Path, tmp_path: Path) -> None:
    package = packed(unpacked, tmp_path / "de_en.argosmodel")
    assert is_argos(unpacked) and not is_argos(unpacked / "model")
    bundle, _ = import_model(package, tmp_path / "bundles", precisions=["fp32"])
    assert bundle.path.name == "de_en"
    (direction,) = bundle.manifest.directions
    assert (direction.source, direction.target, direction.source_eos) == ("de", "en", False)
    assert (bundle.manifest.decoding.beam_size, bundle.manifest.decoding.length_penalty) == (4, 0.2)
    assert "Argos Translate" in (bundle.path / "README.md").read_text(encoding="utf-8")
    texts = sentences("source", 3)
    assert hypotheses(read_model(package), texts, 4) == hypotheses(read_argos(unpacked), texts, 4)


def test_target_prefix_is_forced(unpacked: Path, tmp_path: Path) -> None:
    def changed(prefix: str) -> Path:
        path = tmp_path / "translate"
        path.mkdir(exist_ok=True)
        for name in ("model", "sentencepiece.model"):
            if not (path / name).exists():
                (path / name).symlink_to(unpacked / name)
        document = json.dumps({**METADATA, "target_prefix": prefix})
        (path / "metadata.json").write_text(document, encoding="utf-8")
        return path

    imported = read_argos(changed("▁the"))
    (direction,) = imported.languages.directions([], [])
    assert len(direction.target_prefix) == 1
    with pytest.raises(UnsupportedCheckpoint, match="target_prefix '__xx__' is no token"):
        read_argos(changed("__xx__"))


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("[]", "holds no JSON object"),
        ('{"type": "sbd"}', "of type 'sbd'"),
        ("{}", "None"),
        # Moses tokenisation.
        (json.dumps(METADATA), r"subword-nmt \(bpe\.model\)"),
    ],
)
def test_foreign_packages_are_refused_by_name(
    unpacked: Path, tmp_path: Path, document: str, complaint: str
) -> None:
    (tmp_path / "metadata.json").write_text(document, encoding="utf-8")
    (tmp_path / "model").symlink_to(unpacked / "model")
    (tmp_path / "bpe.model").write_text("#version: 0.2\n")
    with pytest.raises((NotACheckpoint, UnsupportedCheckpoint, UnknownLanguages), match=complaint):
        read_argos(tmp_path)
