from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.vocabulary import Specials, Vocabulary, arrange, parse, rewrite
from tests.support.checkpoints import sentences, train_spm

SPECIALS = Specials(pad=3, unk=1, start=3, eos=0)

texts = st.lists(
    st.one_of(
        st.sampled_from([word for text in sentences("source", 30) for word in text.split()]),
        st.sampled_from(["<s>", "</s>", "<pad>", ">>fra<<", "▁", "ꙮ", "你好", "\u200b", "Straße"]),
        st.text(max_size=6),
    ),
    max_size=8,
).map(" ".join)


def is_tag(piece: str) -> bool:
    return piece.startswith(">>")


def processor(content: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=content)


class Rewritten:
    """A model, and its rewrite for a vocabulary with other, missing and tag pieces."""

    def __init__(self, directory: Path, kind: str) -> None:
        path = directory / "source.spm"
        pieces = train_spm(sentences("source", 200), path, 80, model_type=kind)
        foreign = train_spm(sentences("target", 200), directory / "target.spm", 70)
        if kind == "bpe":
            foreign = ["xyzzy", "qqq"]
        self.lacking = {pieces[20], pieces[33]}
        own = [p for p in [*pieces, *foreign] if p not in {"<s>", "</s>", "<unk>", *self.lacking}]
        names = ["</s>", "<unk>", ">>fra<<", "<pad>", *dict.fromkeys(own)]
        self.names = dict(enumerate(names))
        model = parse(path.read_bytes(), "source.spm")
        self.vocabulary: Vocabulary = arrange(
            self.names, len(names) + 1, SPECIALS, [model], is_tag, forbidden=[7]
        )
        self.original = processor(path.read_bytes())
        self.rewritten = processor(rewrite(model, self.vocabulary, "source.spm"))


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rewritten:
    return Rewritten(tmp_path_factory.mktemp("spm"), request.param)


@given(text=texts)
def test_segmentation_is_unchanged_and_every_id_is_a_row(both: Rewritten, text: str) -> None:
    pieces = both.original.encode(text, out_type=str)
    assert both.rewritten.encode(text, out_type=str) == pieces
    known = [both.original.piece_to_id(piece) != both.original.unk_id() for piece in pieces]
    rows = {row.piece: i for i, row in enumerate(both.vocabulary.rows)}
    assert both.rewritten.encode(text) == [
        rows[piece] if there else SPECIAL_IDS.unk
        for piece, there in zip(pieces, known, strict=True)
    ]


@given(data=st.data())
def test_rows_that_the_model_lacked_decode_to_text(both: Rewritten, data: st.DataObject) -> None:
    rows = [i for i, row in enumerate(both.vocabulary.rows) if i > 3 and not row.control]
    ids = data.draw(st.lists(st.sampled_from(rows), max_size=6))
    pieces = [both.vocabulary.rows[i].piece for i in ids]
    assert both.rewritten.decode(ids) == "".join(pieces).replace("▁", " ").lstrip(" ")


def test_rows_are_in_the_order_of_bundles(both: Rewritten) -> None:
    rows = both.vocabulary.rows
    assert [row.piece for row in rows[:4]] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert [row.origin for row in rows[:4]] == [3, 1, 3, 0]
    assert [row.written for row in rows[:4]] == [False, True, False, True]
    model = both.rewritten
    special = (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id())
    assert special == (0, 1, 2, 3)
    assert model.vocab_size() == len(rows)
    assert [model.id_to_piece(i) for i in range(len(rows))] == [row.piece for row in rows]


def test_every_row_of_the_checkpoint_is_kept_and_missing_pieces_are_read_as_unk(
    both: Rewritten,
) -> None:
    rows = both.vocabulary.rows
    assert {row.origin for row in rows} == set(range(len(both.names) + 1))
    by_piece = {row.piece: row for row in rows}
    for piece in both.lacking:
        assert (by_piece[piece].origin, by_piece[piece].written) == (SPECIALS.unk, False)
    unnamed = by_piece[f"<row {len(both.names)}>"]
    assert (unnamed.origin, unnamed.control) == (len(both.names), True)
    assert by_piece[">>fra<<"].control
    assert not by_piece[both.names[7]].written
    assert len(both.vocabulary.hidden) == 2 + len(both.lacking) + 1


def test_piece_that_would_change_merges_is_refused(tmp_path: Path) -> None:
    pieces = train_spm(sentences("source", 200), tmp_path / "m.spm", 60, model_type="bpe")
    model = parse((tmp_path / "m.spm").read_bytes(), "m.spm")
    names = dict(enumerate(["</s>", "<unk>", "ab", "<pad>", *pieces[3:]]))
    vocabulary = arrange(names, len(names), SPECIALS, [model], is_tag)
    with pytest.raises(UnsupportedCheckpoint, match=r"merges pieces .* lacks 'ab'"):
        rewrite(model, vocabulary, "m.spm")


def test_invalid_vocabularies_are_refused() -> None:
    for content in (b"\xff\xff nothing", b"", b"\x0a\x04\x0a\x02\xff\xfe"):
        with pytest.raises(NotACheckpoint):
            parse(content, "x.spm")
    for names, forbidden, named in (
        ({9: "a"}, [], "id 9"),
        ({2: "a", 4: "a"}, [], "'a' twice"),
        ({}, [0], "forbids eos"),
    ):
        with pytest.raises(UnsupportedCheckpoint, match=named):
            arrange(names, 5, SPECIALS, [], is_tag, forbidden=forbidden)
