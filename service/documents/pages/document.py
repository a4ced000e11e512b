"""A PDF document: texts of its pages, and the same pages with translations."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import pikepdf
import pypdfium2 as pdfium

from service.documents.pages import content as page_content
from service.documents.pages.blocks import Block, Flow, blocks_of, flows_of
from service.documents.pages.glyphs import PageGlyphs, read_glyphs
from service.documents.pages.layout import Layout
from service.documents.pages.lines import lines_of
from service.documents.pages.typefaces import Typefaces
from service.documents.pages.types import Box, Line, Source
from service.documents.pages.typesetting import Letter, Room, Setter, letters_of, shares_of
from service.documents.types import BrokenDocument, Languages, MarkedSource

_MOST_PAGES = 2_000
_MOST_BYTES = 256 * 2**20
"""Limit for all streams but pictures, unpacked."""
_MOST_BYTES_OF_STREAM = 32 * 2**20
_OF_PICTURES = ("/DCTDecode", "/JPXDecode", "/JBIG2Decode", "/CCITTFaxDecode")
_PICTURES = "the pages are pictures without text, as of a scanner"
_UNREAD = "the fonts of the pages do not say which letters they show, as bitmap fonts of TeX"
_ADVICE = "recognise the text (OCR) first"
_WITHOUT_FONT = frozenset(
    {
        *("am", "as", "bn", "bo", "dv", "dz", "gu", "hi", "ja", "km", "kn", "ko", "ml", "mr"),
        *("my", "ne", "or", "pa", "sa", "si", "ta", "te", "th", "ti", "ur", "yue", "zh"),
    }
)
"""Languages whose letters the fonts lack."""


@dataclass(frozen=True, slots=True)
class _PageTexts:
    """Texts of a page; ``None`` instead of one that stays as it is."""

    blocks: tuple[Block, ...]
    flows: tuple[Flow, ...]
    sources: tuple[MarkedSource | None, ...]
    rules: tuple[Box, ...]
    box: Box
    obstacle: str
    """Why the page has no text that can be translated, or little of it; empty if it has."""


class PdfDocument:
    media_type = "application/pdf"

    def __init__(self, content: bytes, languages: Languages) -> None:
        language = languages.target.partition("-")[0].lower()
        if language in _WITHOUT_FONT:
            raise BrokenDocument(
                f"there is no font for {language!r}, so no PDF can be written in this language; "
                "send the text in another format, such as .docx or .txt"
            )
        self._language = languages.target
        with _opened(content) as pdf:
            self._content = content
            self._pages = tuple(_read_pages(pdf))
        self.texts = tuple(
            source for page in self._pages for source in page.sources if source is not None
        )
        obstacles = [page.obstacle for page in self._pages if page.obstacle]
        if not self.texts and obstacles:
            raise BrokenDocument(f"{obstacles[0]}; {_ADVICE}")

    def replaced(self, translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        typefaces = Typefaces()
        with _opened(self._content) as pdf:
            changed: list[pikepdf.Page] = []
            for page, texts in zip(pdf.pages, self._pages, strict=True):
                count = sum(source is not None for source in texts.sources)
                if _write_page(pdf, page, texts, list(islice(remaining, count)), typefaces):
                    changed.append(page)
                if texts.obstacle:
                    _add_note(pdf, page, texts)
            fonts = {f"/{name}": face.embedded(pdf) for name, face in typefaces.used().items()}
            for page in changed:
                known = page.obj.Resources.get("/Font", pikepdf.Dictionary())
                page.obj.Resources.Font = pikepdf.Dictionary(dict(known.items()))
                for name, font in fonts.items():
                    page.obj.Resources.Font[name] = font
            if changed:
                _state_language(pdf, self._language)
            written = io.BytesIO()
            # The same bytes each time: without an identifier of the moment.
            pdf.save(written, deterministic_id=True)
        return written.getvalue()


@contextmanager
def _opened(content: bytes) -> Iterator[pikepdf.Pdf]:
    try:
        with pikepdf.open(io.BytesIO(content)) as pdf:
            _check(pdf)
            yield pdf
    except pikepdf.PasswordError as error:
        raise BrokenDocument("the file is protected by a password; save it without one") from error
    except (pikepdf.PdfError, pdfium.PdfiumError, RecursionError) as error:
        raise BrokenDocument("this is not a PDF, or it is damaged") from error


def _check(pdf: pikepdf.Pdf) -> None:
    """Refuse files that are encrypted or too large; unpacks every stream but pictures once."""
    if pdf.is_encrypted:
        raise BrokenDocument("the file is protected by a password; save it without one")
    if len(pdf.pages) > _MOST_PAGES:
        raise BrokenDocument(
            f"the document has {len(pdf.pages)} pages; at most {_MOST_PAGES} are read: send it in "
            "parts"
        )
    total = 0
    for each in pdf.objects:
        if isinstance(each, pikepdf.Stream) and not _is_picture(each):
            try:
                size = len(each.read_bytes())
            except pikepdf.DataDecodingError as error:
                raise BrokenDocument(
                    "a stream of the document cannot be unpacked: it is damaged or too large"
                ) from error
            total += size
            if size > _MOST_BYTES_OF_STREAM or total > _MOST_BYTES:
                raise BrokenDocument(
                    f"the document has streams of {total} bytes; at most {_MOST_BYTES_OF_STREAM} "
                    f"bytes of one and {_MOST_BYTES} of all are unpacked"
                )


def _is_picture(stream: pikepdf.Stream) -> bool:
    """Whether a stream is packed as a picture, which nothing here unpacks."""
    filters = stream.get("/Filter", pikepdf.Array())
    names = list(filters) if isinstance(filters, pikepdf.Array) else [filters]
    return stream.get("/Subtype") == "/Image" or any(name in _OF_PICTURES for name in names)


def _read_pages(pdf: pikepdf.Pdf) -> Iterator[_PageTexts]:
    normalised = io.BytesIO()
    # PDFium and qpdf repair damaged files in different ways, so both read qpdf's.
    pdf.save(normalised)
    with pdfium.PdfDocument(normalised.getvalue()) as rendered:
        for number, page in enumerate(pdf.pages):
            groups = page_content.groups_of(page)
            shown = rendered[number]
            try:
                found = read_glyphs(shown, groups)
            finally:
                shown.close()
            yield _texts_of(found)


def _texts_of(found: PageGlyphs) -> _PageTexts:
    rules = tuple(found.rules)
    blocks = tuple(blocks_of(lines_of(found.glyphs, rules), rules))
    flows = tuple(flows_of(blocks))
    sources = tuple(_source_of(flow.whole, found.fixed) for flow in flows)
    obstacle = _UNREAD if found.unread > len(found.glyphs) else ""
    if found.pictures and not found.glyphs and not found.unread:
        obstacle = _PICTURES
    return _PageTexts(blocks, flows, sources, rules, found.box, obstacle)


def _sources_in(block: Block) -> set[Source]:
    return {glyph.source for line in block.lines for glyph in line.glyphs}


def _source_of(block: Block, fixed: set[Source]) -> MarkedSource | None:
    """The text of a block, ``None`` if the block stays as it is."""
    if not fixed.isdisjoint(_sources_in(block)) or block.lines[0].is_label:
        return None
    letters = [each for line in block.lines for each in line.glyphs if each.text.isalpha()]
    # A formula has letters, too, but no words.
    words = any(letter.style.family != "math" for letter in letters)
    return block.fragment.source if words else None


def _write_page(
    pdf: pikepdf.Pdf,
    page: pikepdf.Page,
    texts: _PageTexts,
    translations: Sequence[str],
    typefaces: Typefaces,
) -> bool:
    """Replace the texts of a page that have another translation; returns whether any has."""
    remaining = iter(translations)
    written: dict[int, list[Letter]] = {}
    for flow, source in zip(texts.flows, texts.sources, strict=True):
        if source is not None and (translation := next(remaining)) != source.text:
            letters = letters_of(flow.whole, flow.whole.fragment.replaced(translation))
            blocks = [texts.blocks[number] for number in flow.numbers]
            written |= zip(flow.numbers, shares_of(letters, blocks), strict=True)
    if not written:
        return False
    removed = frozenset(
        source for number in written for source in _sources_in(texts.blocks[number])
    )
    layout = Layout(texts.blocks, texts.rules, texts.box)
    drawn: list[bytes] = []
    for number, block in enumerate(texts.blocks):
        if number in written:
            placed = Setter(typefaces, block, layout.room_of(number), written[number]).set()
            layout.take(number, placed.box)
            drawn.append(placed.content)
            continue
        # A group of operators can have glyphs of several blocks, which are then all set anew.
        for line in block.lines:
            if glyphs := tuple(glyph for glyph in line.glyphs if glyph.source in removed):
                drawn.append(_set_again(Line(glyphs), typefaces))
    old = page_content.without(pdf, page, removed)
    page.obj.Contents = pdf.make_stream(b"\n".join([b"q", old, b"Q", *drawn]))
    return True


def _set_again(line: Line, typefaces: Typefaces) -> bytes:
    block = Block((line,))
    room = Room(block.left, block.right, 0.0, "left")
    return Setter(typefaces, block, room, letters_of(block, block.pieces())).set().content


def _add_note(pdf: pikepdf.Pdf, page: pikepdf.Page, texts: _PageTexts) -> None:
    """An annotation in the corner of a page, which leaves the page itself as it is."""
    box = texts.box
    note = pikepdf.Dictionary(
        Type=pikepdf.Name.Annot,
        Subtype=pikepdf.Name.Text,
        Rect=[box.left + 6, box.top - 26, box.left + 26, box.top - 6],
        Contents=f"This text is not translated: {texts.obstacle}; {_ADVICE}.",
        Name=pikepdf.Name.Note,
        C=[1, 0.8, 0],
        F=28,
    )
    known = page.obj.get("/Annots", pikepdf.Array())
    page.obj.Annots = pikepdf.Array([*known, pdf.make_indirect(note)])


def _state_language(pdf: pikepdf.Pdf, language: str) -> None:
    """State the language, and drop the structure tree, whose texts are no longer there."""
    if language:
        pdf.Root.Lang = language
    for key in ("/StructTreeRoot", "/MarkInfo"):
        if key in pdf.Root:
            del pdf.Root[key]
