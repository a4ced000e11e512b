"""How the tokens of a vocabulary spell text and begin words, derived from its pieces."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from models.bundle.manifest import SpecialIds
from service.engine.types import WordPieces
from service.text.words import words

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_BLANK = "▁"
_LETTER = "a"
_HIGHEST = b"\xff"
"""No UTF-8 text has this byte."""
_MOST_COMPLETED = 8
"""Tokens at the end of a text that others may stand for."""


class Vocabulary:
    """The spelling of each token, and the tokens by their spelling."""

    def __init__(self, pieces: tuple[str, ...], special_ids: SpecialIds) -> None:
        """``pieces`` are those of the token ids, in order. Blocks for a while if they are many."""
        special = {special_ids.pad, special_ids.unk, special_ids.bos, special_ids.eos}
        ordinary = [(i, piece) for i, piece in enumerate(pieces) if i not in special]
        self.words = _word_pieces(ordinary, special_ids.eos)
        """The tokens that begin words and those that end words. ``eos`` counts as the former."""
        self._bytes = [b""] * len(pieces)
        """Spelling of each token; nothing for special tokens."""
        for token_id, piece in ordinary:
            self._bytes[token_id] = _spelling(piece)
        self._ids = sorted((i for i, _ in ordinary if self._bytes[i]), key=self._bytes.__getitem__)
        """Tokens in the order of ``_spellings``."""
        self._spellings = [self._bytes[token_id] for token_id in self._ids]

    def completions(self, ids: Sequence[int], text: str) -> tuple[frozenset[int], ...]:
        """The tokens that may stand for the end of ``text``, and go on from there.

        ``ids`` are the tokens of ``text``. For each token of the last word, the result has the
        tokens that begin with what it and the tokens after it spell. It is empty where tokens do
        not spell the text, as with unknown or normalised characters.
        """
        spelled = [self._bytes[token_id] for token_id in ids]
        whole = b"".join(spelled)
        if whole.removeprefix(b" ") != text.encode("utf-8").removeprefix(b" "):
            return ()
        first = len(spelled) - 1
        while first > 0 and spelled[first][:1] != b" " and len(spelled) - first < _MOST_COMPLETED:
            first -= 1
        return tuple(
            self._beginning_with(b"".join(spelled[number:]))
            for number in range(max(first, 0), len(spelled))
        )

    def _beginning_with(self, spelling: bytes) -> frozenset[int]:
        first = bisect_left(self._spellings, spelling)
        return frozenset(self._ids[first : bisect_left(self._spellings, spelling + _HIGHEST)])


def _word_pieces(pieces: Iterable[tuple[int, str]], eos: int) -> WordPieces:
    starts, closes = {eos}, set[int]()
    for token_id, piece in pieces:
        text = _text(piece)
        if text is None:
            continue
        if words(_LETTER + text)[0] == (0, 1):
            starts.add(token_id)
        if not text.isspace() and words(text + _LETTER)[-1] == (len(text), len(text) + 1):
            closes.add(token_id)
    return WordPieces(frozenset(starts), frozenset(closes))


def _text(piece: str) -> str | None:
    """The text of a piece; ``None`` for a byte of a longer character, and for an empty piece."""
    if byte := _BYTE.fullmatch(piece):
        code = int(byte[1], 16)
        return chr(code) if code < 0x80 else None
    return piece.replace(_BLANK, " ") or None


def _spelling(piece: str) -> bytes:
    if byte := _BYTE.fullmatch(piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(_BLANK, " ").encode("utf-8")
