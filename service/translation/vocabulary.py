"""How the tokens of a vocabulary spell text and begin words, derived from its pieces."""

from __future__ import annotations

import re
from functools import cached_property

from models.bundle.manifest import SpecialIds
from service.engine.types import WordPieces
from service.translation.words import words

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_BLANK = "▁"
_LETTER = "a"


class Vocabulary:
    """The text of each token id, in order. The properties are computed once, which takes a while
    for large vocabularies."""

    def __init__(self, pieces: tuple[str, ...], special_ids: SpecialIds) -> None:
        self._pieces = pieces
        self._special = {special_ids.pad, special_ids.unk, special_ids.bos, special_ids.eos}
        self._eos = special_ids.eos

    @cached_property
    def words(self) -> WordPieces:
        """The tokens that begin words and those that end words. ``eos`` counts as the former."""
        starts, closes = {self._eos}, set[int]()
        for token_id, piece in enumerate(self._pieces):
            text = _text(piece)
            if token_id in self._special or text is None:
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
