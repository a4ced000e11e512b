"""Slides and sheets made with python-pptx and openpyxl."""

from __future__ import annotations

import io

import openpyxl
import pptx
import xlsxwriter
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.comments import Comment
from openpyxl.worksheet.table import Table
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.presentation import Presentation
from pptx.util import Inches, Pt

from service.documents import open_document
from tests.documents.translations import said, shouted, translated, unchanged
from tests.documents.word import entries, saved_by, with_entry


def slides() -> bytes:
    """Slides with every kind of text that is translated."""
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "The first slide"
    frame = slide.placeholders[1].text_frame
    frame.text = "one line"
    paragraph = frame.add_paragraph()
    for text, bold in (("plain and ", None), ("bold", True), (" words", None)):
        run = paragraph.add_run()
        run.text, run.font.bold = text, bold
    paragraph.add_line_break()
    linked = paragraph.add_run()
    linked.text = "our site"
    linked.hyperlink.address = "http://a.example/"
    frame.add_paragraph().font.size = Pt(9)
    cells = slide.shapes.add_table(1, 2, 0, 0, Inches(2), Inches(1)).table
    cells.cell(0, 0).text, cells.cell(0, 1).text = "left cell", "12.5"
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 99, 99).text_frame.text = "grouped words"
    slide.notes_slide.notes_text_frame.text = "spoken notes"
    numbers = CategoryChartData()
    numbers.categories = ["east"]
    numbers.add_series("sales", (1,))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, 99, 99, numbers).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "chart title"
    for number in range(2, 11):
        last = show.slides.add_slide(show.slide_layouts[5])
        last.shapes.title.text = f"slide number {number}"
    return saved_by(show)


def texts_of(show: Presentation) -> list[str]:
    return [
        shape.text_frame.text
        for slide in show.slides
        for shape in slide.shapes
        if shape.has_text_frame
    ]


def test_text_of_slides_tables_groups_notes_and_charts_is_found_in_order() -> None:
    found = said("a.pptx", slides())
    assert found[:7] == [
        "chart title",
        "spoken notes",
        "The first slide",
        "one line",
        'plain and <g id="1">bold</g> words<n id="2"/><g id="3">our site</g>',
        "left cell",
        "12.5",
    ]
    assert found[7:] == ["grouped words", *(f"slide number {n}" for n in range(2, 11))]


def test_translated_slides_open_and_keep_formatting_links_and_parts() -> None:
    content = slides()
    written = shouted(open_document("a.pptx", content))
    before, after = (pptx.Presentation(io.BytesIO(each)) for each in (content, written))
    assert texts_of(after) == [text.upper() for text in texts_of(before)]
    paragraphs = [show.slides[0].placeholders[1].text_frame.paragraphs for show in (before, after)]
    looks = [[(r.text.upper(), r.font.bold) for r in each[1].runs] for each in paragraphs]
    assert looks[0] == looks[1]
    assert paragraphs[1][1].runs[-1].hyperlink.address == "http://a.example/"
    assert paragraphs[1][2].font.size == Pt(9)
    assert after.slides[0].shapes[2].table.cell(0, 0).text == "LEFT CELL"
    assert after.slides[0].notes_slide.notes_text_frame.text == "SPOKEN NOTES"
    assert list(entries(written)) == list(entries(content))


def test_fields_stay_and_the_end_of_a_paragraph_stays_last() -> None:
    def with_field(data: bytes) -> bytes:
        field = (
            b'<a:r><a:rPr lang="de"/><a:t>page </a:t></a:r><a:fld id="{B}" type="slidenum">'
            b'<a:rPr lang="en"/><a:t>seven</a:t></a:fld><a:endParaRPr lang="de"/>'
        )
        return data.replace(b"<a:r><a:t>one line</a:t></a:r>", field)

    content = with_entry(slides(), "ppt/slides/slide1.xml", with_field)
    assert 'page <x id="1"/>' in said("a.pptx", content)
    written = entries(shouted(open_document("a.pptx", content)))["ppt/slides/slide1.xml"]
    assert (
        b'<a:r><a:rPr lang="de"/><a:t>PAGE </a:t></a:r><a:fld id="{B}" type="slidenum">'
        b'<a:rPr lang="en"/><a:t>seven</a:t></a:fld><a:endParaRPr lang="de"/></a:p>'
    ) in written


def sheets() -> bytes:
    """A workbook with text, numbers, formulas, a table, rich text, a comment and a chart sheet."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Sales"
    sheet.append(["Region", "Sum"])
    sheet.append(["north side", 12.5])
    sheet.append(["north side", "=SUM(B2:B2)"])
    sheet.add_table(Table(displayName="Numbers", ref="A1:B3"))
    sheet["D1"] = 'two\nlines "quoted"'
    sheet["D2"] = '=IF(B2>1,"large","small")'
    sheet["D3"] = CellRichText("plain ", TextBlock(InlineFont(b=True), "bold"), " end")
    sheet["D4"] = True
    sheet["D2"].comment = Comment("look here", "me")
    sheet["D1"].number_format = "@"
    return saved_by(book)


def test_cells_with_text_are_translated_and_formulas_numbers_and_columns_are_not() -> None:
    content = sheets()
    assert said("a.xlsx", content) == [
        "look here",
        'two\nlines "quoted"',
        *["north side"] * 2,
        'plain <g id="1">bold</g> end',
    ]
    written = shouted(open_document("a.xlsx", content))
    after = openpyxl.load_workbook(io.BytesIO(written), rich_text=True)["Sales"]
    assert [[cell.value for cell in row] for row in after["A1:B3"]] == [
        ["Region", "Sum"],
        ["NORTH SIDE", 12.5],
        ["NORTH SIDE", "=SUM(B2:B2)"],
    ]
    assert after["D1"].value == 'TWO\nLINES "QUOTED"'
    assert after["D1"].number_format == "@"
    assert after["D2"].value == '=IF(B2>1,"large","small")'
    assert after["D3"].value == CellRichText(
        "PLAIN ", TextBlock(InlineFont(b=True), "BOLD"), " END"
    )
    assert after["D4"].value is True
    assert after["D2"].comment.text == "LOOK HERE"
    assert after.tables["Numbers"].column_names == ["Region", "Sum"]
    changed = {name for name, data in entries(content).items() if entries(written)[name] != data}
    assert changed == {"xl/worksheets/sheet1.xml", "xl/comments/comment1.xml"}


def test_text_that_cells_share_is_translated_once() -> None:
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream)
    sheet = book.add_worksheet()
    for row in range(3):
        sheet.write_string(row, 0, "shared text")
        sheet.write_formula(row, 1, '=LEN("shared text")', None, 11)
    sheet.write_rich_string(3, 0, book.add_format({"italic": True}), "italic", " plain words")
    book.close()
    content = stream.getvalue()
    assert said("a.xlsx", content) == ["shared text", '<g id="1">italic</g> plain words']
    written = shouted(open_document("a.xlsx", content))
    after = openpyxl.load_workbook(io.BytesIO(written), rich_text=True).active
    assert [after.cell(row, 1).value for row in (1, 2, 3)] == ["SHARED TEXT"] * 3
    assert after["B3"].value == '=LEN("shared text")'
    assert [str(part) for part in after["A4"].value] == ["ITALIC", " PLAIN WORDS"]
    changed = {name for name, data in entries(content).items() if entries(written)[name] != data}
    assert changed == {"xl/sharedStrings.xml"}


def test_escaped_characters_of_a_cell_are_no_text() -> None:
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream)
    sheet = book.add_worksheet()
    sheet.write_column(0, 0, ["one\r\ntwo", "bell \x07 rings", "say _x0041_ twice"])
    book.close()
    content = stream.getvalue()
    assert b"_x000D_" in entries(content)["xl/sharedStrings.xml"]
    assert said("a.xlsx", content) == ["one\r\ntwo", 'bell <x id="1"/> rings', "say _x0041_ twice"]
    assert entries(unchanged(open_document("a.xlsx", content))) == entries(content)
    kept = translated(open_document("a.xlsx", content), lambda text: text.replace("say", "said"))
    assert b">said _x005F_x0041_ twice<" in entries(kept)["xl/sharedStrings.xml"]
