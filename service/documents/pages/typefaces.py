"""Fonts of translated text: measures and shapes words, and embeds the glyphs that are used.

The fonts are those that matplotlib brings: DejaVu Sans and Mono, and STIX as the serif font, each
upright and italic, regular and bold. DejaVu Sans is set at 90 % of its width, as in DejaVu Sans
Condensed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

import pikepdf
import uharfbuzz as hb

from service.documents.pages.types import Style

_FILES = {
    "sans": ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    "mono": (
        *("DejaVuSansMono", "DejaVuSansMono-Bold"),
        *("DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    ),
    "math": ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    "serif": ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
}
"""Regular, bold, italic, and bold and italic files of a family."""
_CONDENSED, _SMALLER = 0.9, 0.95
"""Width and size at which DejaVu Sans takes the room of Helvetica."""
_FEATURES = {"kern": False, "liga": False, "clig": False}
"""Ligatures and kerning are off, so that lines are as wide as the advances that fonts state."""
_SYMBOLIC = 4


@dataclass(frozen=True, slots=True)
class ShapedGlyph:
    number: int
    """Index in its font."""
    text: str
    """Characters that the glyph stands for; empty where the glyph before it has them."""
    advance: float
    """Width in ems of the text, of which the font is a part."""
    x: float
    """Shift to the right in the same ems."""


class Typeface:
    """A font file, and the glyphs of it that a document uses."""

    def __init__(self, file: str, width: float, size: float) -> None:
        blob = hb.Blob.from_file_path(str(_directory() / f"{file}.ttf"))
        self._name = file
        self._face = hb.Face(blob)
        self._font = hb.Font(self._face)
        self.width = width
        """Part of its natural width at which the font is set."""
        self.size = size
        """Part of the size of a text at which the font looks as large as others."""
        self._em: float = self._face.upem / (size * width)
        self._used: dict[int, ShapedGlyph] = {}
        self._shaped: dict[tuple[str, bool], tuple[ShapedGlyph, ...]] = {}

    def has(self, character: str) -> bool:
        return self._font.get_nominal_glyph(ord(character)) is not None

    def shaped(self, text: str, right_to_left: bool = False) -> tuple[ShapedGlyph, ...]:
        """Glyphs of a text in one direction, from left to right."""
        if (text, right_to_left) not in self._shaped:
            self._shaped[text, right_to_left] = tuple(self._shape(text, right_to_left))
        return self._shaped[text, right_to_left]

    def _shape(self, text: str, right_to_left: bool) -> Iterator[ShapedGlyph]:
        buffer = hb.Buffer()
        buffer.add_str(text)
        # Marks are clusters of their own, so that each glyph has its characters.
        buffer.cluster_level = hb.BufferClusterLevel.MONOTONE_CHARACTERS
        buffer.guess_segment_properties()
        buffer.direction = "rtl" if right_to_left else "ltr"
        hb.shape(self._font, buffer, _FEATURES)
        clusters = sorted({info.cluster for info in buffer.glyph_infos} | {len(text)})
        ends = dict(pairwise(clusters))
        named: set[int] = set()
        for info, place in zip(buffer.glyph_infos, buffer.glyph_positions, strict=True):
            meaning = "" if info.cluster in named else text[info.cluster : ends[info.cluster]]
            named.add(info.cluster)
            yield ShapedGlyph(
                info.codepoint,
                meaning,
                place.x_advance / self._em,
                place.x_offset / self._em,
            )

    def natural(self, glyph: ShapedGlyph) -> float:
        """Width that the font states for a glyph, in ems of the text."""
        advance = float(self._font.get_glyph_h_advance(glyph.number))
        return advance / self._em

    def use(self, glyph: ShapedGlyph) -> None:
        """Have a glyph embedded."""
        self._used.setdefault(glyph.number, glyph)

    def embedded(self, pdf: pikepdf.Pdf) -> pikepdf.Object:
        """The font with the used glyphs, whose codes are their indices in two bytes."""
        subset = hb.SubsetInput()
        subset.flags = hb.SubsetFlags.RETAIN_GIDS | hb.SubsetFlags.NOTDEF_OUTLINE
        subset.glyph_set.update(self._used)
        face = hb.subset(self._face, subset)
        program = bytes(face.blob.data)
        name = pikepdf.Name(f"/DRAGOM+{self._name}")
        extents = self._font.get_font_extents("ltr")
        scale = 1000 / self._face.upem
        descriptor = pdf.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.FontDescriptor,
                FontName=name,
                Flags=_SYMBOLIC,
                FontBBox=[-1000, round(extents.descender * scale), 2000, 1000],
                ItalicAngle=-12 if "Ital" in self._name or "Obli" in self._name else 0,
                Ascent=round(extents.ascender * scale),
                Descent=round(extents.descender * scale),
                CapHeight=700,
                StemV=140 if "Bol" in self._name else 80,
                FontFile2=pdf.make_stream(program, Length1=len(program)),
            )
        )
        widths = pikepdf.Array()
        for number in sorted(self._used):
            advance = self._font.get_glyph_h_advance(number) * scale
            widths.append(number)
            widths.append(pikepdf.Array([round(advance, 2)]))
        descendant = pikepdf.Dictionary(
            Type=pikepdf.Name.Font,
            Subtype=pikepdf.Name.CIDFontType2,
            BaseFont=name,
            CIDSystemInfo=pikepdf.Dictionary(Registry="Adobe", Ordering="Identity", Supplement=0),
            CIDToGIDMap=pikepdf.Name.Identity,
            DW=1000,
            W=widths,
            FontDescriptor=descriptor,
        )
        return pdf.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Font,
                Subtype=pikepdf.Name.Type0,
                BaseFont=name,
                Encoding=pikepdf.Name("/Identity-H"),
                DescendantFonts=[pdf.make_indirect(descendant)],
                ToUnicode=pdf.make_stream(self._to_unicode()),
            )
        )

    def _to_unicode(self) -> bytes:
        pairs = [
            f"<{number:04x}> <{glyph.text.encode('utf-16-be').hex()}>"
            for number, glyph in sorted(self._used.items())
            if glyph.text
        ]
        lines = [
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap",
            "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def",
            "/CMapName /Adobe-Identity-UCS def /CMapType 2 def",
            "1 begincodespacerange <0000> <ffff> endcodespacerange",
        ]
        for start in range(0, len(pairs), 100):
            part = pairs[start : start + 100]
            lines += [f"{len(part)} beginbfchar", *part, "endbfchar"]
        lines.append("endcmap CMapName currentdict /CMap defineresource pop end end")
        return "\n".join(lines).encode()


@dataclass(slots=True)
class Typefaces:
    """Fonts of one document, opened at their first use."""

    _opened: dict[str, Typeface] = field(default_factory=dict)

    def of(self, style: Style, character: str) -> Typeface:
        """The font of a style; DejaVu Sans if it lacks the character."""
        chosen = self._open(style.family, style)
        return chosen if chosen.has(character) else self._open("sans", style)

    def used(self) -> dict[str, Typeface]:
        """Fonts by their file."""
        return self._opened

    def name_of(self, typeface: Typeface) -> str:
        return next(name for name, each in self._opened.items() if each is typeface)

    def _open(self, family: str, style: Style) -> Typeface:
        file = _FILES[family][style.bold + 2 * style.italic]
        if file not in self._opened:
            sans = family == "sans"
            self._opened[file] = Typeface(
                file, _CONDENSED if sans else 1.0, _SMALLER if sans else 1.0
            )
        return self._opened[file]


@cache
def _directory() -> Path:
    """Directory of matplotlib's fonts; the package itself would take long to import."""
    found = importlib.util.find_spec("matplotlib")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the fonts of matplotlib are not installed")
    return Path(found.submodule_search_locations[0], "mpl-data", "fonts", "ttf")
