"""The vocabulary of a checkpoint in the order that bundles have, and SentencePiece models for it.

Others number pieces as they like, and apart from their SentencePiece models. A bundle's tokenizer
is a SentencePiece model whose piece ids *are* the rows of the embeddings, with pad, unk, bos and
eos first. So rows are put into that order and models are rewritten to it: no piece gets another
score or type, so no text is cut otherwise.

Rows that a model does not have are in it so that ids agree and text can be made of them, but text
is never cut into them. Pieces of a model that the checkpoint has no row for, which it reads as
unk, get rows that copy unk's and can never be written.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError

from models.bundle.tokenizer import SPECIAL_IDS
from training.importing.refusals import NotACheckpoint, UnsupportedCheckpoint

# SentencePiece does not say what types its own format has.
protocol: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
Model: TypeAlias = Any
Piece = protocol.ModelProto.SentencePiece


@dataclass(frozen=True, slots=True)
class Row:
    piece: str
    origin: int
    """The row of the checkpoint that it is a copy of."""
    control: bool = False
    """Whether it stands for no text."""
    written: bool = True
    """Whether a translation may have it."""


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
        """The rows that no translation may have."""
        return [i for i, row in enumerate(self.rows) if not row.written]

    def id_of(self, piece: str) -> int:
        """Raises ``ValueError`` for a piece that it does not have."""
        for i, row in enumerate(self.rows):
            if row.piece == piece:
                return i
        raise ValueError(f"the vocabulary has no piece {piece!r}")


@dataclass(frozen=True, slots=True)
class Specials:
    """Which rows of a checkpoint are special. What starts its decoder becomes bos."""

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
) -> Vocabulary:
    """The rows of a vocabulary of ``size``, some with ``names``, that some models cut text into.

    ``forbidden`` are ids that must not be written. Raises ``UnsupportedCheckpoint`` for special
    ids and names that are not of such a vocabulary.
    """
    outside = [i for i in (*names, *_ids(specials), *forbidden) if not 0 <= i < size]
    if outside:
        raise UnsupportedCheckpoint(
            f"the vocabulary has the id {outside[0]}; the configuration says that it has {size} ids"
        )
    beginning = names.get(specials.pad, "<pad>"), names.get(specials.unk, "<unk>")
    ending = names.get(specials.eos, "</s>")
    if specials.eos in forbidden:
        raise UnsupportedCheckpoint("its configuration forbids eos, so no translation could end")
    # The start is a row of its own, because pad or eos often lends it its embedding.
    rows = [
        Row(beginning[0], specials.pad, control=True, written=False),
        Row(beginning[1], specials.unk, written=specials.unk not in forbidden),
        Row("<s>", specials.start, control=True, written=False),
        Row(ending, specials.eos, control=True),
    ]
    there = {row.piece for row in rows}
    textual = {piece.piece for model in models for piece in model.pieces if _is_text(piece)}
    for i in range(size):
        if i in {specials.pad, specials.unk, specials.eos}:
            continue
        name = names.get(i, f"<row {i}>")
        if name == "<s>":
            # Nothing but bos is called so, and this has no other meaning than its.
            continue
        if name in there:
            raise UnsupportedCheckpoint(f"the vocabulary has {name!r} twice, as {i} as well")
        there.add(name)
        control = i not in names or (is_control(name) and name not in textual)
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
    """A SentencePiece model; raises ``NotACheckpoint`` if ``content`` is none."""
    model = protocol.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise NotACheckpoint(f"{name} is not a SentencePiece model: {error}") from error
    if sum(piece.type == Piece.UNKNOWN for piece in model.pieces) != 1:
        raise NotACheckpoint(f"{name} is not a SentencePiece model: it has no unknown piece")
    return model


def rewrite(model: Model, vocabulary: Vocabulary, name: str) -> bytes:
    """The model with the pieces of a vocabulary, each at its row.

    Raises ``UnsupportedCheckpoint`` if that would cut some text otherwise than ``model`` does.
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
    """Merging goes through every piece there is, so that one more could end or begin a merge."""
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
