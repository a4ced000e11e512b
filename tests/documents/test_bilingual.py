"""Translation files: XLIFF, TMX and catalogues of gettext."""

from __future__ import annotations

import re

import polib
import pytest

from service.documents import BrokenDocument, Languages, open_document
from tests.documents.translations import ENGLISH_TO_GERMAN, said, shouted, unchanged

XLIFF = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><file source-language="en">
<body>
<trans-unit id="1"><source>one <g id="1">bold</g> word<x id="2"/></source></trans-unit>
<trans-unit id="2"><source>done before</source><target>vorher</target></trans-unit>
<trans-unit id="3"><source>to fill</source><target state="new"/></trans-unit>
<trans-unit id="4" translate="no"><source>a code</source></trans-unit>
<group translate="no"><trans-unit id="5"><source>another</source></trans-unit></group>
<trans-unit id="6"><source>see <bpt id="1">&lt;b&gt;</bpt>this<ept id="1">&lt;/b&gt;</ept> and \
<mrk mtype="protected">%d kept</mrk></source></trans-unit>
<trans-unit id="7"><source>other</source><alt-trans><source>no</source></alt-trans></trans-unit>
</body></file></xliff>"""


def test_units_of_xliff_without_a_target_are_translated() -> None:
    assert said("a.xlf", XLIFF.encode()) == [
        'one <g id="1">bold</g> word<x id="2"/>',
        "to fill",
        'see <g id="1">this</g> and <x id="2"/>',
        "other",
    ]
    written = shouted(open_document("a.xliff", XLIFF.encode(), ENGLISH_TO_GERMAN)).decode()
    assert (
        '</source><target>ONE <g id="1">BOLD</g> WORD<x id="2"/></target></trans-unit>' in written
    )
    assert "<source>done before</source><target>vorher</target>" in written
    assert '<source>to fill</source><target state="new">TO FILL</target>' in written
    assert (
        '<target>SEE <bpt id="1">&lt;b&gt;</bpt>THIS<ept id="1">&lt;/b&gt;</ept> AND '
        '<mrk mtype="protected">%d kept</mrk></target>'
    ) in written
    assert '<file source-language="en" target-language="de">' in written
    assert written.count("<target") == 5


def test_units_of_xliff_2_are_translated() -> None:
    content = (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file '
        'id="f"><unit id="1"><segment><source>one <pc id="1">bold</pc> <sc id="2"/>word'
        '<ec startRef="2"/></source></segment></unit></file></xliff>'
    )
    assert said("a.xliff", content.encode()) == ['one <g id="1">bold</g> <g id="2">word</g>']
    written = shouted(open_document("a.xliff", content.encode(), ENGLISH_TO_GERMAN)).decode()
    assert (
        '<target>ONE <pc id="1">BOLD</pc> <sc id="2"/>WORD<ec startRef="2"/></target>'
    ) in written
    assert 'srcLang="en" trgLang="de"' in written


@pytest.mark.parametrize(
    ("source", "texts", "target"),
    [
        ("{n, plural, one {a file} other {files}}", 2, "{n, plural, one {A FILE} other {FILES}}"),
        ("&lt;b&gt;bold&lt;/b&gt; &amp; %s", 1, "&lt;b&gt;BOLD&lt;/b&gt; &amp; %S"),
        ("one\n      sentence", 1, "ONE SENTENCE"),
        ('one\n <x id="1"/>  sentence', 1, 'ONE <x id="1"/> SENTENCE'),
        ("icon_ok", 1, "ICON_OK"),
        ('{n, plural, other {<x id="1"/> files}}', 0, None),
    ],
)
def test_a_source_of_xliff_is_a_message_of_a_program(
    source: str, texts: int, target: str | None
) -> None:
    content = (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
        f'<trans-unit id="1"><source>{source}</source></trans-unit></body></file></xliff>'
    )
    document = open_document("a.xlf", content.encode(), ENGLISH_TO_GERMAN)
    assert len(document.texts) == texts
    written = shouted(document).decode()
    expected = "" if target is None else f"<target>{target}</target>"
    assert f"<source>{source}</source>{expected}</trans-unit>" in written


def test_lines_that_xliff_preserves_stay() -> None:
    unit = b"<trans-unit><source>a\nb</source></trans-unit>"
    content = b'<xliff version="1.2" xml:space="preserve">' + unit + b"</xliff>"
    assert b"<target>A\nB</target>" in shouted(open_document("a.xlf", content))


TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" datatype="plaintext"/><body>
<tu><tuv xml:lang="en-US"><seg>one <hi>two</hi></seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>known</seg></tuv><tuv xml:lang="de-AT"><seg>bekannt</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>autre</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>open</seg></tuv><tuv xml:lang="de-AT"><seg> </seg></tuv></tu>
</body></tmx>"""


def test_units_of_a_memory_without_the_target_language_get_it() -> None:
    assert said("a.tmx", TMX.encode()) == ['one <g id="1">two</g>', "open"]
    assert said("a.tmx", TMX.encode(), Languages("fr", "de")) == ["autre"]
    written = shouted(open_document("a.tmx", TMX.encode("utf-16"), ENGLISH_TO_GERMAN))
    assert '<tuv xml:lang="de"><seg>ONE <hi>TWO</hi></seg></tuv></tu>' in written.decode("utf-16")
    assert '<tuv xml:lang="de-AT"><seg>OPEN</seg></tuv></tu>' in written.decode("utf-16")
    assert written.decode("utf-16").startswith("<?xml version='1.0' encoding='UTF-16'?>\n")


def test_target_follows_the_segmented_source() -> None:
    segmented = "<source>one</source><seg-source><mrk>one</mrk></seg-source>"
    unit = f"<trans-unit>{segmented}<note>of a translator</note></trans-unit>"
    content = f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'.encode()
    written = shouted(open_document("a.xlf", content, ENGLISH_TO_GERMAN)).decode()
    assert f"{segmented}<target>ONE</target><note>" in written


CATALOGUE = """# Comment of a translator
msgid ""
msgstr ""
"Content-Type: text/plain; charset=ISO-8859-1\\n"
"Language: \\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: main.c:3
#, c-format
msgid "caf\xe9 %s\\n"
msgstr ""

msgid "known"
msgstr "bekannt"

#, fuzzy
msgid "fuzzy"
msgstr "unscharf"

msgctxt "menu"
msgid "one <b>file</b>"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "%d"
msgstr ""

#~ msgid "old"
#~ msgstr ""
"""


def test_messages_without_translation_are_translated() -> None:
    document = open_document("a.po", CATALOGUE.encode("latin-1"), ENGLISH_TO_GERMAN)
    assert [(source.text, source.markup.kind) for source in document.texts] == [
        ("café %s", "text"),
        ('one <g id="1">file</g>', "xml"),
        ("%d files", "text"),
    ]
    written = document.replaced(["ein Café %s", 'eine <g id="1">Datei</g>', "%d Dateien"]).decode()
    before, after = polib.pofile(CATALOGUE), polib.pofile(written)
    assert [e.msgid for e in after] == [e.msgid for e in before]
    assert [(e.msgctxt, e.flags, e.occurrences, e.obsolete) for e in after] == [
        (e.msgctxt, e.flags, e.occurrences, e.obsolete) for e in before
    ]
    assert [e.msgstr for e in after] == ["ein Café %s\n", "bekannt", "unscharf", "", "%d", ""]
    assert after[3].msgstr_plural == {0: "eine <b>Datei</b>", 1: "%d Dateien"}
    assert after.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    assert after.metadata["Language"] == "de"
    assert after.header == before.header


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            r"Usage: tool [options] <file>\n  -a  all\n",
            r"USAGE: TOOL [OPTIONS] <file>\n  -A  ALL\n",
        ),
        ("<b>done</b> -> R&D &lt;tag>", "<b>DONE</b> -> R&D &lt;TAG>"),
        (r"\033[1mdone\033[0m\a", r"\033[1mDONE\033[0m\a"),
        (r"C:\\033 \"and\" \t", r"C:\\033 \"AND\" \t"),
        ("%d", "%d"),
    ],
)
def test_a_message_keeps_its_signs_and_lines_and_all_others_their_bytes(
    message: str, expected: str
) -> None:
    others = '\ufeff# x\r\n#: a:1\r\nmsgid "\\033"\r\n  "one" \r\nmsgstr "\\033"\r\n"eins"\r\n\r\n'
    content = f'{others}msgid "{message}"\r\nmsgstr ""\r\n'
    written = shouted(open_document("a.po", content.encode())).decode()
    assert re.sub(r'"\r\n"', "", written.removeprefix(others)).count(f'msgstr "{expected}"') == 1
    assert written.startswith(others)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", CATALOGUE.replace('msgstr ""', 'msgstr "x"').replace('] ""', '] "x"')),
        ("a.tmx", TMX),
        ("a.xlf", XLIFF),
    ],
)
def test_an_untranslated_file_stays_byte_for_byte(name: str, content: str) -> None:
    encoded = content.encode("latin-1")
    assert unchanged(open_document(name, encoded)) == encoded


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.xlf", b"<a/>", "its root is a"),
        ("a.tmx", b"<a/>", "its root is a"),
        ("a.xlf", b"<a>" * 300 + b"</a>" * 300, "well-formed"),
        ("a.po", b'msgid "a \\"b\nmsgstr ""\n', "line 1"),
        ("a.po", b'msgid "a"\nmsgstr ""\n"b\n', "line 3"),
        ("a.po", b"/etc/hostname", "line 1"),
        ("a.po", b'"Content-Type: text/plain; charset=klingon\\n"\n', "klingon"),
    ],
)
def test_broken_files_are_refused_with_a_reason(name: str, content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument, match=reason):
        open_document(name, content)
