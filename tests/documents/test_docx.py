from __future__ import annotations

import io
import re
import struct
import zlib

import docx
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.shared import Pt
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents.formats.ooxml import open_docx
from service.documents.types import BrokenDocument
from tests.documents.translations import shouted, unchanged
from tests.documents.word import (
    NAMESPACES,
    entries,
    inside,
    saved,
    with_entry,
    with_paragraph,
    zip_of,
)

PART, TYPES = "word/document.xml", "[Content_Types].xml"


def report() -> bytes:
    """A document with text in every supported place."""
    document = docx.Document()
    document.core_properties.title = "untouched"
    document.add_heading("Heading one", level=1)
    paragraph = document.add_paragraph("This is ")
    paragraph.add_run("very bold").bold = True
    paragraph.add_run(" and plain.")
    document.add_paragraph("item one", style="List Bullet")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text = "left cell"
    inner = table.cell(0, 1).add_table(rows=1, cols=1)
    inner.cell(0, 0).text = "inner cell"
    document.sections[0].header.paragraphs[0].text = "page header"
    document.sections[0].footer.paragraphs[0].text = "page footer"
    box = (
        f"<w:r {NAMESPACES}><w:pict><v:shape><v:textbox><w:txbxContent>"
        "<w:p><w:r><w:t>boxed words</w:t></w:r></w:p>"
        "</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
    )
    document.add_paragraph("beside a box")._p.append(parse_xml(box))
    document.add_paragraph("…")
    return saved(document)


def field(code: str, shown: str) -> str:
    return (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f"<w:r><w:instrText>{code}</w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        f'<w:r><w:t>{shown}</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


def said(content: bytes) -> list[str]:
    return [source.text for source in open_docx(content).texts]


def test_text_is_found_in_all_parts_of_a_document() -> None:
    assert said(report()) == [
        "Heading one",
        'This is <g id="1">very bold</g> and plain.',
        "item one",
        "left cell",
        "inner cell",
        'beside a box<x id="1"/>',
        "boxed words",
        "page footer",
        "page header",
    ]


def test_only_changed_parts_are_rewritten() -> None:
    content = report()
    document = open_docx(content)
    texts = [source.text for source in document.texts]
    after = entries(document.replaced(["Kopf" if t == "page header" else t for t in texts]))
    changed = {name for name, data in entries(content).items() if after[name] != data}
    assert len(changed) == 1
    assert changed.pop().startswith("word/header")


def test_a_translated_document_opens_and_keeps_its_formatting() -> None:
    before = docx.Document(io.BytesIO(report()))
    after = docx.Document(io.BytesIO(shouted(open_docx(report()))))
    assert [p.text for p in after.paragraphs] == [p.text.upper() for p in before.paragraphs]
    assert [p.style and p.style.name for p in after.paragraphs] == [
        p.style and p.style.name for p in before.paragraphs
    ]
    assert [run.bold for run in after.paragraphs[1].runs] == [None, True, None]
    assert after.tables[0].cell(0, 0).text == "LEFT CELL"
    assert after.sections[0].header.paragraphs[0].text == "PAGE HEADER"
    assert after.core_properties.title == "untouched"


def test_runs_of_equal_format_are_one_text() -> None:
    content = with_paragraph(
        '<w:r><w:rPr><w:lang w:val="en-US"/></w:rPr><w:t>Hel</w:t></w:r><w:proofErr w:type="x"/>'
        '<w:r w:rsidR="1"><w:t xml:space="preserve">lo </w:t></w:r><w:r><w:t>you</w:t></w:r>'
    )
    assert said(content) == ["Hello you"]
    assert inside(open_docx(content).replaced(["Hallo"])) == (
        '<w:r><w:rPr><w:lang w:val="en-US"/></w:rPr><w:t>Hallo</w:t></w:r>'
    )


def test_formatting_moves_with_its_words() -> None:
    content = with_paragraph(
        '<w:pPr><w:jc w:val="right"/></w:pPr><w:r><w:t xml:space="preserve">a big </w:t></w:r>'
        "<w:r><w:rPr><w:i/></w:rPr><w:t>red</w:t></w:r>"
        '<w:r><w:t xml:space="preserve"> house</w:t></w:r>'
    )
    document = open_docx(content)
    assert inside(document.replaced(['une maison <g id="1">rouge</g> &amp; plus'])) == (
        '<w:pPr><w:jc w:val="right"/></w:pPr><w:r><w:t>une maison </w:t></w:r>'
        "<w:r><w:rPr><w:i/></w:rPr><w:t>rouge</w:t></w:r><w:r><w:t> &amp; plus</w:t></w:r>"
    )


def run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def control(kind: str) -> str:
    return f"<w:sdt><w:sdtPr>{kind}</w:sdtPr><w:sdtContent>{run('two')}</w:sdtContent></w:sdt>"


LINK = (
    '<w:hyperlink r:id="rId9"><w:r><w:rPr><w:rStyle w:val="Hyperlink"/></w:rPr><w:t>site</w:t>'
    "</w:r></w:hyperlink>"
)
PARAGRAPHS = {
    run("see ") + LINK + run("!"): 'see <g id="1">site</g>!',
    run("page ") + field(" PAGE ", "seven") + run("there"): 'page <x id="1"/>there',
    run("see") + field(' HYPERLINK "http://a" ', "site"): 'see<g id="1">site</g>',
    run("one") + control(""): 'one<g id="1">two</g>',
    run("one") + control("<w:date/>"): 'one<x id="1"/>',
    run("one") + f"<w:customXml><w:customXmlPr/>{run('two')}</w:customXml>": 'one<g id="1">two</g>',
    "<w:ins>" * 200 + run("one") + "</w:ins>" * 200: "one",
    **{
        run("one") + element + run("two"): text
        for element, text in {
            '<w:r><w:br w:type="page"/></w:r>': 'one<n id="1"/>two',
            "<w:r><w:tab/></w:r>": 'one<n id="1"/>two',
            '<w:r><w:rPr><w:b/></w:rPr><w:footnoteReference w:id="2"/></w:r>': 'one<x id="1"/>two',
            '<w:bookmarkStart w:id="0" w:name="b"/>': 'one<x id="1"/>two',
            '<w:del w:id="3"><w:r><w:delText>past</w:delText></w:r></w:del>': 'one<x id="1"/>two',
            '<w:commentRangeEnd w:id="4"/>': 'one<x id="1"/>two',
        }.items()
    },
}
"""Each paragraph, and its text to translate."""


@pytest.mark.parametrize("paragraph", PARAGRAPHS, ids=range(len(PARAGRAPHS)))
def test_text_of_links_and_controls_is_translated_and_other_elements_stay(paragraph: str) -> None:
    content = with_paragraph(paragraph)
    assert said(content) == [PARAGRAPHS[paragraph]]
    expected = inside(content)
    for word in re.sub("<.*?>", " ", PARAGRAPHS[paragraph]).split():
        expected = expected.replace(f">{word}", f">{word.upper()}")
    assert inside(shouted(open_docx(content))) == expected


def test_marks_and_breaks_at_the_edges_are_not_sent_to_translation() -> None:
    content = with_paragraph(
        '<w:bookmarkStart w:id="0" w:name="b"/><w:r><w:tab/><w:t>one</w:t><w:br/></w:r>'
        '<w:bookmarkEnd w:id="0"/>'
    )
    assert said(content) == ["one"]
    assert inside(shouted(open_docx(content))) == (
        '<w:bookmarkStart w:id="0" w:name="b"/><w:r><w:tab/></w:r><w:r><w:t>ONE</w:t></w:r>'
        '<w:r><w:br/></w:r><w:bookmarkEnd w:id="0"/>'
    )


RUNS = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), max_size=6),
        st.booleans(),
        st.sampled_from(["", "tab", "line", "page"]),
        st.sampled_from([None, Pt(9), Pt(20)]),
    ),
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(RUNS)
def test_every_character_keeps_its_formatting(runs: list[tuple[str, bool, str, Pt | None]]) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for text, bold, ends, size in runs:
        run = paragraph.add_run(text)
        run.bold = bold
        run.font.size = size
        if ends == "tab":
            run.add_tab()
        elif ends:
            run.add_break(WD_BREAK.LINE if ends == "line" else WD_BREAK.PAGE)
    content = saved(document)
    assert entries(unchanged(open_docx(content))) == entries(content)

    def looks(content: bytes) -> list[tuple[str, bool | None, Pt | None]]:
        (paragraph, *_) = docx.Document(io.BytesIO(content)).paragraphs
        return [
            (character, run.bold, run.font.size)  # type: ignore[misc]
            for run in paragraph.runs
            for character in run.text
            if not character.isspace()
        ]

    swapped = open_docx(content)
    marked = swapped.replaced([source.text + "." for source in swapped.texts])
    assert [look for look in looks(marked) if look[0] != "."] == [
        look for look in looks(content) if look[0] != "."
    ]


def test_a_document_without_words_has_no_texts() -> None:
    document = open_docx(saved(docx.Document()))
    assert document.texts == ()
    assert docx.Document(io.BytesIO(document.replaced([]))).paragraphs == []


def with_doctype(data: bytes) -> bytes:
    head, declaration, rest = data.partition(b"?>")
    entity = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]>'
    return head + declaration + entity + rest.replace(b"Heading one", b"&b;")


@pytest.mark.parametrize("name", ["of its extension", "in capitals"])
def test_the_content_type_of_the_document_is_found(name: str) -> None:
    def change(data: bytes) -> bytes:
        if name == "in capitals":
            return data.replace(b"/word/document.xml", b"/Word/Document.xml")
        overriding = re.compile(rb'<Override PartName="/word/document.xml" ContentType="([^"]*)"/>')
        kind = overriding.findall(data)[0]
        default = b'<Default Extension="xml" ContentType="'
        return overriding.sub(b"", data).replace(default + b"application/xml", default + kind)

    content = with_entry(report(), TYPES, change)
    assert content != report()
    assert said(content) == said(report())


def with_corrupt_byte() -> bytes:
    content = bytearray(report())
    content[content.index(PART.encode()) + 200] ^= 0xFF
    return bytes(content)


def with_false_size() -> bytes:
    size = struct.pack("<I", 2**20)
    return zip_of(part=bytes(2**20)).replace(size, struct.pack("<I", 100))


def with_equal_names() -> bytes:
    return zip_of(a=b"", b=b"").replace(b"b", b"a")


def with_password() -> bytes:
    content = bytearray(zip_of(a=b"secret"))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zip_of(a=b"b"), "no list of content types"),
        (with_entry(report(), TYPES, lambda _: b"<Types/>"), "no document of Word"),
        (with_entry(report(), PART, with_doctype), "document.xml declares entities"),
        (
            with_entry(report(), TYPES, lambda data: data.replace(b"t.xml", b"ts.xml")),
            r"lacks its part word/documents\.xml",
        ),
        (with_corrupt_byte(), r"damaged at word/document\.xml"),
        (with_false_size(), "damaged at part"),
        (with_equal_names(), "several entries of one name"),
        (with_password(), "protected by a password"),
    ],
)
def test_broken_files_are_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument, match=reason):
        open_docx(content)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_damage_of_any_kind_raises_broken_document(place: int, damage: bytes) -> None:
    content = bytearray(zip_of(**{TYPES: b"<Types/>", "b": zlib.compress(b"c")}))
    place %= len(content)
    content[place : place + len(damage)] = damage
    with pytest.raises(BrokenDocument):
        open_docx(bytes(content))
