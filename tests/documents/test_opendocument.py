"""OpenDocument files made with odfpy."""

from __future__ import annotations

import io

import pytest
from odf import office, style, table, teletype, text
from odf.draw import Frame, Page, TextBox
from odf.opendocument import (
    OpenDocumentPresentation,
    OpenDocumentSpreadsheet,
    OpenDocumentText,
    load,
)

from service.documents import BrokenDocument, open_document
from tests.documents.translations import said, shouted
from tests.documents.word import entries, saved_by, with_entry, zip_of


def letter() -> bytes:
    document = OpenDocumentText()
    bold = style.Style(name="B", family="text")
    bold.addElement(style.TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    language = style.Style(name="L", family="text")
    language.addElement(style.TextProperties(language="de", country="DE"))
    document.automaticstyles.addElement(language)
    document.text.addElement(text.H(outlinelevel=1, text="Heading one"))
    paragraph = text.P(text="This is ")
    paragraph.addElement(text.Span(stylename=bold, text="very bold"))
    paragraph.addText(" and")
    paragraph.addElement(text.S(c=2))
    paragraph.addElement(text.Span(stylename=language, text="pla"))
    paragraph.addText("in, see ")
    paragraph.addElement(text.A(href="http://a.example/", text="our site"))
    paragraph.addElement(text.LineBreak())
    paragraph.addText("page ")
    paragraph.addElement(text.PageNumber(text="7"))
    note = text.Note(noteclass="footnote")
    note.addElement(text.NoteCitation(text="1"))
    body = text.NoteBody()
    body.addElement(text.P(text="a note"))
    note.addElement(body)
    paragraph.addElement(note)
    document.text.addElement(paragraph)
    items = text.List()
    item = text.ListItem()
    item.addElement(text.P(text="an item"))
    items.addElement(item)
    document.text.addElement(items)
    return saved_by(document)


def test_text_with_its_formatting_notes_and_lists_is_found() -> None:
    assert said("a.odt", letter()) == [
        "Heading one",
        'This is <g id="1">very bold</g> and plain, see <g id="2">our site</g><n id="3"/>page '
        '<x id="4"/><x id="5"/>',
        "a note",
        "an item",
    ]


def test_translated_text_opens_and_keeps_formatting_fields_and_parts() -> None:
    content = letter()
    written = shouted(open_document("a.odt", content))
    assert list(entries(written)) == list(entries(content))
    after = load(io.BytesIO(written))
    (paragraph, *_) = after.getElementsByType(text.P)
    assert teletype.extractText(paragraph) == (
        "THIS IS VERY BOLD AND PLAIN, SEE OUR SITE\nPAGE 71A NOTE"
    )
    (span,) = after.getElementsByType(text.Span)
    assert (span.getAttribute("stylename"), teletype.extractText(span)) == ("B", "VERY BOLD")
    (link,) = after.getElementsByType(text.A)
    assert link.getAttribute("href") == "http://a.example/"
    assert [teletype.extractText(h) for h in after.getElementsByType(text.H)] == ["HEADING ONE"]


def test_several_blanks_set_texts_apart_and_stay() -> None:
    document = OpenDocumentText()
    paragraph = text.P()
    for words, count in (("", 8), ("the date:", 20), ("the place:", 3)):
        paragraph.addText(words)
        paragraph.addElement(text.S(c=count))
    document.text.addElement(paragraph)
    assert said("a.odt", saved_by(document)) == ['the date:<n id="2"/>the place:']
    written = load(io.BytesIO(shouted(open_document("a.odt", saved_by(document)))))
    found = str(teletype.extractText(written.text))
    assert found == f"{' ' * 8}THE DATE:{' ' * 20}THE PLACE:   "


def test_text_deleted_in_tracked_changes_stays() -> None:
    deleted = (
        b"<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p>"
        b"</text:deletion></text:changed-region></text:tracked-changes><text:h"
    )
    content = with_entry(letter(), "content.xml", lambda data: data.replace(b"<text:h", deleted, 1))
    assert "gone" not in said("a.odt", content)
    assert b"gone" in entries(shouted(open_document("a.odt", content)))["content.xml"]


def sheet() -> bytes:
    document = OpenDocumentSpreadsheet()
    sheet = table.Table(name="Sales")
    row = table.TableRow()
    cells = [
        ({"valuetype": "string"}, "north side"),
        ({"valuetype": "string", "stringvalue": "full text"}, "full text"),
        ({"valuetype": "float", "value": "2"}, "two pieces"),
        ({"formula": "of:=UPPER([.A1])", "valuetype": "string"}, "computed"),
        ({"valuetype": "boolean", "booleanvalue": "true"}, "TRUE"),
    ]
    for attributes, shown in cells:
        cell = table.TableCell(**attributes)
        cell.addElement(text.P(text=shown))
        if shown == "two pieces":
            comment = office.Annotation()
            comment.addElement(text.P(text="a comment"))
            cell.addElement(comment)
        row.addElement(cell)
    sheet.addElement(row)
    document.spreadsheet.addElement(sheet)
    return saved_by(document)


def test_cells_with_text_are_translated_and_formulas_and_numbers_are_not() -> None:
    content = sheet()
    assert said("a.ods", content) == ["north side", "full text", "a comment"]
    after = load(io.BytesIO(shouted(open_document("a.ods", content))))
    cells = after.getElementsByType(table.TableCell)
    assert [teletype.extractText(cell) for cell in cells] == [
        *("NORTH SIDE", "FULL TEXT", "two piecesA COMMENT", "computed", "TRUE"),
    ]
    assert cells[1].getAttribute("stringvalue") is None
    assert cells[3].getAttribute("formula") == "of:=UPPER([.A1])"
    assert after.getElementsByType(table.Table)[0].getAttribute("name") == "Sales"


def presentation() -> bytes:
    document = OpenDocumentPresentation()
    master = style.MasterPage(name="M", pagelayoutname="P")
    document.masterstyles.addElement(master)
    page = Page(masterpagename=master, name="one")
    frame = Frame(width="9cm", height="9cm")
    box = TextBox()
    box.addElement(text.P(text="words on a slide"))
    frame.addElement(box)
    page.addElement(frame)
    document.presentation.addElement(page)
    return saved_by(document)


def test_slides_are_translated() -> None:
    content = presentation()
    assert said("a.odp", content) == ["words on a slide"]
    after = load(io.BytesIO(shouted(open_document("a.odp", content))))
    assert [str(p) for p in after.getElementsByType(text.P)] == ["WORDS ON A SLIDE"]
    assert after.getElementsByType(Page)[0].getAttribute("name") == "one"


def test_encrypted_and_foreign_files_are_refused_by_name() -> None:
    closing, name = b"</manifest:manifest>", "META-INF/manifest.xml"
    protected = with_entry(
        letter(), name, lambda data: data.replace(closing, b"<manifest:encryption-data/>" + closing)
    )
    manifest = {name: entries(protected)[name]}
    for extension, content, reason in (
        ("odt", zip_of(**manifest, **{"encrypted-package": b"\0"}), "protected by a password"),
        ("ods", letter(), r"not an \.ods, but application/vnd\.oasis.*\.text"),
        ("odt", zip_of(a=b"b"), r"not an \.odt: it has no content\.xml"),
    ):
        with pytest.raises(BrokenDocument, match=reason):
            open_document(f"a.{extension}", content)
