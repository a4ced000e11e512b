"""Reads and writes captions, SubRip (.srt) and WebVTT (.vtt); only spoken words change.

Each caption is translated separately, even if its sentence continues in the next one, because the
words must match the time on screen. Lines of one sentence are joined, translated, and broken into
as many lines again, or more if they became too long.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from service.documents.containers.encoding import decode
from service.documents.containers.splicing import Place, SplicedDocument
from service.documents.fragments.fragment import Fragment, Piece
from service.documents.fragments.lines import lines_of
from service.documents.fragments.wrapping import balanced, words_of
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_TIMES = re.compile(
    r"\s*-?\d+:\d{1,2}:\d{1,2}[,.:]\d{1,3}\s*-->\s*-?\d+:\d{1,2}:\d{1,2}[,.:]\d{1,3}(?:\s.*)?",
    re.DOTALL,
)
_VTT_TIMES = re.compile(
    r"\s*(?:\d+:)?\d\d:\d\d\.\d{3}\s+-->\s+(?:\d+:)?\d\d:\d\d\.\d{3}(?:\s.*)?", re.DOTALL
)
_TAG = re.compile(r"<(/?)([a-z]+)(?:[\s.][^<>]*)?>|<[\d:.]+>|\{\\[^{}]*\}", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?…:;。！？]['\"’”»)\]]*\s*$")  # noqa: RUF001
_SPEAKER = re.compile(r"\s*(?:[-‐–—]|>>|♪|\w+:\s)")  # noqa: RUF001
_DASH = re.compile(r"\s*(?:[-‐–—]|>>)\s*(?=\S)")  # noqa: RUF001
"""Marks at the beginning of a line of dialogue, which are not translated."""
_MUSIC = re.compile("([♪♫♬]+)")
_WIDTH = 42
"""Usual maximum of characters in a subtitle line."""


def open_srt(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open captions; ``BrokenDocument`` names the first line that belongs to no caption."""
    file = decode(content, languages.source)
    return SplicedDocument(file, "application/x-subrip", list(_places(file.text)))


def open_vtt(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open captions; raises ``BrokenDocument`` unless they begin with ``WEBVTT``."""
    file = decode(content, languages.source)
    return SplicedDocument(file, "text/vtt", list(_vtt_places(file.text)))


def _vtt_places(text: str) -> Iterator[Place]:
    """The places of all cues. Notes, styles, regions and names of cues are not translated."""
    if text and not re.match(r"WEBVTT(?:\s|\Z)", text):
        raise BrokenDocument("line 1 is not WEBVTT, with which every .vtt begins")
    block: list[tuple[int, str]] = []
    for number, (start, line) in enumerate([*lines_of(text), (len(text), "")]):
        if line.strip():
            block.append((start, line))
            if "-->" in line and not _VTT_TIMES.fullmatch(line):
                raise BrokenDocument(
                    f"line {number + 1} has an arrow but no times; they are written "
                    "00:01.000 --> 00:02.500"
                )
            continue
        first = next((n for n, (_, line) in enumerate(block) if "-->" in line), len(block))
        for group in _groups(block[first + 1 :]):
            yield from _place(group, escaped=True)
        block = []


def _places(text: str) -> Iterator[Place]:
    lines = lines_of(text)
    times = [number for number, (_, line) in enumerate(lines) if _is_times(number, line)]
    heads = [_head(lines, number) for number in times]
    for number, (_, line) in enumerate(lines[: heads[0] if heads else None], start=1):
        if line.strip():
            raise BrokenDocument(
                f"line {number} belongs to no caption; a file of captions begins with a number, "
                "and a line of times such as 00:00:01,000 --> 00:00:02,500"
            )
    for first, after in zip(times, [*heads, len(lines)][1:], strict=True):
        caption = lines[first + 1 : after]
        for group in _groups(caption):
            yield from _place(group)


def _is_times(number: int, line: str) -> bool:
    if "-->" not in line:
        return False
    if not _TIMES.fullmatch(line):
        raise BrokenDocument(
            f"line {number + 1} has an arrow but no times; they are written "
            "00:00:01,000 --> 00:00:02,500"
        )
    return True


def _head(lines: list[tuple[int, str]], times: int) -> int:
    """First line of a caption: its number, if it has one."""
    return times - 1 if times and lines[times - 1][1].strip().isdecimal() else times


def _groups(caption: list[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Groups of lines that form one sentence or utterance."""
    group: list[tuple[int, str]] = []
    for start, line in caption:
        spoken = _spoken(line)
        ends = not spoken.strip() or _SPEAKER.match(spoken)
        if group and (ends or _SENTENCE_END.search(_spoken(group[-1][1]))):
            yield group
            group = []
        if spoken.strip():
            group.append((start, line))
    if group:
        yield group


def _spoken(line: str) -> str:
    """A line without tags. The semicolon of ``&amp;`` ends no sentence."""
    return html.unescape(_TAG.sub("", line))


def _place(group: list[tuple[int, str]], *, escaped: bool = False) -> Iterator[Place]:
    """The place of a group; ``escaped`` text has the character references of WebVTT."""
    lines = [line.strip() for _, line in group]
    start = group[0][0] + group[0][1].index(lines[0])
    end = group[-1][0] + group[-1][1].index(lines[-1]) + len(lines[-1])
    newline = group[0][1][len(group[0][1].rstrip("\r\n")) :]
    joined = lines[0]
    for line in lines[1:]:
        joined += ("" if _wide(joined[-1]) and _wide(line[0]) else " ") + line
    pieces = _pieces(joined)
    fragment = Fragment(_changed(html.unescape, pieces) if escaped else pieces)
    longest = max(len(_TAG.sub("", line)) for line in lines)

    def write(translation: str) -> str:
        pieces = iter(fragment.replaced(translation))
        escaping = _changed(partial(html.escape, quote=False), pieces) if escaped else pieces
        words = words_of(escaping, tags_have_width=False)
        width = sum(word.width for word in words) + len(words) - 1
        most = max(len(lines), math.ceil(width / max(_WIDTH, longest)))
        return (newline or "\n").join(balanced(words, most))

    if (source := fragment.source) is not None:
        yield Place(start, end, source, write)


def _changed(change: Callable[[str], str], pieces: Iterator[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield replace(piece, text=change(piece.text)) if piece.kind == "text" else piece


def _pieces(line: str) -> Iterator[Piece]:
    """Tags and words. A dash of dialogue and notes of music are marks."""
    end_of_last = 0
    has_words = False
    for tag in [*_TAG.finditer(line), None]:
        text = line[end_of_last : tag.start() if tag else len(line)]
        if not has_words and (dash := _DASH.match(text)):
            yield Piece("mark", dash[0])
            text = text[dash.end() :]
        has_words = has_words or bool(text.strip())
        for number, part in enumerate(_MUSIC.split(text)):
            yield Piece("mark" if number % 2 else "text", part)
        if tag is None:
            return
        end_of_last = tag.end()
        if tag[2]:
            yield Piece("close" if tag[1] else "open", tag[0], tag[2].lower())
        else:
            yield Piece("mark", tag[0])


def _wide(character: str) -> bool:
    """Whether the character's script has no blanks between words; Hangul has blanks."""
    return unicodedata.east_asian_width(character) in "WF" and not (
        "\uac00" <= character <= "\ud7a3"
    )
