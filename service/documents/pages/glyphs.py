"""Reads the visible glyphs, the rules and the pictures of a page with PDFium."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from service.documents.pages.accents import COMBINING, with_accents
from service.documents.pages.types import Box, Family, Glyph, Source, Style, turned

_FILLED = (raw.FPDF_TEXTRENDERMODE_FILL, raw.FPDF_TEXTRENDERMODE_FILL_STROKE)
"""Modes of visible text; the others are invisible (recognised scans) or clip what follows."""
_BOLD = re.compile(r"bold|black|heavy|demi|cmb|sfbx", re.IGNORECASE)
_ITALIC = re.compile(r"ital|obli|slant|cmti|cmsl|cmmi|sfti", re.IGNORECASE)
_MONO = re.compile(r"mono|courier|cmtt|sftt|consol|typewriter", re.IGNORECASE)
_MATH = re.compile(r"cmmi|cmsy|cmex|msam|msbm|math|symbol", re.IGNORECASE)
_SANS = re.compile(r"sans|helvet|arial|cmss|sfss|gothic", re.IGNORECASE)
_SERIF = re.compile(
    r"serif|times|roman|cmr\d|cmbx|cmti|cmsl|cmcsc|sfrm|sfbx|sfti|georgia|garamond|palat|cambria"
    r"|minion|bookm|century|charter|libertin",
    re.IGNORECASE,
)
_FIXED, _SERIFS, _SLANTED, _FORCED_BOLD = 1, 2, 1 << 6, 1 << 18
"""Flags of a font descriptor (PDF 2.0, table 121)."""
_SHORTEST_RULE = 4.0
_MOST_RULES = 5_000
_MOST_SEGMENTS = 400
"""Segments of a path that are read; longer paths are drawings, not rules of tables."""
_BLANK = 0.12
"""Ems between words."""
_HYPHEN = 2
"""Character code of PDFium for a hyphen at the end of a line."""


@dataclass(frozen=True, slots=True)
class _TextObject:
    stream: Source
    number: int
    order: int
    style: Style
    font_size: float
    visible: bool


@dataclass(slots=True)
class PageGlyphs:
    """Content of a page, glyphs in the order of the content stream."""

    box: Box
    glyphs: list[Glyph] = field(default_factory=list)
    fixed: set[Source] = field(default_factory=set)
    """Groups with a glyph that is invisible, oblique, or has no Unicode character."""
    unread: int = 0
    """Number of visible glyphs without Unicode character."""
    rules: list[Box] = field(default_factory=list)
    """Horizontal and vertical lines, edges of rectangles, and pictures, in user space."""
    pictures: list[tuple[int, Box]] = field(default_factory=list)
    """Pictures with their place in the order of all objects."""
    counts: dict[Source, int] = field(default_factory=dict)
    """Number of text objects in the page's stream ``()`` and in each of its forms."""
    objects: dict[int, _TextObject] = field(default_factory=dict)
    """Text objects by their address in memory, until the page is closed."""

    def _add(self, glyph: Glyph, order: int) -> None:
        x, y = turned((glyph.left + glyph.right) / 2, glyph.y + glyph.size / 4, -glyph.turns)
        covered = any(after > order and _contains(box, x, y) for after, box in self.pictures)
        if covered or not _contains(self.box, x, y):
            self.fixed.add(glyph.source)
        else:
            self.glyphs.append(glyph)


def read_glyphs(page: pdfium.PdfPage, groups: Mapping[Source, Sequence[int]]) -> PageGlyphs:
    """Read a page; ``groups`` has, by stream, the group of each operator that shows text."""
    found = PageGlyphs(Box(*page.get_bbox()))
    count = raw.FPDFPage_CountObjects(page)
    _walk(found, (), [raw.FPDFPage_GetObject(page, number) for number in range(count)])
    if any(len(groups.get(stream, ())) != number for stream, number in found.counts.items()):
        # PDFium and qpdf read the stream differently, so no operator is sure to be found again.
        found.fixed.update((*stream, group) for stream in groups for group in groups[stream])
        found.unread = len(found.fixed)
        return found
    text_page = raw.FPDFText_LoadPage(page)
    try:
        _read_characters(found, text_page, groups)
    finally:
        raw.FPDFText_ClosePage(text_page)
    found.objects.clear()
    found.glyphs = with_accents(found.glyphs)
    return found


def _walk(found: PageGlyphs, stream: Source, objects: Sequence[Any], order: int = 0) -> int:
    found.counts[stream] = forms = 0
    styles: dict[object, Style] = {}
    for each in objects:
        order += 1
        match raw.FPDFPageObj_GetType(each):
            case raw.FPDF_PAGEOBJ_TEXT:
                found.objects[_address(each)] = _text_object(
                    each, stream, found.counts[stream], order, styles
                )
                found.counts[stream] += 1
            case raw.FPDF_PAGEOBJ_FORM:
                count = raw.FPDFFormObj_CountObjects(each)
                inner = [raw.FPDFFormObj_GetObject(each, number) for number in range(count)]
                order = _walk(found, (*stream, forms), inner, order)
                forms += 1
            case raw.FPDF_PAGEOBJ_IMAGE if not stream:
                picture = _bounds(each)
                found.pictures.append((order, picture))
                found.rules.append(picture)
            case raw.FPDF_PAGEOBJ_PATH if not stream and len(found.rules) < _MOST_RULES:
                found.rules += _rules_of(each)
    return order


def _text_object(
    each: Any, stream: Source, number: int, order: int, styles: dict[object, Style]
) -> _TextObject:
    size = ctypes.c_float()
    raw.FPDFTextObj_GetFontSize(each, size)
    colour = [ctypes.c_uint() for _ in range(4)]
    raw.FPDFPageObj_GetFillColor(each, *colour)
    red, green, blue, alpha = (part.value for part in colour)
    font = raw.FPDFTextObj_GetFont(each)
    key = (_address(font), red, green, blue)
    if key not in styles:
        styles[key] = _style(font, (red, green, blue))
    visible = alpha > 0 and raw.FPDFTextObj_GetTextRenderMode(each) in _FILLED
    return _TextObject(stream, number, order, styles[key], size.value, visible)


def _style(font: Any, colour: tuple[int, int, int]) -> Style:
    name = ctypes.create_string_buffer(128)
    raw.FPDFFont_GetBaseFontName(font, name, len(name))
    named = name.value.decode("utf-8", "replace").rpartition("+")[2]
    flags = max(0, raw.FPDFFont_GetFlags(font))
    family: Family = "sans"
    if _MATH.search(named):
        family = "math"
    elif flags & _FIXED or _MONO.search(named):
        family = "mono"
    elif not _SANS.search(named) and (flags & _SERIFS or _SERIF.search(named)):
        family = "serif"
    bold = _BOLD.search(named) is not None or flags & _FORCED_BOLD > 0
    return Style(family, bold, _ITALIC.search(named) is not None or flags & _SLANTED > 0, colour)


def _read_characters(
    found: PageGlyphs, text_page: Any, groups: Mapping[Source, Sequence[int]]
) -> None:
    loose, matrix = raw.FS_RECTF(), raw.FS_MATRIX()
    x, y = ctypes.c_double(), ctypes.c_double()
    known: dict[int, tuple[int | None, float]] = {}
    written = guessed = True
    for index in range(raw.FPDFText_CountChars(text_page)):
        code = raw.FPDFText_GetUnicode(text_page, index)
        character = "-" if code == _HYPHEN else chr(code) if code < 0x110000 else "\0"
        if character.isspace():
            written |= not raw.FPDFText_IsGenerated(text_page, index)
            guessed = True
            continue
        address = _address(raw.FPDFText_GetTextObject(text_page, index))
        each = found.objects.get(address)
        if each is None:
            continue
        source = (*each.stream, groups[each.stream][each.number])
        if address not in known:
            raw.FPDFText_GetMatrix(text_page, index, matrix)
            size = abs(each.font_size) * math.hypot(matrix.c, matrix.d)
            known[address] = _turns(matrix), size
        turns, size = known[address]
        unmapped = raw.FPDFText_HasUnicodeMapError(text_page, index) == 1
        unread = unmapped or not _has_meaning(code)
        if not each.visible or turns is None or unread:
            found.fixed.add(source)
            found.unread += each.visible and unread
            continue
        raw.FPDFText_GetCharOrigin(text_page, index, x, y)
        raw.FPDFText_GetLooseCharBox(text_page, index, loose)
        box = Box(loose.left, loose.bottom, loose.right, loose.top).turned(turns)
        left, baseline = turned(x.value, y.value, turns)
        right = max(left, box.right)
        if found.glyphs and _has_same_place(found.glyphs[-1], source, left, right, baseline):
            ligature = found.glyphs[-1]
            found.glyphs[-1] = ligature._replace(text=ligature.text + character)
            continue
        after_space = written
        # PDFium guesses blanks beside superscripts, and in text that is turned.
        if (guessed or turns) and found.glyphs and not written:
            last = found.glyphs[-1]
            near = abs(last.y - baseline) < size / 2 and last.turns == turns
            after_space = not near or abs(left - last.right) > _BLANK * size
        glyph = Glyph(
            *(character, left, right, baseline, size, turns),
            *(each.style, source, after_space),
        )
        found._add(glyph, each.order)
        written = guessed = False


def _has_same_place(
    last: Glyph, source: Source, left: float, right: float, baseline: float
) -> bool:
    """Whether a character belongs to the last glyph: PDFium gives all letters of a ligature."""
    place = (last.source, last.left, last.right, last.y)
    return place == (source, left, right, baseline) and last.text not in COMBINING


def _has_meaning(code: int) -> bool:
    """Whether a character code is neither a control nor in an area for private use."""
    return code == _HYPHEN or 0x20 < code < 0xD800 or (0xF900 <= code < 0xF0000 and code != 0xFFFD)


def _turns(matrix: raw.FS_MATRIX) -> int | None:
    """Quarters by which text is turned to the left; ``None`` if oblique or mirrored."""
    turns, off = divmod(math.degrees(math.atan2(matrix.b, matrix.a)) + 1, 90)
    upright = off < 2 and matrix.a * matrix.d - matrix.b * matrix.c > 0
    return int(turns) % 4 if upright else None


def _rules_of(path: Any) -> Iterator[Box]:
    count = raw.FPDFPath_CountSegments(path)
    if not 2 <= count <= _MOST_SEGMENTS:
        return
    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, matrix)
    x, y = ctypes.c_float(), ctypes.c_float()
    points: list[tuple[float, float]] = []
    start = 0
    for number in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        if raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_MOVETO:
            start = len(points)
            points.append((math.nan, math.nan))
        points.append(
            (
                matrix.a * x.value + matrix.c * y.value + matrix.e,
                matrix.b * x.value + matrix.d * y.value + matrix.f,
            )
        )
        if raw.FPDFPathSegment_GetClose(segment):
            points.append(points[start + 1])
    for (a, b), (c, d) in pairwise(points):
        straight = min(abs(a - c), abs(b - d)) < 1
        if straight and max(abs(a - c), abs(b - d)) >= _SHORTEST_RULE:
            yield Box(min(a, c), min(b, d), max(a, c), max(b, d))


def _bounds(each: Any) -> Box:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    raw.FPDFPageObj_GetBounds(each, left, bottom, right, top)
    return Box(left.value, bottom.value, right.value, top.value)


def _contains(box: Box, x: float, y: float) -> bool:
    return box.left <= x <= box.right and box.bottom <= y <= box.top


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
