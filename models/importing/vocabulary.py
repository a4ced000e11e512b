"""Vocabulary of a bundle as rows of a checkpoint's, and SentencePiece models rewritten to its ids.

In checkpoints, embedding rows and SentencePiece ids may differ. A bundle's tokenizer is a
SentencePiece model whose piece ids *are* the rows of the embeddings, with pad, unk, bos and eos
first. So rows are put into that order and models are rewritten to it. No piece gets another score
or type, so segmentation does not change.

Rows without a piece in a model get one that decodes to text and never occurs in segmentation.
Pieces without a row in the checkpoint, which it reads as unk, get copies of unk's row and are never
generated.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError

from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint

# SentencePiece's protobuf module has no type stubs.
protocol: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
Model: TypeAlias = Any
Piece = protocol.ModelProto.SentencePiece


@dataclass(frozen=True, slots=True)
class Row:
    piece: str
    origin: int
    """The checkpoint's row that this row copies."""
    control: bool = False
    """Whether it decodes to no text."""
    written: bool = True
    """Whether a translation may contain it."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def origins(self) -> list[int]:
        return [row.origin for row in self.rows]

    @property
    def hidden(self) -> list[int]:
        """The rows that no translation may contain."""
        return [i for i, row in enumerate(self.rows) if not row.written]

    def id_of(self, piece: str) -> int:
        """Raises ``ValueError`` for a piece that is not in the vocabulary."""
        for i, row in enumerate(self.rows):
            if row.piece == piece:
                return i
        raise ValueError(f"the vocabulary has no piece {piece!r}")


@dataclass(frozen=True, slots=True)
class Specials:
    """A checkpoint's special rows. The decoder's start token becomes bos."""

    pad: int
    unk: int
    start: int
    eos: int


def arrange(
    names: Mapping[int, str],
    size: int,
    specials: Specials,
    models: Sequence[Model],
    is_control: Callable[[str], bool],
    forbidden: Collection[int] = (),
    *,
    further: int = 0,
    keeps_probability: bool = False,
) -> Vocabulary:
    """The rows of a vocabulary of ``size``, some with ``names``, that some models cut text into.

    ``forbidden`` are ids that must not be generated. ``further`` rows follow, which are specials
    only. With ``keeps_probability``, pad and bos take part in the softmax, as in CTranslate2, which
    masks nothing; a search never chooses them. Raises ``UnsupportedCheckpoint`` for special
    ids and names that do not fit the vocabulary.
    """
    outside = [i for i in (*names, *forbidden) if not 0 <= i < size]
    outside += [i for i in _ids(specials) if not 0 <= i < size + further]
    if outside:
        raise UnsupportedCheckpoint(
            f"the vocabulary has the id {outside[0]}; the configuration says that it has {size} ids"
        )
    beginning = names.get(specials.pad, "<pad>"), names.get(specials.unk, "<unk>")
    ending = names.get(specials.eos, "</s>")
    if specials.eos in forbidden:
        raise UnsupportedCheckpoint("its configuration forbids eos, so no translation could end")
    start_is_bos = names.get(specials.start) == "<s>"
    # The start token gets its own row, since pad or eos often shares its embedding.
    rows = [
        Row(beginning[0], specials.pad, True, keeps_probability and specials.pad < size),
        Row(beginning[1], specials.unk, written=specials.unk not in forbidden),
        Row("<s>", specials.start, True, keeps_probability and start_is_bos),
        Row(ending, specials.eos, control=True),
    ]
    there = {row.piece for row in rows}
    textual = {piece.piece for model in models for piece in model.pieces if _is_text(piece)}
    for i in range(size):
        if i in {specials.pad, specials.unk, specials.eos}:
            continue
        name = names.get(i, f"<row {i}>")
        if name == "<s>":
            # Only bos may have its name, and the name has no other meaning.
            if start_is_bos or not keeps_probability:
                continue
            name = f"<row {i}>"
        if name in there:
            raise UnsupportedCheckpoint(f"the vocabulary has {name!r} twice, as {i} as well")
        there.add(name)
        control = name != names.get(i) or (is_control(name) and name not in textual)
        rows.append(Row(name, i, control, written=i not in forbidden))
    for model in models:
        for piece in model.pieces:
            if piece.piece not in there and piece.type != Piece.UNKNOWN:
                there.add(piece.piece)
                control = piece.type == Piece.CONTROL
                rows.append(Row(piece.piece, specials.unk, control=control, written=False))
    return Vocabulary(tuple(rows))


def _is_text(piece: Any) -> bool:
    return piece.type not in {Piece.UNKNOWN, Piece.CONTROL}


def _ids(specials: Specials) -> tuple[int, ...]:
    return specials.pad, specials.unk, specials.start, specials.eos


def parse(content: bytes, name: str) -> Model:
    """A SentencePiece model; raises ``NotACheckpoint`` for invalid ``content``."""
    model = protocol.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise NotACheckpoint(f"{name} is not a SentencePiece model: {error}") from error
    for i, piece in enumerate(model.pieces):
        if not isinstance(piece.piece, str):
            raise NotACheckpoint(f"{name} is not a SentencePiece model: piece {i} is not UTF-8")
    if sum(piece.type == Piece.UNKNOWN for piece in model.pieces) != 1:
        raise NotACheckpoint(f"{name} is not a SentencePiece model: it has no unknown piece")
    return model


def rewrite(model: Model, vocabulary: Vocabulary, name: str) -> bytes:
    """The model with the pieces of a vocabulary, each at the id of its row.

    Raises ``UnsupportedCheckpoint`` if the segmentation of some text would change.
    """
    own = {piece.piece: piece for piece in model.pieces if piece.type != Piece.UNKNOWN}
    if model.trainer_spec.model_type == protocol.TrainerSpec.BPE:
        _check_merges([row for row in vocabulary.rows if row.piece not in own], own, name)
    written = protocol.ModelProto()
    written.CopyFrom(model)
    del written.pieces[:]
    for i, row in enumerate(vocabulary.rows):
        piece = written.pieces.add(piece=row.piece, score=0.0)
        if i == SPECIAL_IDS.unk:
            piece.type = Piece.UNKNOWN
        elif row.control:
            if row.piece in own and _is_text(own[row.piece]):
                raise UnsupportedCheckpoint(
                    f"{name} cuts text into {row.piece!r}, which stands for no text"
                )
            piece.type = Piece.CONTROL
        elif row.piece in own:
            piece.CopyFrom(own[row.piece])
        else:
            piece.type = Piece.UNUSED
    spec = written.trainer_spec
    spec.vocab_size = len(vocabulary)
    for special in ("pad", "unk", "bos", "eos"):
        row_id = getattr(SPECIAL_IDS, special)
        setattr(spec, f"{special}_id", row_id)
        setattr(spec, f"{special}_piece", vocabulary.rows[row_id].piece)
    content: bytes = written.SerializeToString()
    return content


def _check_merges(foreign: Sequence[Row], own: Collection[str], name: str) -> None:
    """BPE merges pass through every existing piece, so an added piece could alter a merge."""
    pieces = {*own, *(row.piece for row in foreign if not row.control)}
    for row in foreign:
        if row.control:
            continue
        halves = ((row.piece[:i], row.piece[i:]) for i in range(1, len(row.piece)))
        if any(all(len(half) == 1 or half in pieces for half in pair) for pair in halves):
            raise UnsupportedCheckpoint(
                f"{name} merges pieces (BPE) and lacks {row.piece!r}, which the vocabulary has; "
                "with it, text would be cut otherwise"
            )
