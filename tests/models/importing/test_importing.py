"""Tests of ``dragoman models add``: from a checkpoint directory to a bundle and a server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import MarianMTModel, MarianTokenizer

from models.bundle.bundle import SHORTLIST, Bundle
from models.bundle.manifest import Direction
from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer
from models.export.calibration import Ranges, calibrate
from models.importing.importing import import_model, read_checkpoint
from models.importing.model import Imported
from models.importing.refusals import (
    NeedsTexts,
    NotACheckpoint,
    UnknownLanguages,
    UnsupportedCheckpoint,
)
from models.importing.texts import GENERATED, generated, texts_by_direction
from models.importing.vocabulary import parse
from models.reference.decoding import greedy_all
from service.cli import main
from tests.support.checkpoints import LONGEST, sentences, write_m2m100, write_marian
from tests.support.programs import python
from tests.support.server import running

ADD = ("models", "add")
TAGS = (">>fra<<", ">>pt_BR<<", ">>xx_Deva1<<")


@pytest.fixture(scope="module")
def m2m100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("m2m100") / "m2m"
    write_m2m100(directory, encoder_layers=1, decoder_layers=1)
    return directory


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "sentences.de"
    path.write_text("\n".join([*sentences("source", 12, seed=9), "", "der " * 200]))
    return path


def rewritten(directory: Path, file: str, **changes: Any) -> None:
    path = directory / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_published_bundle_matches_the_checkpoint_and_its_card(
    small_marian: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*ADD, str(small_marian), "--bundles", str(tmp_path), "--calibrate", str(text)]
    assert main([*arguments, "--precisions", "int8", "fp32"]) == 0
    assert "published" in capsys.readouterr().out
    bundle = Bundle.open(tmp_path / "opus-mt_de-en")
    manifest = bundle.manifest
    assert [(d.source, d.target, d.source_prefix) for d in manifest.directions] == [
        ("de", "en", ())
    ]
    assert manifest.precisions == ("int8", "fp32", "fp16")
    assert (manifest.decoding.beam_size, manifest.decoding.length_penalty) == (4, 1.0)
    assert manifest.limits.source_length == manifest.limits.target_length == LONGEST
    assert SHORTLIST not in manifest.files
    assert {"source.model", "target.model"} <= manifest.files.keys()
    assert all(example.source in text.read_text() for example in manifest.examples)
    card = (bundle.path / "README.md").read_text()
    assert "MarianMTModel" in card and "`cc-by-4.0`" in card


def test_without_texts_int8_is_calibrated_on_generated_sentences(
    m2m100: Path, tmp_path: Path
) -> None:
    bundle, proof = import_model(m2m100, tmp_path, sources=["de", "en"], targets=["de", "en"])
    assert bundle.manifest.precisions == ("int8", "fp16")
    assert bundle.manifest.examples == ()
    assert proof.sentences and proof.bleu == {} and proof.differing["fp32"] == 0
    assert bundle.manifest.files.keys() == {
        "tokenizer.model",
        "README.md",
        "weights.int8.bin",
        "resident.fp16.onnx",
        *(
            f"{graph}.{precision}.onnx"
            for graph in ("encoder", "step", "attention")
            for precision in ("int8", "fp16")
        ),
    }
    assert "without a licence" in (bundle.path / "README.md").read_text()


def source_tokenizer(imported: Imported, directory: Path) -> Tokenizer:
    path = directory / "source.model"
    path.write_bytes(imported.source_model)
    return Tokenizer.load(path)


def test_ranges_of_generated_sentences_are_close_to_those_of_real_ones(tmp_path: Path) -> None:
    write_marian(tmp_path / "checkpoint", taught=True)
    imported = read_checkpoint(tmp_path / "checkpoint")
    tokenizer = source_tokenizer(imported, tmp_path)

    def ranges(texts: list[str]) -> Ranges:
        sources = [[*tokenizer.encode(text), SPECIAL_IDS.eos] for text in texts]
        found = greedy_all(imported.network, sources, SPECIAL_IDS)
        pairs = [(sources[i], (SPECIAL_IDS.bos, *target)[:LONGEST]) for i, target in found]
        return calibrate(imported.network, pairs)

    model = parse(imported.source_model, "source.spm")
    (texts,) = generated(model, tokenizer, 1, GENERATED, 8)
    assert all(len(tokenizer.encode(text)) <= 8 for text in texts)
    assert generated(model, tokenizer, 1, GENERATED, 8) == [texts]
    of_generated, of_real = ranges(texts), ranges(sentences("source", GENERATED))
    ratios = [np.ptp(of_generated[name]) / np.ptp(of_real[name]) for name in of_real]
    assert 0.8 < float(np.median(ratios)) < 1.5


def test_no_sentence_is_generated_without_pieces_or_positions(
    small_marian: Path, tmp_path: Path
) -> None:
    imported = read_checkpoint(small_marian)
    tokenizer = source_tokenizer(imported, tmp_path)
    model = parse(imported.source_model, "source.spm")
    (tmp_path / "one.de").write_text(sentences("source", 1, seed=9)[0])
    # One line of text is too little for int8.
    with pytest.raises(NeedsTexts, match="1 are too few"):
        import_model(small_marian, tmp_path, texts=[(None, tmp_path / "one.de")])
    with pytest.raises(UnsupportedCheckpoint, match="positions for 0 of them"):
        generated(model, tokenizer, 1, 1, -1)
    del model.pieces[4:]
    with pytest.raises(UnsupportedCheckpoint, match="has 0 pieces of text"):
        generated(model, tokenizer, 1, 1, 8)


def test_every_target_that_a_tag_names_is_a_direction(tmp_path: Path, text: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    write_marian(checkpoint, tags=TAGS, encoder_layers=1, decoder_layers=1)
    bundle, _ = import_model(checkpoint, tmp_path, name="many", texts=[(None, text)])
    tokenizer = bundle.tokenizers().source
    assert [(d.source, d.target, d.source_prefix) for d in bundle.manifest.directions] == [
        ("de", "fr", (tokenizer.id_of(">>fra<<"),)),
        ("de", "pt-BR", (tokenizer.id_of(">>pt_BR<<"),)),
    ]
    # Text cannot contain a tag.
    assert tokenizer.id_of(">>fra<<") not in tokenizer.encode("der >>fra<< hund")
    assert {example.direction for example in bundle.manifest.examples} <= {0, 1}
    with pytest.raises(UnknownLanguages, match="es is not a target language"):
        import_model(checkpoint, tmp_path, name="many", targets=["es"])


def test_several_files_of_a_language_are_concatenated(tmp_path: Path) -> None:
    class Letters:
        def encode(self, text: str) -> list[int]:
            return list(map(ord, text))

    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}1\n{name}2\n", encoding="utf-8")
    (found,) = texts_by_direction(
        [(None, tmp_path / "a"), ("de", tmp_path / "b")],
        [Direction(source="de", target="en")],
        cast(Tokenizer, Letters()),
        9,
    )
    assert found == ["a1", "a2", "b1", "b2"]
    with pytest.raises(UnknownLanguages, match="'xx' is not the code of a known language"):
        texts_by_direction([("xx", tmp_path / "a")], [], cast(Tokenizer, Letters()), 9)


def test_texts_need_a_known_language(m2m100: Path, text: Path, tmp_path: Path) -> None:
    both = {"sources": ["de", "en"], "targets": ["de", "en"]}
    for language, named in ((None, "any of de, en"), ("fr", "is of fr")):
        with pytest.raises(UnknownLanguages, match=named):
            import_model(m2m100, tmp_path, texts=[(language, text)], **both)  # type: ignore[arg-type]
    arguments = [*ADD, str(m2m100), "--bundles", str(tmp_path), "--languages", "de", "en"]
    assert main([*arguments, "--calibrate", f"deu_Latn={text}"]) == 0
    manifest = Bundle.open(tmp_path / "m2m").manifest
    assert manifest.precisions == ("int8", "fp16")
    assert {example.direction for example in manifest.examples} <= {0}


@pytest.fixture
def changed(small_marian: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint, to be changed."""
    return Path(shutil.copytree(small_marian, tmp_path / "changed"))


def with_byte_fallback(directory: Path) -> None:
    model = parse((directory / "source.spm").read_bytes(), "source.spm")
    model.trainer_spec.byte_fallback = True
    (directory / "source.spm").write_bytes(model.SerializeToString())


def configured(**changes: Any) -> Callable[[Path], None]:
    return lambda directory: rewritten(directory, "config.json", **changes)


def generating(**changes: Any) -> Callable[[Path], None]:
    return lambda directory: rewritten(directory, "generation_config.json", **changes)


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (configured(model_type="bart"), "type 'bart'; marian, m2m_100 can be imported"),
        (configured(activation_function="tanh"), "activation 'tanh' is none of relu"),
        (configured(decoder_attention_heads=2), "encoder_attention_heads 4 and .* 2 differ"),
        (configured(decoder_ffn_dim=8), "encoder_ffn_dim 64 and decoder_ffn_dim 8 differ"),
        (configured(encoder_attention_heads=5, decoder_attention_heads=5), "multiple of 5 heads"),
        (configured(d_model=None), "d_model None, which is not a number"),
        (configured(d_model=16), r"implies \["),
        (configured(d_model=0), "width 0 is not a multiple"),
        (configured(share_encoder_decoder_embeddings=False, decoder_vocab_size="a"), "not a numb"),
        (configured(encoder_layers=2), r"has no tensor model\.encoder\.layers\.1"),
        (configured(decoder_layers=0), "no supported network has|at least"),
        (configured(encoder_layers=10**6), "it has 1000000 layers"),
        (configured(decoder_layers=10**12), "decoder_layers 1000000000000; at most 2000000"),
        (configured(max_position_embeddings=10**6, d_model=10**6), "1000000 positions of width"),
        (configured(vocab_size=10**9, decoder_vocab_size=10**9), "vocab_size 1000000000; at most"),
        (configured(vocab_size=7), "the configuration says that it has 7 ids"),
        (configured(eos_token_id=5), "calls .* 5 eos"),
        (lambda d: (d / "target.spm").unlink(), r"has no target\.spm"),
        (lambda d: (d / "vocab.json").unlink(), r"has no vocab\.json"),
        (lambda d: (d / "vocab.json").write_text('{"a": 0}'), "has no <pad>"),
        (generating(bad_words_ids=[[1, 2]]), "forbids sequences"),
        (generating(bad_words_ids=5), "forbids sequences"),
        (generating(num_beams=0), "configuration has beam_size: Input should be greater"),
        (lambda d: rewritten(d, "vocab.json", **{"\ud800": 9}), "surrogates not allowed"),
        (with_byte_fallback, r"SentencePiece refuses .* 256 byte pieces"),
        (generating(num_beams=10**9), "less than or equal to 64"),
        (generating(length_penalty=float("nan")), "finite number"),
        (
            lambda d: rewritten(d, "tokenizer_config.json", separate_vocabs=True),
            "two vocabularies and its network one",
        ),
    ],
)
def test_unsupported_or_inconsistent_checkpoint_is_refused_by_name(
    changed: Path, tmp_path: Path, break_it: Callable[[Path], object], complaint: str
) -> None:
    break_it(changed)
    with pytest.raises((UnsupportedCheckpoint, NotACheckpoint), match=complaint):
        import_model(changed, tmp_path / "bundles", sources=["de"], targets=["en"])


def test_refusal_is_one_line_on_the_command_line(
    tmp_path: Path, small_marian: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ADD, str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.startswith("dragoman: ")
    assert main([*ADD, str(small_marian), "--name", "Über"]) == 2
    assert "a bundle cannot be called 'Über'" in capsys.readouterr().err
    assert main([*ADD, str(small_marian), "--languages", "de", "--to", "en"]) == 2


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("size", [3.4e38, 1e20])
def test_network_that_overflows_is_refused_in_one_line(
    size: float, precision: str, changed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed / "model.safetensors"
    tensors = load_file(path)
    tensors = {name: np.full_like(tensor, size) for name, tensor in tensors.items()}
    save_file(tensors, path, metadata={"format": "pt"})
    bundles = tmp_path / "bundles"
    command = [*ADD, str(changed), "--bundles", str(bundles), "--name", "large"]
    assert main([*command, "--precisions", precision]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"dragoman: {changed}: the network computes ")
    assert not (bundles / "large").exists()


def test_options_that_a_bundle_cannot_express_are_on_its_card(changed: Path) -> None:
    generating(early_stopping=False, no_repeat_ngram_size=3)(changed)
    unmapped = read_checkpoint(changed).unmapped
    assert unmapped == ("no_repeat_ngram_size 3", "early_stopping False")


@pytest.mark.slow
def test_server_translates_as_transformers_does(tmp_path: Path) -> None:
    checkpoint = tmp_path / "opus"
    write_marian(checkpoint, taught=True)
    arguments = [*ADD, str(checkpoint), "--bundles", str(tmp_path / "bundles")]
    assert main([*arguments, "--precisions", "fp32"]) == 0
    reference = MarianMTModel.from_pretrained(checkpoint).eval()
    tokenizer = MarianTokenizer.from_pretrained(checkpoint)
    texts = sentences("source", 12, seed=11)
    with torch.inference_mode(), running(tmp_path / "bundles", "--real") as server:
        for text in texts:
            ids = tokenizer(text, return_tensors="pt")
            longest = 3 * ids.input_ids.size(1) + 20
            written = reference.generate(**ids, max_length=longest + 1, forced_eos_token_id=None)
            expected = tokenizer.decode(written[0], skip_special_tokens=True)
            answer = httpx.post(
                f"{server.address}/translate",
                # By default, the service forbids ending at once, and renormalises.
                json={"q": text, "source": "de", "target": "en", "min_decoding_length": 0},
            )
            assert answer.json()["translatedText"] == expected


PROGRAM = """
import sys

for absent in ("torch", "transformers", "training"):
    sys.modules[absent] = None  # an import of it raises ModuleNotFoundError
from service.cli import main

sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["pickled MarianMT in int8", "M2M100"])
def test_models_are_imported_where_torch_cannot_be_imported(tmp_path: Path, kind: str) -> None:
    arguments = ["models", "add", str(tmp_path / "model"), "--bundles", str(tmp_path / "bundles")]
    if kind == "M2M100":
        write_m2m100(tmp_path / "model", encoder_layers=1, decoder_layers=1)
        arguments += ["--languages", "de", "en", "--precisions", "fp32", "fp16"]
    else:
        write_marian(tmp_path / "model", safe=False, encoder_layers=1, decoder_layers=1)
        (tmp_path / "text").write_text("\n".join(sentences("source", 12)), encoding="utf-8")
        arguments += ["--calibrate", str(tmp_path / "text")]
    assert "published" in python("-c", PROGRAM, *arguments)
    manifest = Bundle.open(tmp_path / "bundles" / "model").manifest
    expected = ("fp32", "fp16") if kind == "M2M100" else ("int8", "fp16")
    assert manifest.precisions == expected
