"""SentencePiece tokenizer: training, text to token ids and back, spans of tokens, unknown tokens.

It adds neither ``bos`` nor ``eos``; callers add them. A lossless tokenizer spells a character
without a piece as its UTF-8 bytes. Any other tokenizer makes it ``unk``, which is decoded to " ⁇ ".
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import sentencepiece

from models.bundle.manifest import InvalidBundle, SpecialIds

Kind = Literal["unigram", "bpe", "word"]
"""Segmentation. ``word`` makes a piece of each blank-separated word, for toy problems."""

Span = tuple[int, int]
"""Start (inclusive) and end (exclusive) of a range of characters."""


@dataclass(frozen=True, slots=True)
class UnknownToken:
    """Characters of a text that have no piece."""

    index: int
    """Index of the token, counted from 0."""
    text: str
    """The characters as they stand in the text, or normalised where normalisation changes their
    number. Begins with a blank if the token includes the blank before a word."""
    span: Span
    """See ``Tokenizer.spans``."""


_QUOTATION_MARKS = "\u2018\u2019\u201a\u201c\u201d\u201e«»\u2039\u203a"
REQUIRED_CHARACTERS = (
    "abcdefghijklmnopqrstuvwxyzäöüßABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ0123456789"
    f".,;:!?…'\"{_QUOTATION_MARKS}()[]{{}}<>-–—/\\|@#&*+=~^_`%‰°§©®™$€£¥¢№•·†×²³½"
    "áàâçéèêëíîïñóôúûåæøœšžÉ"
)
"""Characters that get a piece of their own in every lossless vocabulary: the letters of German and
English, usual punctuation, symbols and currencies, and letters frequent in European names."""

SPECIAL_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)
"""The special ids of every tokenizer that ``train_tokenizer`` makes."""

# SentencePiece silently skips longer sentences; its default is 4192 bytes.
_LONGEST_SENTENCE_BYTES = 1 << 24

_ERRORS_ONLY = 2

_BLANK = "▁"
"""SentencePiece's symbol for a blank."""


class Tokenizer:
    """A loaded SentencePiece model. Immutable and thread-safe."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        self.vocabulary_size: int = processor.vocab_size()
        self.special_ids = SpecialIds(
            pad=processor.pad_id(),
            unk=processor.unk_id(),
            bos=processor.bos_id(),
            eos=processor.eos_id(),
        )

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a SentencePiece model; raises ``InvalidBundle`` if the file is not one."""
        try:
            return cls.from_bytes(path.read_bytes(), path)
        except OSError as error:
            raise InvalidBundle(f"the tokenizer {path} cannot be read: {error.strerror}") from error

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Tokenizer:
        """The tokenizer in a file's content; ``path`` names the file in errors."""
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.load_from_serialized_proto(content)
        except RuntimeError as error:
            raise InvalidBundle(f"{path} is not a SentencePiece model") from error
        try:
            return cls(processor)
        except ValueError as error:
            # SentencePiece reports an id that the model does not define as -1.
            raise InvalidBundle(f"{path} does not define all of pad, unk, bos and eos") from error

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._processor.encode(_bytes(text)))

    def encode_all(self, texts: Iterable[str], threads: int) -> list[list[int]]:
        """``encode`` for many texts, on ``threads`` threads."""
        encoded: list[list[int]] = self._processor.encode(
            [_bytes(text) for text in texts], num_threads=threads
        )
        return encoded

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; special tokens other than ``unk`` are dropped."""
        return str(self._processor.decode(list(ids)))

    def spans(self, text: str) -> tuple[Span, ...]:
        """The span in ``text`` of each token of ``encode(text)``, in order.

        A span includes the blanks before a word. If normalisation makes several tokens of one
        character, the last token has its span and the spans before are empty.
        """
        found = self._processor.encode(
            _bytes(text), return_type="offset_mapping", return_bytes=True
        )
        if text.isascii():
            return tuple(found["offsets"])
        characters = _characters(text)
        return tuple(
            (characters[start], characters[end - 1] + 1 if end > start else characters[start])
            for start, end in found["offsets"]
        )

    def unknown(self, text: str) -> tuple[UnknownToken, ...]:
        """The tokens of ``encode(text)`` that are ``unk``, in order."""
        if self.special_ids.unk not in self.encode(text):
            return ()
        found = self._processor.encode(
            _bytes(text), return_type="offset_mapping", return_bytes=True
        )
        tokens = zip(found["ids"], found["pieces"], self.spans(text), strict=True)
        return tuple(
            UnknownToken(index, _as_written(piece, text[slice(*span)]), span)
            for index, (token_id, piece, span) in enumerate(tokens)
            if token_id == self.special_ids.unk
        )

    def decoded_spans(self, ids: Sequence[int]) -> tuple[Span, ...]:
        """The span in ``decode(ids)`` of each token; special tokens have empty spans."""
        found = self._processor.decode(list(ids), return_type="offset_mapping")
        return tuple(found["offsets"])

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The piece of each token id, for display; ``▁`` stands for a blank."""
        return tuple(self._processor.id_to_piece(list(ids)))

    def ordinary_pieces(self) -> tuple[str, ...]:
        """The piece of each token id, as it spells text; empty for special tokens, bytes, and
        pieces that never occur in segmentation."""
        has = self._processor
        others = (has.is_control, has.is_unknown, has.is_byte, has.is_unused)
        return tuple(
            "" if any(of_kind(n) for of_kind in others) else has.id_to_piece(n)
            for n in range(self.vocabulary_size)
        )

    def id_of(self, piece: str) -> int:
        """The token id of a piece; raises ``ValueError`` if the vocabulary has no such piece."""
        found = int(self._processor.piece_to_id(piece))
        # SentencePiece returns unk for a piece that it does not have.
        if self._processor.id_to_piece(found) != piece:
            raise ValueError(f"the vocabulary has no piece {piece!r}")
        return found


@dataclass(frozen=True, slots=True)
class Tokenizers:
    """The tokenizers of both sides; the same object twice if the sides share a vocabulary."""

    source: Tokenizer
    target: Tokenizer


def _as_written(piece: bytes, written: str) -> str:
    """The characters of the text, ``written``, that an unknown ``piece`` stands for."""
    normalised = piece.decode("utf-8", "surrogatepass").replace(_BLANK, " ")
    return written if len(written) == len(normalised) else normalised


def _bytes(text: str) -> bytes:
    # A lone surrogate is valid in JSON and in str but not in UTF-8. As bytes, it is an unknown
    # character to SentencePiece instead of an error for the whole text.
    return text.encode("utf-8", "surrogatepass")


def _characters(text: str) -> list[int]:
    """The index of the character that each UTF-8 byte belongs to, and the number of characters."""
    lengths = (len(_bytes(character)) for character in text)
    return [*(i for i, length in enumerate(lengths) for _ in range(length)), len(text)]


def train_tokenizer(
    texts: Iterable[str],
    path: Path,
    *,
    vocabulary_size: int,
    kind: Kind = "unigram",
    character_coverage: float = 1.0,
    control_symbols: Sequence[str] = (),
    lossless: bool = False,
    threads: int = 2,
) -> Tokenizer:
    """Fit a SentencePiece model to sentences and write it to ``path``.

    The same texts and arguments, ``threads`` included, give the same file. A ``word`` or lossless
    vocabulary has at most ``vocabulary_size`` entries, any other exactly as many. Raises
    ``ValueError`` if the texts cannot fill the vocabulary. A ``character_coverage`` below 1 leaves
    the rarest characters of noisy texts without a piece. ``control_symbols``, such as language
    tags, become pieces that ``encode`` never produces and ``decode`` drops. They count towards the
    vocabulary size.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=kind,
            vocab_size=vocabulary_size,
            hard_vocab_limit=kind != "word" and not lossless,
            pad_id=SPECIAL_IDS.pad,
            unk_id=SPECIAL_IDS.unk,
            bos_id=SPECIAL_IDS.bos,
            eos_id=SPECIAL_IDS.eos,
            normalization_rule_name="identity" if lossless else "nmt_nfkc",
            remove_extra_whitespaces=not lossless,
            character_coverage=character_coverage,
            control_symbols=list(control_symbols),
            byte_fallback=lossless,
            split_digits=lossless,
            required_chars=REQUIRED_CHARACTERS if lossless else "",
            max_sentence_length=_LONGEST_SENTENCE_BYTES,
            num_threads=threads,
            minloglevel=_ERRORS_ONLY,
        )
    except RuntimeError as error:
        raise ValueError(
            f"no {kind} tokenizer of {vocabulary_size} pieces fits these texts: {error}"
        ) from error
    path.write_bytes(model.getvalue())
    return Tokenizer.load(path)
