"""Reads and writes Markdown: CommonMark with GitHub's tables, strikethrough, footnotes and alerts,
the directives of Docusaurus and VitePress, the admonitions of MkDocs, and definition lists.

``markdown-it-py`` finds the blocks and their lines. Prose is replaced in place, so that code,
HTML, front matter, link definitions and list indentation keep their source form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from markdown_it.token import Token

from service.documents.containers.encoding import decode
from service.documents.containers.splicing import Place, SplicedDocument
from service.documents.fragments.fragment import Fragment
from service.documents.fragments.inline import Inline
from service.documents.fragments.lines import lines_of
from service.documents.fragments.prose import (
    Lines,
    written_cell,
    written_heading,
    written_paragraph,
)
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_CHARACTERS = 10_000
"""Largest paragraph. Parsing time is quadratic in unmatched brackets and asterisks."""
_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\r?\n(?:.*\r?\n)*?(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n(?:.*\r?\n)*?\+\+\+)"
    r"[ \t]*(?:\r?\n|\Z)"
)


def open_markdown(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open Markdown; raises ``BrokenDocument`` for invalid text or a too long paragraph."""
    file = decode(content, languages.source)
    return SplicedDocument(file, "text/markdown", list(_places(file.text)))


def _places(text: str) -> Iterator[Place]:
    lines = [(start, line.rstrip("\r\n")) for start, line in lines_of(text)]
    matter = _FRONT_MATTER.match(text)
    hidden = matter[0] if matter else ""
    inline = Inline()
    # Empty lines replace front matter, so that line numbers stay the same.
    blocks = inline.blocks("\n" * hidden.count("\n") + text[len(hidden) :])
    cells: list[Token] = []
    for before, block, after in zip([None, *blocks], blocks, [*blocks[1:], None], strict=False):
        if after is not None and after.type == "tr_close":
            yield from _row(lines, cells, inline)
            cells = []
        if block.type != "inline" or not block.content.strip():
            continue
        assert before is not None and block.map is not None
        if len(block.content) > _CHARACTERS:
            raise BrokenDocument(
                f"line {block.map[0] + 1} begins a paragraph of {len(block.content)} characters; "
                f"at most {_CHARACTERS} are read: put empty lines between its parts"
            )
        if before.type in ("th_open", "td_open"):
            cells.append(block)
        elif before.type == "title_open":
            start = lines[block.map[0]][0] + int(block.meta["column"])
            end = start + len(block.content)
            yield from _one_line(start, end, block.content, written_heading, inline)
        else:
            newline = _newline(text, lines, block.map[0])
            yield from _prose(lines, block, before.type == "heading_open", newline, inline)


def _newline(text: str, lines: list[tuple[int, str]], number: int) -> str:
    start, line = lines[number]
    end = start + len(line)
    return "\r\n" if text[end : end + 2] == "\r\n" else text[end : end + 1] or "\n"


def _prose(
    lines: list[tuple[int, str]], block: Token, heading: bool, newline: str, inline: Inline
) -> Iterator[Place]:
    """The place of a paragraph or heading, whose lines may have a prefix such as ``> ``."""
    contents = [line.strip() for line in block.content.split("\n")]
    found = _found(lines, block, contents, heading)
    fragment = Fragment(inline.read(block.content))
    shape = Lines(
        newline=newline,
        prefix=found[1][2] if len(found) > 1 else "",
        width=max(map(len, contents)) if len(found) > 1 else None,
    )
    write = written_heading if heading and len(found) == 1 else written_paragraph
    if (source := fragment.source) is not None:
        yield Place(found[0][0], found[-1][1], source, partial(write, fragment, shape, inline))


def _found(
    lines: list[tuple[int, str]], block: Token, contents: list[str], heading: bool
) -> list[tuple[int, int, str]]:
    """Start, end and line prefix of each line of a block's content."""
    assert block.map is not None
    # Lines of unusual whitespace are not blank lines and not part of the content.
    for first in range(block.map[0], block.map[1] - len(contents) + 1):
        found = []
        for (start, line), content in zip(
            lines[first : first + len(contents)], contents, strict=True
        ):
            column = _column(line, content, heading)
            if column is None:
                break
            found.append((start + column, start + column + len(content), line[:column]))
        else:
            return found
    raise BrokenDocument(f"line {block.map[0] + 1} begins a block that cannot be read")


def _column(line: str, content: str, heading: bool) -> int | None:
    """Column of the content, which ends the line except for blanks and a heading's ``#``."""
    ending = re.compile(r"(?:\s+#+)?\s*$" if heading else r"\s*$")
    for column in (line.rfind(content), len(line.rstrip()) - len(content)):
        if (
            column >= 0
            and line.startswith(content, column)
            and ending.match(line, column + len(content))
        ):
            return column
    return None


def _row(lines: list[tuple[int, str]], cells: list[Token], inline: Inline) -> Iterator[Place]:
    """The places of a table row's cells, searched from the right: after a cell's content there
    are only blanks and bars."""
    places: list[Place] = []
    limit: int | None = None
    for cell in reversed(cells):
        assert cell.map is not None
        start, line = lines[cell.map[0]]
        content = cell.content.replace("|", "\\|")
        column = line.rfind(content, 0, limit)
        if column < 0:
            raise BrokenDocument(f"line {cell.map[0] + 1} has a cell that cannot be read")
        limit = column
        end = start + column + len(content)
        places.extend(_one_line(start + column, end, cell.content, written_cell, inline))
    yield from reversed(places)


def _one_line(
    start: int,
    end: int,
    content: str,
    write: Callable[[Fragment, Lines, Inline, str], str],
    inline: Inline,
) -> Iterator[Place]:
    """The place of a table cell or title, if it has text."""
    fragment = Fragment(inline.read(content))
    if (source := fragment.source) is not None:
        yield Place(start, end, source, partial(write, fragment, Lines(), inline))
