from __future__ import annotations

import io
import struct
import zipfile
import zlib

import docx
import pytest
from docx.enum.text import WD_BREAK
from docx.oxml import parse_xml
from docx.shared import Pt
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents.formats.ooxml import open_docx
from service.documents.types import BrokenDocument, characters
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

PART = "word/document.xml"


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
    assert characters(open_docx(report())) == sum(
        map(len, ["Heading one", "This is very bold and plain.", "item one", "left cell"])
    ) + sum(map(len, ["inner cell", "beside a box", "boxed words", "page header", "page footer"]))


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


def test_a_document_may_be_replaced_twice() -> None:
    document = open_docx(report())
    assert entries(shouted(document)) == entries(shouted(document))


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


@pytest.mark.parametrize(
    ("paragraph", "text", "translated"),
    [
        pytest.param(
            '<w:r><w:t xml:space="preserve">see </w:t></w:r><w:hyperlink r:id="rId9"><w:r><w:rPr>'
            '<w:rStyle w:val="Hyperlink"/></w:rPr><w:t>our site</w:t></w:r></w:hyperlink>'
            "<w:r><w:t>!</w:t></w:r>",
            'see <g id="1">our site</g>!',
            ("see", "our site"),
            id="link",
        ),
        pytest.param(
            f'<w:r><w:t xml:space="preserve">on page </w:t></w:r>{field(" PAGE ", "seven")}'
            "<w:r><w:t>there</w:t></w:r>",
            'on page <x id="1"/>there',
            ("on page", "there"),
            id="field",
        ),
        pytest.param(
            "<w:r><w:t>see</w:t></w:r>" + field(' HYPERLINK "http://a" ', "our site"),
            'see<g id="1">our site</g>',
            ("see", "our site"),
            id="hyperlink field",
        ),
    ],
)
def test_text_of_links_is_translated_and_that_of_other_fields_is_not(
    paragraph: str, text: str, translated: tuple[str, ...]
) -> None:
    content = with_paragraph(paragraph)
    assert said(content) == [text]
    expected = inside(content)
    for part in translated:
        expected = expected.replace(part, part.upper())
    assert inside(shouted(open_docx(content))) == expected


def test_breaks_pictures_notes_and_tabs_stay_in_place() -> None:
    between = [
        '<w:r><w:br w:type="page"/></w:r>',
        "<w:r><w:tab/></w:r>",
        '<w:r><w:rPr><w:b/></w:rPr><w:footnoteReference w:id="2"/></w:r>',
        '<w:bookmarkStart w:id="0" w:name="b"/>',
        '<w:del w:id="3"><w:r><w:delText>past</w:delText></w:r></w:del>',
        '<w:commentRangeEnd w:id="4"/>',
    ]
    for element in between:
        content = with_paragraph(f"<w:r><w:t>one</w:t></w:r>{element}<w:r><w:t>two</w:t></w:r>")
        assert inside(shouted(open_docx(content))) == inside(content).replace("one", "ONE").replace(
            "two", "TWO"
        )


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


def test_controls_with_text_are_translated_and_those_with_choices_are_not() -> None:
    def control(kind: str) -> str:
        return (
            f"<w:sdt><w:sdtPr>{kind}</w:sdtPr><w:sdtContent><w:r><w:t>two</w:t></w:r>"
            "</w:sdtContent></w:sdt>"
        )

    one = "<w:r><w:t>one</w:t></w:r>"
    free, choice = with_paragraph(one + control("")), with_paragraph(one + control("<w:date/>"))
    assert said(free) == ['one<g id="1">two</g>']
    assert said(choice) == ['one<x id="1"/>']
    assert inside(shouted(open_docx(free))) == inside(free).replace("one", "ONE").replace(
        "two", "TWO"
    )
    assert inside(shouted(open_docx(choice))) == inside(choice).replace("one", "ONE")


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


def test_a_deeply_nested_paragraph_is_read() -> None:
    nested = "<w:ins>" * 200 + "<w:r><w:t>one</w:t></w:r>" + "</w:ins>" * 200
    assert "<w:t>ONE</w:t>" in inside(shouted(open_docx(with_paragraph(nested))))


def with_doctype(data: bytes) -> bytes:
    head, declaration, rest = data.partition(b"?>")
    entity = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]>'
    return head + declaration + entity + rest.replace(b"Heading one", b"&b;")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a zip file"),
        (b"just words", "not a zip file"),
        (b"\xd0\xcf\x11\xe0" + b"\0" * 600, "a .doc file or has a password"),
        (report()[:-40], "not a zip file"),
        (zip_of(a=b"b"), "no list of content types"),
        (with_entry(report(), "[Content_Types].xml", lambda _: b"<Types/>"), "no document of Word"),
        (with_entry(report(), PART, lambda data: data[:-9]), "document.xml is not well-formed XML"),
        (with_entry(report(), PART, with_doctype), "document.xml declares entities"),
    ],
)
def test_broken_files_are_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument, match=reason):
        open_docx(content)


def test_a_missing_part_is_named() -> None:
    content = with_entry(
        report(),
        "[Content_Types].xml",
        lambda data: data.replace(b"/word/document.xml", b"/word/documents.xml"),
    )
    with pytest.raises(BrokenDocument, match=r"lacks its part word/documents\.xml"):
        open_docx(content)


def test_a_corrupt_byte_is_detected_on_opening() -> None:
    content = bytearray(report())
    name = content.index(b"word/document.xml")
    content[name + 200] ^= 0xFF
    with pytest.raises(BrokenDocument, match=r"damaged at word/document\.xml"):
        open_docx(bytes(content))


def test_a_zip_entry_with_a_false_size_is_refused() -> None:
    content = zip_of(part=bytes(2**20))
    size = struct.pack("<I", 2**20)
    assert content.count(size) == 2
    with pytest.raises(BrokenDocument, match="damaged at part"):
        open_docx(content.replace(size, struct.pack("<I", 100)))


def test_duplicate_entries_and_passwords_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("a", b"")
        file.writestr("a", b"")
    with pytest.raises(BrokenDocument, match="several entries of one name"):
        open_docx(stream.getvalue())
    content = bytearray(zip_of(a=b"secret"))
    directory = content.index(b"PK\x01\x02")
    content[directory + 8] |= 1
    with pytest.raises(BrokenDocument, match="protected by a password"):
        open_docx(bytes(content))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_damage_of_any_kind_raises_broken_document(place: int, damage: bytes) -> None:
    content = bytearray(zip_of(**{"[Content_Types].xml": b"<Types/>", "b": zlib.compress(b"c")}))
    place %= len(content)
    content[place : place + len(damage)] = damage
    with pytest.raises(BrokenDocument):
        open_docx(bytes(content))
