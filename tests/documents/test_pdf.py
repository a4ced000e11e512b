"""PDF: paragraphs, cells and columns are found, and translations are set in their boxes."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import docx
import pikepdf
import pytest
from PIL import ImageChops
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph

from service.documents import BrokenDocument, Document, Languages, open_document
from service.documents.pages.bidi import visual_runs
from service.documents.pages.lines import lines_of
from service.documents.pages.typefaces import Typefaces
from service.documents.pages.types import Glyph, Style
from tests.documents.pdf import (
    DAY,
    MILLIMETRE,
    changed,
    drawing,
    drawn,
    form,
    letters,
    newspaper,
    picture,
    scan,
    words,
)
from tests.documents.translations import mapped, said, translated

NEWSPAPER = newspaper()
ENGLISH = Languages("de", "en")


def open_(content: bytes, languages: Languages = ENGLISH) -> Document:
    return open_document("a.pdf", content, languages)


def written(content: bytes, change: Callable[[str], str]) -> bytes:
    return translated(open_(content), change)


def longer(text: str) -> str:
    return f"{text} und noch ein paar Wörter dazu" if text.strip() else text


def test_paragraphs_headings_and_cells_are_texts() -> None:
    day = DAY.replace("<b>", '<g id="1">').replace("</b>", "</g>")
    cells = ["Ware", "Menge", "Preis", "Rote Äpfel", "Kalte Milch"]
    # The eighth paragraph continues in the second column.
    assert said("a.pdf", NEWSPAPER) == ["Ein Tag im Winter", *[day] * 4, *cells, *[day] * 5]


@pytest.mark.parametrize("change", [str.upper, longer, lambda text: text[: len(text) // 2 + 1]])
def test_translations_begin_where_their_sources_do_and_never_overlap(
    change: Callable[[str], str],
) -> None:
    before, after = letters(NEWSPAPER), letters(written(NEWSPAPER, change))
    assert not after.overlaps()
    for words_ in ("Ware", "Preis", "Rote Äpfel"):
        left, _, _, top = before.box_of(words_)
        moved = after.box_of(change(words_).split()[0])
        assert abs(moved[0] - left) < 2 * MILLIMETRE
        assert abs(moved[3] - top) < 2 * MILLIMETRE
    # Columns keep to their sides, and no line leaves them.
    assert all(box[2] < 290 or box[0] > 305 for box in after.boxes if box[3] < 650)
    assert max(box[2] for box in after.boxes) < 306 + 216


def test_a_raised_or_lowered_number_is_part_of_its_line() -> None:
    style = getSampleStyleSheet()["BodyText"]
    line = Paragraph("Es gilt mc<super>2</super> und x<sub>1</sub> heute", style)
    line.wrap(400, 100)
    (text,) = said("a.pdf", drawn(lambda canvas: line.drawOn(canvas, 72, 700)))
    assert re.sub("<.*?>", "", text) == "Es gilt mc2 und x1 heute"


def test_no_word_of_a_translation_is_lost() -> None:
    document = open_(NEWSPAPER)
    text = letters(translated(document, longer)).words.replace("- ", "-")
    assert text.count("und noch ein paar Wörter dazu") == len(document.texts) + 2 * 9
    assert text.count("tiefen Schnee") == 9


def test_pictures_graphics_and_text_without_letters_stay() -> None:
    page = drawn(drawing)
    assert said("a.pdf", page) == ["Bericht vom Montag", "Der Brief", "Am Rand"]
    after = written(page, str.upper)
    place = letters(after)
    assert abs(place.box_of("BERICHT VOM MONTAG")[2] - 523) < MILLIMETRE
    turned = place.box_of("AM RAND")
    assert turned[3] - turned[1] > 30 > turned[2] - turned[0]
    assert "Entwurf" in place.text
    images = [picture(each) for each in (page, after)]
    # Top, right: text; below: a picture, a curve, a number.
    below = [image.crop((0, 150, 480, image.height)) for image in images]
    assert ImageChops.difference(*below).getbbox() is None
    assert ImageChops.difference(*images).getbbox() is not None


def test_fields_of_a_form_keep_their_values() -> None:
    with pikepdf.open(io.BytesIO(written(drawn(form), str.upper))) as pdf:
        assert str(pdf.Root.AcroForm.Fields[0].V) == "Anna"
        assert pdf.Root.Lang == "en"
    assert said("a.pdf", drawn(form)) == ["Vorname"]


def test_a_form_that_two_pages_show_is_translated_on_each() -> None:
    def share(pdf: pikepdf.Pdf) -> None:
        pdf.pages.append(pdf.pages[0])

    after = written(changed(drawn(drawing), share), str.upper)
    assert all("DER BRIEF" in letters(after, number).text for number in (0, 1))


def test_a_page_without_text_gets_a_note_and_stays() -> None:
    content = drawn(words, scan)
    after = written(content, str.upper)
    with pikepdf.open(io.BytesIO(after)) as pdf:
        assert "without text" in str(pdf.pages[1].Annots[0].Contents)
        assert "/Annots" not in pdf.pages[0]
        pdf.pages[1].obj.Annots = pikepdf.Array()
        plain = io.BytesIO()
        pdf.save(plain)
    difference = ImageChops.difference(picture(content, 1), picture(plain.getvalue(), 1))
    assert difference.getbbox() is None
    with pytest.raises(BrokenDocument):
        open_(drawn(scan))


def test_untranslated_pages_keep_their_content_stream() -> None:
    content = drawn(words, drawing)
    after = written(content, lambda text: text.replace("Guten", "Schönen"))
    streams = []
    for each in (content, after):
        with pikepdf.open(io.BytesIO(each)) as pdf:
            streams.append([page.Contents.read_bytes() for page in pdf.pages])
    assert streams[0][0] != streams[1][0]
    assert streams[0][1] == streams[1][1]


def test_text_after_removed_text_of_one_line_keeps_its_place() -> None:
    shown = b"BT /F1 12 Tf 72 700 Td (Katze ) Tj ( 17 ) Tj (8) ' ET"

    def show(pdf: pikepdf.Pdf) -> None:
        pdf.pages[0].obj.Contents = pdf.make_stream(shown)

    content = changed(drawn(words), show)
    before, after = letters(content), letters(written(content, lambda text: text + "n im Haus"))
    assert after.words == "Katzen im Haus 17 8" or "17" in after.words
    assert abs(before.box_of("8")[0] - after.box_of("8")[0]) < MILLIMETRE


def shown(operators: bytes) -> bytes:
    """A file of operators; the font says that $ stands for ffi, and nothing of #."""
    cmap = b"1 begincodespacerange <00> <ff> endcodespacerange 2 beginbfchar <24> <006600660069>"

    def show(pdf: pikepdf.Pdf) -> None:
        pdf.pages[0].obj.Contents = pdf.make_stream(b"BT /F1 12 Tf " + operators + b" ET")
        font = pdf.pages[0].obj.Resources.Font.F1
        font.ToUnicode = pdf.make_stream(cmap + b" <23> <FFFD> endbfchar")

    return changed(drawn(words), show)


@pytest.mark.parametrize(
    ("operators", "texts"),
    [
        (b"72 700 Td (O$ziell und o$en) Tj", ["Offiziell und offien"]),
        (b"72 700 Td (Ein \\250 Zeichen) Tj", ["Ein ¨ Zeichen"]),
        (b"72 700 Td [(Ein h) (\\250) 444 (aufiger Gast)] TJ", ["Ein häufiger Gast"]),
        (b"1 0 0 1 74 703 Tm (\\250) Tj 1 0 0 1 72 700 Tm (Uber Land) Tj", ["Über Land"]),
        (b"72 700 Td (Die Wasser\\255) Tj 0 -14 Td (leitung) Tj", ["Die Wasserleitung"]),
        (
            b"72 700 Td 9 Tw [(Im Hafen.) -900 (Dort ist es kalt.)] TJ",
            ["Im Hafen. Dort ist es kalt."],
        ),
        (b"72 700 Td 3 Tc (Neue Preise) Tj", ["Neue Preise"]),
        (
            b"72 700 Td (Anna Schmidt) Tj 0 -14 Td (Hauptweg 12) Tj 0 -14 Td (20095 Hamburg) Tj",
            ["Anna Schmidt", "Hauptweg 12", "20095 Hamburg"],
        ),
        (
            b"60 700 Td (Anna Schmidt) Tj 8 -14 Td (Hauptweg 12) Tj -4 -14 Td (20095 Mainz) Tj",
            ["Anna Schmidt", "Hauptweg 12", "20095 Mainz"],
        ),
        (
            b"".join(b"1 0 0 1 %d 700 Tm (%d.00) Tj " % (72 + 50 * n, n) for n in range(5))
            + b"1 0 0 1 150 686 Tm (Monate) Tj",
            ["Monate"],
        ),
        (b"72 700 Td [(1.2) -1000 (Einleitung)] TJ", ["Einleitung"]),
    ],
)
def test_glyphs_are_read_as_the_words_that_they_show(operators: bytes, texts: list[str]) -> None:
    content = shown(operators)
    assert said("a.pdf", content) == texts
    after = letters(written(content, lambda _: "x")).words
    assert re.sub(r"[\d. ]", "", after) == "x" * len(texts)


def test_words_that_run_to_the_left_are_read_from_the_right() -> None:
    glyphs = [
        Glyph(letter, x, x + 5, 700, 10, 0, Style(), (0,), blank)
        # PDFium gives the letters of some words from left to right.
        for letter, x, blank in [
            ("ל", 60, True),
            ("ש", 65, False),
            ("ה", 50, True),
            ("ד", 45, False),
        ]
    ]
    assert [line.text for line in lines_of(glyphs, [])] == ["של הד"]


def test_wrapped_lines_of_boxes_side_by_side_are_one_text_each() -> None:
    boxes = (
        ("Alle Kinder sind sehr", "herzlich eingeladen."),
        ("Es gibt Kuchen und ein", "Spiel für die Kleinen."),
    )

    def write(canvas: Canvas) -> None:
        for left, lines in zip((72, 240), boxes, strict=True):
            canvas.rect(left - 6, 690, 160, 70)
            for number, text in enumerate(lines):
                canvas.drawString(left, 740 - 18 * number, text)

    assert said("a.pdf", drawn(write)) == [" ".join(lines) for lines in boxes]


def test_a_line_below_the_middle_of_a_distant_text_keeps_its_left_edge() -> None:
    def write(canvas: Canvas) -> None:
        canvas.drawString(72, 740, "Ein Satz, der links beginnt")
        canvas.drawString(72, 700, "Noch einer")
        middle = 72 + canvas.stringWidth("Ein Satz, der links beginnt") / 2
        canvas.drawCentredString(middle, 500, "Ich komme mit.")

    before, after = (letters(each) for each in (drawn(write), written(drawn(write), longer)))
    lefts = [each.box_of("Ich komme")[0] for each in (before, after)]
    assert abs(lefts[0] - lefts[1]) < MILLIMETRE


def test_ragged_lines_of_a_narrow_text_stay_as_narrow_as_they_are() -> None:
    def write(canvas: Canvas) -> None:
        canvas.drawString(72, 740, "Ein Satz, der über die ganze Breite der Seite läuft, ja.")
        lines = ("Die Katze liegt im", "Garten und schläft", "schon lange unter", "dem Baum.")
        for number, text in enumerate(lines):
            canvas.drawString(72, 700 - 14 * number, text)

    after = letters(written(drawn(write), longer))
    edge = letters(drawn(write)).box_of("und schläft")[2]
    assert max(box[2] for box in after.boxes if box[1] < 715) < edge + 50


def test_two_lines_in_the_middle_or_at_the_right_stay_there() -> None:
    def write(canvas: Canvas) -> None:
        for y, text in ((700, "In der Mitte steht ein Satz,"), (686, "der zwei Zeilen hat.")):
            canvas.drawCentredString(297, y, text)
        for y, text in ((600, "Ganz am rechten Rand steht"), (586, "der Ort.")):
            canvas.drawRightString(523, y, text)
        canvas.drawString(390, 500, "12,00")
        canvas.drawRightString(523, 486, "Bremen, den 12. März")

    after = letters(written(drawn(write), lambda text: text.split()[2] + "."))
    left, _, right, _ = after.box_of("Mitte.")
    assert abs((left + right) / 2 - 297) < MILLIMETRE
    assert all(abs(after.box_of(word)[2] - 523) < MILLIMETRE for word in ("rechten.", "12.."))


def test_text_whose_font_does_not_say_its_letters_is_refused_or_noted() -> None:
    with pytest.raises(BrokenDocument, match="do not say which letters"):
        open_(shown(b"72 700 Td (########) Tj"))
    after = written(shown(b"72 700 Td (########) Tj 0 -20 Td (Ja) Tj"), str.upper)
    with pikepdf.open(io.BytesIO(after)) as pdf:
        assert "do not say which letters" in str(pdf.pages[0].Annots[0].Contents)


def test_a_stream_that_cannot_be_unpacked_is_named() -> None:
    def damage(pdf: pikepdf.Pdf) -> None:
        stream = pdf.make_stream(b"")
        stream.write(b"no stream of zlib", filter=pikepdf.Name.FlateDecode)
        pdf.pages[0].obj.Contents = stream

    with pytest.raises(BrokenDocument, match="cannot be unpacked"):
        open_(changed(drawn(words), damage))


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "th", "hi"])
def test_languages_whose_letters_no_font_has_are_refused(language: str) -> None:
    with pytest.raises(BrokenDocument):
        open_(drawn(words), Languages("de", language))


@pytest.mark.parametrize(
    "text", ["Доброе утро", "Καλημέρα κόσμε", "Chào buổi sáng", "שלום עולם", "გამარჯობა"]
)
def test_letters_of_other_scripts_can_be_found_in_the_file(text: str) -> None:
    assert sorted(text) == sorted(letters(written(drawn(words), lambda _: text)).text)
    assert all(Typefaces().of(Style("serif"), each).has(each) for each in text)


def test_text_that_runs_to_the_left_is_set_to_the_left_and_joined() -> None:
    after = letters(written(drawn(words), lambda _: "صباح الخير يا PDF 12"))
    assert after.box_of("صباح")[0] > after.box_of("PDF")[0]
    assert abs(after.box_of("صباح")[2] - letters(drawn(words)).box_of("Welt!")[2]) < MILLIMETRE


@pytest.mark.parametrize(
    ("text", "base", "shown"),
    [
        ("abc", 0, "abc"),
        ("אבג abc", 1, "abc גבא"),
        ("abc אבג!", 0, "abc גבא!"),
        ("אב 12,5 ג", 1, "ג 12,5 בא"),
        ("אב (abc) ג", 1, "ג (abc) בא"),
        ("عدد 12 abc 34", 1, "abc 34 12 ددع"),
    ],
)
def test_visual_order_of_mixed_directions(text: str, base: int, shown: str) -> None:
    runs = [
        text[places.start : places.stop][:: -1 if to_left else 1]
        for places, to_left in visual_runs(text, base)
    ]
    mirrored = "".join(runs).translate(str.maketrans("()", ")(")) if "(" in text else "".join(runs)
    assert mirrored == shown


def test_another_program_reads_the_words() -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("poppler is not installed")
    after = written(NEWSPAPER, str.upper)
    command = ["pdftotext", "-raw", "-", "-"]
    text = subprocess.run(command, input=after, capture_output=True, check=True).stdout.decode()
    assert " ".join(text.split()) == letters(after).words


@pytest.mark.slow
@pytest.mark.parametrize("program", ["chromium-headless-shell", "soffice"])
def test_pages_of_other_programs_keep_their_texts_apart(program: str, tmp_path: Path) -> None:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    file = tmp_path / "page.pdf"
    rows = [["Rote Äpfel", "Zwölf Stück"], ["Brot", "Eins"]]
    if program == "chromium-headless-shell":
        page = tmp_path / "page.html"
        cells = "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows)
        page.write_text(f"<meta charset=utf-8><p>{DAY}</p><table cellpadding=6>{cells}")
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={file}"]
    else:
        page = tmp_path / "page.docx"
        letter = docx.Document()
        letter.add_paragraph(re.sub("<.*?>", "", DAY))
        table = letter.add_table(rows=0, cols=2)
        for row in rows:
            for cell, text in zip(table.add_row().cells, row, strict=True):
                cell.text = text
        letter.save(str(page))
        options = ["--headless", "--convert-to", "pdf", "--outdir", str(tmp_path)]
    subprocess.run([found, *options, str(page)], check=True, capture_output=True, timeout=120)
    content = file.read_bytes()
    texts = [mapped(text, str) for text in open_(content).texts]
    assert {"Rote Äpfel", "Zwölf Stück", "Brot", "Eins"} <= set(texts)
    assert any("läuft. Am Morgen" in text for text in texts)
    after = letters(written(content, longer))
    assert not after.overlaps()
    assert after.words.count("und noch ein paar Wörter dazu") >= len(texts)
