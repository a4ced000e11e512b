"""Writes translated prose as Markdown, escaped so that no text is parsed as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from markdown_it.common.utils import normalizeReference

from service.documents.fragments.fragment import Fragment, Piece
from service.documents.fragments.inline import Inline
from service.documents.fragments.wrapping import Word, words_of, wrapped

_SPECIAL = re.compile(r"[\\`*_\[\]<>&~${}:!]")
_ENDS_FIRST = "!>]}:~&$_*{`[<\\"
"""The same characters, in the order in which backslashes are removed: ends of tags first."""
_EMPHASIS = frozenset({"*", "_", "**", "__", "~", "~~"})
_BLOCK_START = re.compile(r"(?:[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|[-=*_~`:]{3}|=+\s*$|-+\s*$|<|\||:?-)")
_DEFINITION = re.compile(r"(\[(?:[^\\\]]|\\.)+\]):", re.DOTALL)
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_MAY_NOT_START = re.compile(r"[-+*>#=~|:`<\[_]|\d{1,9}[.)]")


@dataclass(frozen=True, slots=True)
class Lines:
    """Line end, line prefix and line width of a block; width ``None`` is unlimited."""

    newline: str = "\n"
    prefix: str = ""
    width: int | None = None


def written_paragraph(fragment: Fragment, shape: Lines, inline: Inline, translation: str) -> str:
    """A paragraph, wrapped at the line width of its source."""
    lines: list[str] = []
    segment: list[Piece] = []
    for piece in _escape(fragment.replaced(translation), inline):
        if not _ends_line(piece):
            segment.append(piece)
            continue
        broken = _break_lines(segment, shape, continues=bool(lines))
        broken[-1] += piece.text
        lines += broken
        segment = []
    lines += _break_lines(segment, shape, continues=bool(lines))
    return (shape.newline + shape.prefix).join(lines)


def written_heading(fragment: Fragment, shape: Lines, inline: Inline, translation: str) -> str:
    """A heading on one line; a ``#`` at its end is escaped."""
    line = _join_texts(_escape(fragment.replaced(translation), inline))
    return re.sub(r"(?<=\s)(#+)$", r"\\\1", line)


def written_cell(fragment: Fragment, shape: Lines, inline: Inline, translation: str) -> str:
    """A table cell, with every bar escaped, also in code."""
    return _join_texts(_escape(fragment.replaced(translation), inline)).replace("|", "\\|")


def _join_texts(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _escape(pieces: Sequence[Piece], inline: Inline) -> list[Piece]:
    """The pieces on one line, with only the backslashes needed to parse as intended."""
    meant = [_on_one_line(piece) for piece in _without_empty_emphasis(pieces)]
    text = "".join(piece.text for piece in meant if piece.kind == "text")
    special = set(_SPECIAL.findall(text))

    def is_read_as_meant(characters: set[str]) -> bool:
        written = _with_backslashes(meant, characters)
        return _normalise(inline.read(_join_lines(written))) == _normalise(meant)

    if is_read_as_meant(set()):
        return _with_short_links(meant)
    for character in sorted(special, key=_ENDS_FIRST.index):
        if is_read_as_meant(special - {character}):
            special.remove(character)
    return _with_short_links(_with_backslashes(meant, special))


def _with_short_links(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, with ``[label]`` or ``[label][]`` for links whose text is still their label."""
    written: list[Piece] = []
    opened: dict[int, int] = {}
    for place, piece in enumerate(pieces):
        if piece.kind == "open":
            opened[piece.number] = place
        if piece.short:
            text = _join_texts(written[opened.get(piece.number, place) + 1 :])
            following = next((other.text for other in pieces[place + 1 :] if other.text), "")
            is_label = normalizeReference(text) == normalizeReference(piece.text[2:-1])
            # Before a bracket, the short form would be read as part of another link.
            if is_label and not following.startswith(("(", "[")):
                piece = replace(piece, text=piece.short)
        written.append(piece)
    return written


def _without_empty_emphasis(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces without emphasis that encloses nothing, which Markdown shows as asterisks.

    A pair is left empty if the translation has no word for what the source emphasises.
    """
    kept: list[Piece] = []
    solid: list[int] = []
    """Places in ``kept`` of all but blank texts."""
    for piece in pieces:
        opening = kept[solid[-1]] if solid else None
        if (
            piece.kind == "close"
            and piece.text in _EMPHASIS
            and opening is not None
            and opening.kind == "open"
            and opening.number == piece.number
        ):
            del kept[solid.pop()]
            continue
        if piece.kind != "text" or piece.text.strip():
            solid.append(len(kept))
        kept.append(piece)
    return kept


def _with_backslashes(pieces: Iterable[Piece], characters: set[str]) -> list[Piece]:
    return [
        replace(piece, text=_SPECIAL.sub(partial(_backslash, characters), piece.text))
        if piece.kind == "text"
        else piece
        for piece in pieces
    ]


def _backslash(characters: set[str], found: re.Match[str]) -> str:
    return f"\\{found[0]}" if found[0] in characters else found[0]


def _on_one_line(piece: Piece) -> Piece:
    # An empty line would end the block, and a tab would indent a line.
    return replace(piece, text=re.sub(r"[\r\n\t]+", " ", piece.text))


def _join_lines(pieces: Iterable[Piece]) -> str:
    return "".join(
        piece.text + "\n" if _ends_line(piece) else piece.text for piece in pieces
    ).strip()


def _ends_line(piece: Piece) -> bool:
    """Whether a line of the file ends with a piece, as it need not with ``<br>``."""
    return piece.kind == "break" and not piece.text.startswith("<")


def _normalise(pieces: Iterable[Piece]) -> list[tuple[str, str]]:
    """Normalised form for comparison: adjacent texts merged, whitespace squeezed."""
    read: list[tuple[str, str]] = []
    for piece in pieces:
        kind = "text" if piece.kind == "text" else "tag"
        if kind == "text" and read and read[-1][0] == "text":
            read[-1] = (kind, read[-1][1] + piece.text)
        else:
            read.append((kind, piece.text))
    squeezed = [(kind, " ".join(text.split())) for kind, text in read]
    return [(kind, text) for kind, text in squeezed if text or kind != "text"]


def _break_lines(pieces: Sequence[Piece], shape: Lines, *, continues: bool) -> list[str]:
    words = words_of(pieces, tags_have_width=True)
    if shape.width is None:
        lines = wrapped(words, 1 + sum(word.width + 1 for word in words))
    else:
        lines = wrapped(words, shape.width, _may_start)
    lines[0] = _escape_start(lines[0].lstrip(), pieces)
    if continues and lines[0].startswith("<"):
        # An indented line continues the paragraph; an unindented "<" would begin an HTML block.
        lines[0] = "    " + lines[0]
    return lines


def _may_start(word: Word) -> bool:
    return _MAY_NOT_START.match(word.text) is None


def _escape_start(line: str, pieces: Sequence[Piece]) -> str:
    """The line, escaped so that its beginning does not start another block."""
    if definition := _DEFINITION.match(line):
        return f"{definition[1]}\\:{line[definition.end() :]}"
    if not pieces or pieces[0].kind != "text":
        return line
    if numbered := _NUMBERED.match(line):
        return f"{numbered[1]}\\{line[numbered.start(2) :]}"
    return f"\\{line}" if _BLOCK_START.match(line) else line
