"""Makes PDF files with reportlab and qpdf, and measures the words of a page with PDFium."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pikepdf
import pypdfium2 as pdfium
from PIL import Image, ImageDraw
from pypdfium2 import raw
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate, Paragraph, Table, TableStyle

DAY = (
    "Die Katze schläft auf dem Sofa, während der Hund durch den <b>tiefen Schnee</b> läuft. Am "
    "Morgen geht die Frau in die Stadt und kauft Brot, Milch und Äpfel. Die Kinder spielen im "
    "Garten, bis es dunkel wird. Danach kommen alle nach Hause und essen zusammen."
)
MILLIMETRE = 72 / 25.4


@dataclass(frozen=True)
class Letters:
    """Characters of a page with their boxes: left, bottom, right, top in points."""

    text: str
    boxes: Sequence[tuple[float, float, float, float]]

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def box_of(self, words: str) -> tuple[float, float, float, float]:
        start = self.text.index(words)
        boxes = [box for box in self.boxes[start : start + len(words)] if box[2] > box[0]]
        left, bottom, right, top = zip(*boxes, strict=True)
        return min(left), min(bottom), max(right), max(top)

    def overlaps(self) -> list[tuple[str, str]]:
        """Pairs of characters, one on top of the other."""
        seen = [(c, b) for c, b in zip(self.text, self.boxes, strict=True) if not c.isspace()]
        return [
            (one, other)
            for number, (one, a) in enumerate(seen)
            for other, b in seen[number + 1 :]
            if min(a[2], b[2]) - max(a[0], b[0]) > 0.5 * min(a[2] - a[0], b[2] - b[0]) > 0
            and min(a[3], b[3]) - max(a[1], b[1]) > 0.3 * min(a[3] - a[1], b[3] - b[1]) > 0
        ]


def letters(content: bytes, number: int = 0) -> Letters:
    with pdfium.PdfDocument(content) as document:
        text = document[number].get_textpage()
        found: list[tuple[str, tuple[float, float, float, float]]] = []
        for index in range(text.count_chars()):
            character = chr(raw.FPDFText_GetUnicode(text, index))
            found.append((" " if character.isspace() else character, text.get_charbox(index)))
    return Letters("".join(each[0] for each in found), [each[1] for each in found])


def picture(content: bytes, number: int = 0) -> Image.Image:
    with pdfium.PdfDocument(content) as document:
        return document[number].render(scale=1).to_pil().convert("RGB")


def drawn(*pages: Callable[[Canvas], object]) -> bytes:
    """A file with a page for each function that draws one."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=A4, invariant=True)
    for draw in pages:
        draw(canvas)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def words(canvas: Canvas) -> None:
    canvas.drawString(72, 700, "Guten Morgen, liebe Welt!")


def scan(canvas: Canvas) -> None:
    image = Image.new("L", (200, 100), 230)
    ImageDraw.Draw(image).text((10, 40), "Ein Brief")
    canvas.drawImage(ImageReader(image), 72, 400, 400, 200)


def newspaper() -> bytes:
    """Two columns with paragraphs, one of which continues in the second column, and a table."""
    styles, file = getSampleStyleSheet(), io.BytesIO()
    table = Table(
        [["Ware", "Menge", "Preis"], ["Rote Äpfel", "12", "3,40 €"], ["Kalte Milch", "2", "1,10 €"]]
    )
    table.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.black)]))
    story = [Paragraph("Ein Tag im Winter", styles["Title"])]
    story += [Paragraph(DAY, styles["BodyText"]) for _ in range(4)]
    story += [table, *(Paragraph(DAY, styles["BodyText"]) for _ in range(5))]
    frames = [Frame(left, 72, 216, A4[1] - 144, id=str(left)) for left in (72, 306)]
    document = BaseDocTemplate(file, pagesize=A4, invariant=True)
    document.addPageTemplates(PageTemplate(frames=frames))
    document.build(story)
    return file.getvalue()


def drawing(canvas: Canvas) -> None:
    """A picture, a curve, a page number, text at the right, turned, in a form, and oblique."""
    scan(canvas)
    canvas.bezier(100, 100, 200, 300, 300, 50, 400, 200)
    canvas.drawCentredString(297, 30, "12")
    canvas.drawRightString(523, 790, "Bericht vom Montag")
    canvas.beginForm("letterhead")
    canvas.drawString(72, 750, "Der Brief")
    canvas.endForm()
    canvas.doForm("letterhead")
    for angle in (90, 30):
        canvas.saveState()
        canvas.translate(550, 300)
        canvas.rotate(angle)
        canvas.drawString(0, 0, "Am Rand" if angle == 90 else "Entwurf")
        canvas.restoreState()


def form(canvas: Canvas) -> None:
    canvas.drawString(72, 700, "Vorname")
    canvas.acroForm.textfield(name="first", x=150, y=690, width=200, height=24, value="Anna")


def changed(content: bytes, change: Callable[[pikepdf.Pdf], object]) -> bytes:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as pdf:
        change(pdf)
        pdf.save(written, deterministic_id=True)
    return written.getvalue()


def encrypted(content: bytes) -> bytes:
    written = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as pdf:
        pdf.save(written, encryption=pikepdf.Encryption(owner="owner", user=""))
    return written.getvalue()


def with_many_pages(content: bytes, count: int) -> bytes:
    def repeat(pdf: pikepdf.Pdf) -> None:
        for _ in range(count - 1):
            pdf.pages.append(pdf.pages[0])

    return changed(content, repeat)


def with_bomb(content: bytes, size: int) -> bytes:
    def inflate(pdf: pikepdf.Pdf) -> None:
        pdf.pages[0].obj.Contents = pdf.make_stream(b" " * size)

    return changed(content, inflate)
