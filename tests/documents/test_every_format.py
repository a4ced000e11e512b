"""Properties of every document format, with one real file of each."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents import (
    SUPPORTED,
    BrokenDocument,
    Languages,
    UnsupportedDocument,
    open_document,
    translate_document,
)
from service.documents.containers import archive
from service.documents.fragments.lines import MOST_LINES
from service.documents.reading import worker
from tests.documents.pdf import drawn, encrypted, with_bomb, with_many_pages, words
from tests.documents.test_bilingual import CATALOGUE, TMX, XLIFF
from tests.documents.test_docx import report
from tests.documents.test_epub import BOOK
from tests.documents.test_html import PAGE
from tests.documents.test_markdown import BITS, GUIDE
from tests.documents.test_messages import ARB, JSON, YAML
from tests.documents.test_office import sheets, slides
from tests.documents.test_opendocument import letter, presentation, sheet
from tests.documents.test_program_formats import EXAMPLES, before
from tests.documents.test_rtf import PROGRAMS
from tests.documents.test_srt import FILM, VTT
from tests.documents.translations import ReaderHere, reversed_words, shout, unchanged
from tests.documents.word import entries, with_entry, zip_of

FILES = {
    ".txt": b"One. Two.\n",
    ".srt": FILM.encode(),
    ".vtt": VTT.encode(),
    ".html": PAGE.encode(),
    ".htm": PAGE.encode(),
    ".md": GUIDE.encode(),
    ".docx": report(),
    ".pptx": slides(),
    ".xlsx": sheets(),
    ".odt": letter(),
    ".ods": sheet(),
    ".odp": presentation(),
    ".rtf": before(PROGRAMS["Word"]).encode(),
    ".epub": BOOK,
    ".pdf": drawn(words),
    ".po": CATALOGUE.encode("latin-1"),
    ".xliff": XLIFF.encode(),
    ".xlf": XLIFF.encode(),
    ".tmx": TMX.encode(),
    ".json": JSON.encode(),
    ".arb": ARB.encode(),
    ".yaml": YAML.encode(),
    ".yml": YAML.encode(),
    **{extension: before(example).encode() for extension, example in EXAMPLES.items()},
}
ZIPPED = [extension for extension, content in FILES.items() if content.startswith(b"PK")]
ENGLISH = Languages("en", "de")
_ENCRYPTION = b'<encryption><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes"/>'
_LARGE = struct.pack("<I", 300_000_000)


def hostile(extension: str) -> dict[str, tuple[bytes, str]]:
    """A damaged file, a bomb and a file with a password, as far as a format has them, each with the
    reason that its refusal states."""
    content = FILES[extension]
    found = {"damaged": (b"\x81\x8d", "is not UTF-8 text")}
    if extension in ZIPPED:
        found["damaged"] = content[:-40], f"not a zip file, as every {extension} is"
        zeros = zip_of(a=b"0" * 1000)
        found["bomb"] = (
            zeros.replace(struct.pack("<I", 1000), _LARGE),
            "of 300000000 bytes",
        )
    if extension in (".docx", ".pptx", ".xlsx"):
        found["password"] = b"\xd0\xcf\x11\xe0" + b"\0" * 600, "or has a password; save it as"
    if extension in (".odt", ".ods", ".odp"):
        name, closing = "META-INF/manifest.xml", b"</manifest:manifest>"
        data = b"<manifest:encryption-data/>" + closing
        protected = with_entry(content, name, lambda old: old.replace(closing, data))
        found["password"] = protected, "protected by a password"
    if extension == ".epub":
        name = "META-INF/encryption.xml"
        protected = with_entry(content, name, lambda _: _ENCRYPTION + b"</encryption>")
        found["password"] = protected, "protected against copying"
    if extension == ".pdf":
        found["damaged"] = b"%PDF-1.7\n" + content[-40:], "this is not a PDF, or it is damaged"
        found["password"] = encrypted(content), "protected by a password"
        found["pages"] = with_many_pages(content, 2_001), "has 2001 pages; at most 2000"
        found["bomb"] = with_bomb(content, (32 << 20) + 1), "at most 33554432 bytes of one"
    if extension == ".rtf":
        found["damaged"] = content[:-9], "the file ends inside a group of level 2"
        found["bomb"] = b"{\\rtf1" + b"{" * 100_000, "more than 100 levels deep"
    if extension in (".srt", ".vtt", ".md", ".po"):
        lines = b"WEBVTT" + b"\n" * (MOST_LINES + 1)
        found["bomb"] = lines, f"has more than {MOST_LINES} lines"
    if extension == ".po":
        found["damaged"] = b"words\n", "no catalogue of gettext"
    if extension in (".xliff", ".xlf", ".tmx", ".xml"):
        found["damaged"] = content[:-9], "not well-formed XML"
        found["bomb"] = b'<!DOCTYPE a [<!ENTITY a "b">]><a/>', "declares entities"
    if extension in (".json", ".arb", ".yaml", ".yml", ".xcstrings"):
        found["bomb"] = b"[" * 100_000, "levels deep"
    return found


HOSTILE = [(extension, kind) for extension in FILES for kind in hostile(extension)]


def test_every_supported_format_has_a_file() -> None:
    assert tuple(FILES) == SUPPORTED


@pytest.mark.parametrize("extension", FILES)
async def test_a_file_is_translated_and_its_kind_is_named(extension: str) -> None:
    reader = ReaderHere()
    opened = await reader.read("a" + extension, FILES[extension], languages=ENGLISH)
    assert "/" in opened.media_type
    assert opened.characters > 5
    assert await translate_document(reader, opened, shout) != FILES[extension]


@pytest.mark.parametrize("extension", FILES)
def test_a_translation_with_words_in_another_order_keeps_all_markup(extension: str) -> None:
    document = open_document("a" + extension, FILES[extension], ENGLISH)
    written = reversed_words(document)
    assert reversed_words(document) == written
    if extension in ZIPPED:
        again = open_document("a" + extension, written, ENGLISH)
        count = [text.text.count("<") for text in document.texts]
        assert [text.text.count("<") for text in again.texts] == count
    elif extension not in (".po", ".xliff", ".xlf", ".tmx", ".pdf"):
        assert written.count(b"<") == FILES[extension].count(b"<")


@pytest.mark.parametrize("extension", ZIPPED)
def test_entries_keep_their_names_order_and_compression(extension: str) -> None:
    content = FILES[extension]
    written = unchanged(open_document("a" + extension, content))
    assert entries(written) == entries(content)
    infos = [zipfile.ZipFile(io.BytesIO(each)).infolist() for each in (content, written)]
    kept = [[(info.filename, info.compress_type) for info in each] for each in infos]
    assert all(before == after for before, after in pairwise(kept))


def test_archives_beyond_the_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = zip_of(**{f"part{number}": b"" for number in range(10_001)})
    with pytest.raises(BrokenDocument, match="10001 entries"):
        open_document("a.odt", many)
    monkeypatch.setattr(archive, "_MOST_BYTES_READ", 100)
    with pytest.raises(BrokenDocument, match="at most 100 are read"):
        open_document("a.docx", FILES[".docx"])


@pytest.mark.parametrize(("extension", "kind"), HOSTILE)
def test_hostile_files_are_refused_with_the_reason(extension: str, kind: str) -> None:
    content, reason = hostile(extension)[kind]
    with pytest.raises(BrokenDocument, match=re.escape(reason)):
        open_document("a" + extension, content, ENGLISH)


@pytest.mark.parametrize(("name", "other"), [("a.pptx", ".xlsx"), ("a.xlsx", ".pptx")])
def test_files_of_another_program_are_refused(name: str, other: str) -> None:
    with pytest.raises(BrokenDocument):
        open_document(name, FILES[other])


async def test_a_document_with_too_many_paragraphs_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_MOST_TEXTS", 3)
    with pytest.raises(BrokenDocument, match="has 5 paragraphs; at most 3 are read"):
        await ReaderHere().read("a.xlsx", FILES[".xlsx"])


def test_the_extension_selects_the_format_regardless_of_case() -> None:
    assert open_document("README.MD", b"# Hi").media_type == "text/markdown"
    assert open_document("a.b.txt", b"Hi").media_type == "text/plain"


@pytest.mark.parametrize("name", ["report.doc", "README", "", ".txt", "a." + "x" * 1000])
def test_other_extensions_are_refused_with_the_supported_ones(name: str) -> None:
    with pytest.raises(UnsupportedDocument) as refusal:
        open_document(name, b"")
    assert refusal.value.supported == SUPPORTED
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("extension", [".txt", ".srt", ".vtt", ".html", ".htm", ".md", ".po"])
def test_an_empty_file_stays_empty_and_text_without_an_encoding_is_refused(extension: str) -> None:
    document = open_document("a" + extension, b"")
    assert document.texts == ()
    assert document.replaced([]) == b""
    for content in (b"caf\xe9\x81 noir\x8d\x01\x02", b"a\0 word"):
        with pytest.raises(BrokenDocument):
            open_document("a" + extension, content, Languages("fr", "en"))


def test_a_wrong_number_of_translations_raises_value_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        open_document("a.txt", b"Hi").replaced([])


@settings(max_examples=100, deadline=None)
@given(BITS)
def test_reordering_words_loses_no_markdown_tag(text: str) -> None:
    reversed_words(open_document("a.md", text.encode()))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a b", " ", "<i>", "</i>", "<b>", "</b>", "{\\an8}", ". ", "&"])))
def test_reordering_words_loses_no_caption_tag(said: list[str]) -> None:
    caption = "1\n0:00:01,0 --> 0:00:02,0\n" + "".join(said) + "\n"
    written = reversed_words(open_document("a.srt", caption.encode())).decode()
    tag = re.compile(r"<[^>]*>|\{[^}]*\}")
    assert sorted(tag.findall(written)) == sorted(tag.findall(caption))
