from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.manifest import InvalidBundle
from models.bundle.tokenizer import (
    REQUIRED_CHARACTERS,
    SPECIAL_IDS,
    Kind,
    Span,
    Tokenizer,
    train_tokenizer,
)

WORDS = ["Hund", "Katze", "läuft", "über", "die", "Wiese", "Mann", "Frau", "spielt", "mit", "und"]
SIZES: dict[Kind, int] = {"unigram": 35, "bpe": 60, "word": len(WORDS) + 4}


def sentences() -> list[str]:
    rng = random.Random(1)
    return [" ".join(rng.choices(WORDS, k=8)) for _ in range(300)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    return train_tokenizer(sentences(), path, vocabulary_size=SIZES["unigram"])


@pytest.mark.parametrize("kind", SIZES)
def test_training_text_round_trips_and_gives_the_same_file_in_silence(
    tmp_path: Path, kind: Kind, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "other"):
        path = tmp_path / name
        train_tokenizer(sentences(), path, vocabulary_size=SIZES[kind], kind=kind)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    made = Tokenizer.load(tmp_path / "one")
    assert made.vocabulary_size == SIZES[kind]
    for sentence in sentences():
        assert made.decode(made.encode(sentence)) == sentence
    assert capfd.readouterr() == ("", "")


def test_special_tokens_are_neither_encoded_nor_decoded(tokenizer: Tokenizer) -> None:
    special = {SPECIAL_IDS.bos, SPECIAL_IDS.eos, SPECIAL_IDS.pad}
    for text in ("Hund und Katze", "</s>", "<s>", "<pad>"):
        assert not special & set(tokenizer.encode(text))
    assert tokenizer.encode("") == tokenizer.encode(" \n\t ") == ()
    ids = (SPECIAL_IDS.bos, *tokenizer.encode("Hund"), SPECIAL_IDS.eos, SPECIAL_IDS.pad)
    assert tokenizer.decode(ids) == "Hund"
    assert tokenizer.decode(()) == ""


@pytest.mark.parametrize("kind", SIZES)
def test_tag_is_never_encoded_and_dropped_in_decoding(tmp_path: Path, kind: Kind) -> None:
    tags = ["<2de>", "<2en>"]
    size = SIZES[kind] + len(tags)
    made = train_tokenizer(
        sentences(), tmp_path / "t.model", vocabulary_size=size, kind=kind, control_symbols=tags
    )
    assert made.vocabulary_size == size
    ids = [made.id_of(tag) for tag in tags]
    assert made.pieces(ids) == tuple(tags)
    assert not set(ids) & set(made.encode("die <2de> Katze <2en>"))
    words = made.encode("die Katze")
    assert made.decode((ids[0], *words)) == made.decode(words) == "die Katze"


def test_id_of_returns_the_id_or_raises_for_an_unknown_piece(tokenizer: Tokenizer) -> None:
    for token_id in range(tokenizer.vocabulary_size):
        assert tokenizer.id_of(*tokenizer.pieces([token_id])) == token_id
    with pytest.raises(ValueError, match="the vocabulary has no piece '<2de>'"):
        tokenizer.id_of("<2de>")


def test_pieces_are_the_tokens_as_text_and_unknown_characters_marks(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(tokenizer.encode("Hund und Katze"))
    assert "".join(pieces).replace("▁", " ").strip() == "Hund und Katze"
    assert tokenizer.pieces((SPECIAL_IDS.eos,)) == ("</s>",)
    ids = tokenizer.encode("Hund 日")
    assert SPECIAL_IDS.unk in ids
    assert "⁇" in tokenizer.decode(ids)


def cut(text: str, spans: tuple[Span, ...]) -> list[str]:
    return [text[start:end] for start, end in spans]


# The last is one character, and two when it is written out.
@pytest.mark.parametrize("text", ["Hund  und Katze", "Hund \u3327 und"])
def test_spans_give_each_tokens_characters_in_the_source(tokenizer: Tokenizer, text: str) -> None:
    spans = tokenizer.spans(text)
    assert len(spans) == len(tokenizer.encode(text))
    assert "".join(cut(text, spans)) == text
    assert cut("①und 日", tokenizer.spans("①und 日"))[-1] == "日"


@given(text=st.text())
def test_spans_of_any_text_are_in_order_and_one_for_each_token(
    tokenizer: Tokenizer, text: str
) -> None:
    # Any text that a client may send, lone surrogates included.
    for each in (text, text + "\ud800 ü"):
        spans = tokenizer.spans(each)
        assert len(spans) == len(tokenizer.encode(each))
        assert all(0 <= start <= end <= len(each) for start, end in spans)
        assert list(spans) == sorted(spans)
    ids = (*tokenizer.encode(text), SPECIAL_IDS.eos)
    assert all(0 <= token_id < tokenizer.vocabulary_size for token_id in ids)
    decoded, found = tokenizer.decode(ids), tokenizer.decoded_spans(ids)
    assert len(found) == len(ids)
    assert "".join(cut(decoded, found)) == decoded
    assert found[-1] == (len(decoded), len(decoded))


def test_word_vocabulary_may_be_smaller_than_requested(tmp_path: Path) -> None:
    # A long sentence is not skipped.
    texts, path = ["1 2 X", "X 3", " ".join(["1"] * 5_000 + ["z"])], tmp_path / "tokenizer.model"
    made = train_tokenizer(texts, path, vocabulary_size=100, kind="word")
    assert made.vocabulary_size == 9
    assert made.decode(made.encode("3 X z")) == "3 X z"
    assert made.encode("unheard") == (SPECIAL_IDS.unk,)


@pytest.mark.parametrize("texts", [sentences(), []])
def test_texts_that_cannot_fill_the_vocabulary_are_named(tmp_path: Path, texts: list[str]) -> None:
    with pytest.raises(ValueError, match="no unigram tokenizer of 8000 pieces"):
        train_tokenizer(texts, tmp_path / "tokenizer.model", vocabulary_size=8_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"", b"junk", b"\0" * 50])
def test_a_corrupt_or_missing_file_is_an_invalid_bundle(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(InvalidBundle, match=r"tokenizer\.model"):
        Tokenizer.load(tmp_path / "tokenizer.model")


@pytest.fixture(scope="module")
def lossless(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("lossless") / "tokenizer.model"
    texts = [f"{text} {number}" for number, text in enumerate(sentences())]
    return train_tokenizer(texts, path, vocabulary_size=600, lossless=True)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581")))
def test_lossless_tokenizer_returns_any_unicode_text_and_never_unk(
    lossless: Tokenizer, text: str
) -> None:
    ids = lossless.encode(text)
    assert lossless.decode(ids) == text
    assert SPECIAL_IDS.unk not in ids


def test_lossless_tokenizer_has_pieces_of_digits_and_required_characters(
    lossless: Tokenizer,
) -> None:
    pieces = lossless.pieces(lossless.encode("2026"))
    assert [piece for piece in pieces if piece != "▁"] == list("2026")
    for character in REQUIRED_CHARACTERS:
        assert lossless.pieces([lossless.id_of(character)]) == (character,)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("Hund und Katze", []),
        ("(Hund)", ["(", ")"]),
        ("Hund § Katze", ["§"]),
        ("§§ \u4f60\u597d", ["§§", "\u4f60\u597d"]),
        ("\uff05", ["\uff05"]),
        # Normalisation splits this one.
        ("\u2026", ["..."]),
        ("", []),
    ],
)
def test_unknown_tokens_have_their_characters_of_the_text(
    tokenizer: Tokenizer, text: str, unknown: list[str]
) -> None:
    found = tokenizer.unknown(text)
    assert [token.text for token in found] == unknown
    assert all(tokenizer.encode(text)[token.index] == SPECIAL_IDS.unk for token in found)
    assert [token.span for token in found] == [
        tokenizer.spans(text)[token.index] for token in found
    ]


def test_unknown_word_begins_with_its_blank(tmp_path: Path) -> None:
    made = train_tokenizer(
        sentences(), tmp_path / "tokenizer.model", vocabulary_size=SIZES["word"], kind="word"
    )
    assert [token.text for token in made.unknown("Hund Maus")] == [" Maus"]
