"""Books made with EbookLib."""

from __future__ import annotations

import io
import warnings

import pytest

from service.documents import BrokenDocument, Languages, open_document
from tests.documents.translations import shouted, unchanged
from tests.documents.word import entries, with_entry, zip_of

with warnings.catch_warnings():
    # It warns of its own coming version while it is imported.
    warnings.simplefilter("ignore")
    from ebooklib import epub

PAGE = "EPUB/chapter.xhtml"


def book() -> bytes:
    written = epub.EpubBook()
    written.set_identifier("id")
    written.set_title("the title")
    written.set_language("en")
    chapter = epub.EpubHtml(title="first chapter", file_name="chapter.xhtml", lang="en")
    chapter.content = (
        '<h1>first heading</h1><p>one <b>bold</b> word<img src="a.png" alt="a dog"/></p>'
        '<p translate="no" title="kept">kept words</p><pre><code>code()</code></pre>'
    )
    written.add_item(chapter)
    written.toc = (epub.Link("chapter.xhtml", "first chapter", "one"),)
    written.add_item(epub.EpubNcx())
    written.add_item(epub.EpubNav())
    written.spine = ["nav", chapter]
    stream = io.BytesIO()
    epub.write_epub(stream, written)
    return stream.getvalue()


BOOK = book()


def test_pages_contents_list_and_title_are_translated_and_the_rest_stays() -> None:
    after = entries(shouted(open_document("a.epub", BOOK, Languages("en", "de"))))
    before = entries(BOOK)
    assert list(after) == list(before)
    page = after[PAGE].decode()
    assert "<h1>FIRST HEADING</h1>" in page
    assert 'ONE <b>BOLD</b> WORD<img src="a.png" alt="A DOG"/>' in page
    # The translation of texts keeps such contents; these are the attributes.
    assert '<p translate="no" title="kept">' in page
    assert 'lang="de" xml:lang="de"' in page
    assert b"<text>FIRST CHAPTER</text>" in after["EPUB/toc.ncx"]
    assert b"FIRST CHAPTER</a>" in after["EPUB/nav.xhtml"]
    package = after["EPUB/content.opf"]
    assert b"<dc:title>THE TITLE</dc:title>" in package
    assert b"<dc:language>de</dc:language>" in package
    assert after["mimetype"] == b"application/epub+zip"


def test_a_translated_book_opens() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = epub.read_epub(io.BytesIO(shouted(open_document("a.epub", BOOK))))
    assert again.title == "THE TITLE"
    assert [item.get_name() for item in again.get_items()] == [
        *("chapter.xhtml", "toc.ncx", "nav.xhtml"),
    ]


def test_elements_that_close_themselves_hide_no_text() -> None:
    content = with_entry(
        BOOK, PAGE, lambda data: data.replace(b"<head>", b'<head><script src="a.js"/><style/>')
    )
    document = open_document("a.epub", content)
    assert any("first heading" in source.text for source in document.texts)
    assert b'<script src="a.js"></script><style></style>' in entries(unchanged(document))[PAGE]


def test_books_with_protected_fonts_are_read_and_broken_ones_refused() -> None:
    fonts = b'<encryption><EncryptionMethod Algorithm="http://www.idpf.org/2008/embedding"/>'
    protected = with_entry(BOOK, "META-INF/encryption.xml", lambda _: fonts + b"</encryption>")
    assert open_document("a.epub", protected).texts
    missing = with_entry(
        BOOK, "EPUB/content.opf", lambda data: data.replace(b"chapter.xhtml", b"../../etc/passwd")
    )
    for content, reason in (
        (zip_of(a=b"b"), r"it has no META-INF/container\.xml"),
        (missing, r"the book lacks its part \.\./etc/passwd"),
    ):
        with pytest.raises(BrokenDocument, match=reason):
            open_document("a.epub", content)
