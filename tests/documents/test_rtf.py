r"""Rich Text Format, as Word, LibreOffice, WordPad and TextEdit write it.

In the examples, ``«text»`` is translated, and ``«text|TEXT»`` changes in that way.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.documents import BrokenDocument, open_document
from service.documents.formats import rich_text
from service.documents.types import Document
from tests.documents.test_program_formats import after, before
from tests.documents.translations import reversed_words, said, shouted, unchanged

WORD = r"""{\rtf1\adeflang1025\ansi\ansicpg1252\uc1\adeff0\deff0\stshfdbch0\deflang1033
{\fonttbl{\f0\fbidi \froman\fcharset0\fprq2{\*\panose 02020603050405020304}Times New Roman;}
{\f3\fbidi \froman\fcharset2\fprq2 Symbol;}
{\f39\fbidi \froman\fcharset238\fprq2 Times New Roman CE{\*\falt Times};}}{\colortbl;\red0\green0;}
{\stylesheet{\ql \rtlch\fcs1 \af0 \ltrch\fcs0 \fs24 \snext0 Normal;}}{\info{\title A title}}
{\header \pard\plain \s1\ql {\rtlch\fcs1 \af0 \ltrch\fcs0 \insrsid1 «A
 report|A REPORT»
\par }}\pard\plain \ltrpar\ql \rtlch\fcs1 \af0\afs24 \ltrch\fcs0 \fs24\lang1033 {\ltrch\fcs0
\insrsid123 «Hel}{\ltrch\fcs0 \insrsid124 lo caf\'e9 }{\rtlch\fcs1 \ab\af0 \ltrch\fcs0 \b bold}{
 \u8364\'80\'80!|HELLO CAF\u201? {\ab\b BOLD} \u8364?\u8364?!}{\ltrch\fcs0 \insrsid124 }"""
WORD += r"""{\rtlch\fcs1 \ab\af0 \ltrch\fcs0 \b }{
»}{\cs16\super \chftn {\footnote \pard\plain {\cs16\super \chftn }{ «A note.»}}}
\par \pard {\field{\*\fldinst {HYPERLINK "http://x"}}{\fldrslt {\cs15\ul\cf2 «The link»}}}\par
{\field{\*\fldinst TOC}{\fldrslt {«Contents»\tab \par «Chapter»\tab\par}}}{ «after» \par}
\trowd\cellx100 \pard\intbl {«First cell»\cell}{«Second cell»\cell}{\trowd \row}
{\shp{\*\shpinst{\sp{\sn a}{\sv words}}{\shptxt \pard «in a box»\par}}{\shprslt text}}
{\*\shppict{\pict\wmetafile8 01}}{\listtext\f3\'b7\tab}{\deleted gone}{\f39 
«\'9a\'ec\~\'f8more|\u352?\u282?\u160?\u344?MORE»}{\f3 b}{\pict\bin3 }{\}{\*\themedata 504b}}
"""
LIBREOFFICE = r"""{\rtf1\ansi\deff3\adeflang1025
{\fonttbl{\f0\froman\fprq2\fcharset0 Times New Roman;}{\f3\froman\fcharset0 Liberation Serif;}}
{\stylesheet{\s0\snext0\ql\loch\f3\fs24 Default;}}{\*\generator LibreOffice}
{\listoverridetable{\listoverride\listid1\ls1}}\sectd{\footer\pard\plain \s0{\rtlch \ltrch\loch
«Page» }{\field{\*\fldinst  PAGE }{\fldrslt {\rtlch \ltrch\loch 1}}}\par }{\*\ftnsep\chftnsep}
\pgndec\pard\plain \s0\ql\loch\f3\fs24{\rtlch \ltrch\loch
«F\u252\'fcr}{\rtlch \ltrch\loch
 alle|F\u220?R ALLE}{\rtlch \ltrch\loch
»}
\par \pard\plain \s0{\loch «\u8222\'84Zitat\u8220\'93.|\u8222?ZITAT\u8220?.»}
\par }"""
WORDPAD = r"""{\rtf1\ansi\ansicpg1252\deff0\nouicompat{\fonttbl{\f0\fnil\fcharset0 Calibri;}
{\f1\fnil\fcharset238 Calibri;}{\f2\fnil\fcharset128 MS Gothic;}}
{\*\generator Riched20 10.0.19041}\viewkind4\uc1
\pard\sl240\f0\fs22 «Za\f1\'bf\'f3\'b3\f0\'e6 \{\}\lquote a\rquote|ZA\u379?\u211?\u321?\u198?"""
WORDPAD += r""" \{\}\u8216?A\u8217?\f1\f0»\par
{\pntext\f0 1.\tab}\f2«\'83\'65\'83X a|\u12486?\u12473? A»\f0\par
}"""
TEXTEDIT = r"""{\rtf1\ansi\ansicpg1252\cocoartf2639
{\fonttbl\f0\fswiss\fcharset0 Helvetica-Bold;\f1\fswiss\fcharset0 Helvetica;}
\pard\tx560\pardirnatural\partightenfactor0

\f0\b\fs24 \cf0 «Bold \uc0\u8364 \f1\b0  and more|BOLD \u8364?{\b0\f1  AND MORE}\uc0\f1\b0 »\
«second \u55357 \u56832 |{\uc1 SECOND \u-10179?\u-8704?}»}"""
PROGRAMS = {"Word": WORD, "LibreOffice": LIBREOFFICE, "WordPad": WORDPAD, "TextEdit": TEXTEDIT}


def rtf(body: str) -> bytes:
    return rf"{{\rtf1\ansi{{\fonttbl{{\f0 A;}}{{\f1\fcharset2 B;}}}}{body}}}".encode()


@pytest.mark.parametrize("program", PROGRAMS)
def test_texts_are_translated_and_all_other_bytes_are_kept(program: str) -> None:
    content = before(PROGRAMS[program]).encode()
    document = open_document("a.rtf", content)
    assert shouted(document).decode() == after(PROGRAMS[program])
    assert unchanged(document) == content


def test_texts_of_word_are_whole_sentences_with_tags() -> None:
    texts = said("a.rtf", before(WORD).encode())
    assert texts[:3] == ["A report", 'Hello café <g id="1">bold</g> €€!', "A note."]
    assert texts[-1] == "šě\xa0řmore"


@pytest.mark.parametrize(
    ("body", "source", "written"),
    [
        (r"\b a\b0  c", 'a<g id="1"> c</g>', r"\b A{\b0  C}\b0 }"),
        (r"{a {\b b} c}", 'a <g id="1">b</g> c', r"{A {\b B} C{\b }}"),
        (r"{\b a\par b} cde", '<g id="1">b</g> cde', r"{\b A\par B{\b0  CDE}}"),
        (r"a\tab\'e4\line b", 'a<n id="1"/>ä<n id="2"/>b', r"A\tab\u196?\line B"),
        (r"\fs20\'e4 \-e", "ä e", r"\fs20\u196? E}"),
        (r"{\super a}{\ul b}{\cf2 c\nosupersub}", "", r"{\super A{\nosupersub\ul B}{"),
        (r"a{\chftn{\footnote b\par c}} d", 'a<x id="1"/> d', r"A\chftn{\footnote B\par C} D{}"),
        (r"a\f1 b\f0 c", 'a<x id="1"/>c', r"A{\f1 b}C\f1 \f0 }"),
        (r"a{\deleted no}{\v0 b}", 'a<x id="1"/>b', r"A{\deleted no}B{\v0 "),
        (r"a\u92? \b\'e4", "", r"A\\ {\b \u196?}\b}"),
        (r"\'e4\\a \b\u228? \par", "", r"\u196?\\A {\b \u196?}\b  \par"),
        (r"a \b\u-10179?\u-8704?\b0  c", "", r"A {\b \u-10179?\u-8704?} C\b\b0 "),
    ],
)
def test_formatting_is_tagged_and_written_as_groups(body: str, source: str, written: str) -> None:
    document = open_document("a.rtf", rtf(body))
    assert source in ("", document.texts[-1].text, document.texts[0].text)
    assert written in shouted(document).decode()


def test_fields_are_links_objects_or_several_paragraphs() -> None:
    link = r"{\field{\*\fldinst HYPERLINK x}{\fldrslt{\b\i a link}}}"
    page = r"{\field{\*\fldinst PAGE}{\fldrslt 3}}"
    assert said("a.rtf", rtf(f"see {link} on {page}, now")) == [
        'see <g id="1">a link</g> on <x id="2"/>, now'
    ]
    long = r"see {\field{\*\fldinst HYPERLINK x}{\fldrslt one\par two}} three"
    assert said("a.rtf", rtf(long)) == ["see", "one", "two", "three"]
    expected = long.upper().replace("FIELD", "field").replace("FLDINST", "fldinst")
    expected = expected.replace("FLDRSLT", "fldrslt").replace("PAR", "par").replace(" X}", " x}")
    assert shouted(open_document("a.rtf", rtf(long))) == rtf(expected)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "byte 0 does not begin"),
        (b"PK\3\4", "byte 0 does not begin"),
        (rtf(r"a\'4x"), r"byte 48: \' is not followed by two hexadecimal digits"),
        (rtf(r"\bin99 a"), r"byte 47: \bin99 is longer"),
        (rtf(r"\u70000?"), r"byte 47: \u70000 is not a number of 16 bits"),
        (rtf(r"\ansicpg99999 a"), "byte 47: code page 99999 is unknown"),
        (rtf("a{")[:-1], "byte 49: the file ends inside a group of level 2; it is incomplete"),
        (b"{\\rtf1 a\\", "byte 8: the file ends inside a group of level 1"),
    ],
)
def test_damaged_files_are_refused_with_reason_and_byte(content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument) as refusal:
        open_document("a.rtf", content)
    assert reason in str(refusal.value)


def test_paragraphs_and_parts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rich_text, "_MOST_PARTS", 3)
    for body in (r"a\par b\par c\par d\par", r"a\tab b\tab c"):
        with pytest.raises(BrokenDocument, match="more than 3 paragraphs, or texts"):
            open_document("a.rtf", rtf(body))


_TOKENS = [
    *("a b", "c. ", " ", "d", r"\b ", r"\b0", r"\plain ", r"\'e4", r"\u228?", r"\uc0 ", r"\par "),
    *(r"\tab", r"\f1 ", "{", "{", "}", "}", r"{\*\bkmkstart x}", r"{\footnote e f}", "\n"),
    *(r"{\field{\*\fldinst HYPERLINK}{\fldrslt ", r"{\field{\*\fldinst PAGE}{\fldrslt 3}}", r"\}"),
]


def closed(tokens: list[str]) -> str:
    """The tokens, with the braces that they lack at their beginning and end."""
    bare = "".join(tokens).replace(r"\}", "")
    depth = least = 0
    for brace in bare:
        depth += {"{": 1, "}": -1}.get(brace, 0)
        least = min(least, depth)
    return "{" * -least + "".join(tokens) + "}" * (depth - least)


def letters(document: Document) -> list[list[str]]:
    """The sorted characters of each text, without tags and blanks, for texts in another order."""
    return sorted(sorted(re.sub(r"<[^>]*>|\s", "", source.text)) for source in document.texts)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_TOKENS), max_size=20).map(closed))
def test_reordering_words_keeps_groups_and_texts(body: str) -> None:
    content = rtf(body)
    document = open_document("a.rtf", content)
    assert unchanged(document) == content
    written = reversed_words(document)
    assert written.startswith(content[:47])
    assert letters(open_document("a.rtf", written)) == letters(document)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.integers(0, 3))
def test_any_translation_is_read_back(text: str, fallback: int) -> None:
    text = f"a{text}z".replace("\ufffe", "").replace("\uffff", "")
    written = open_document("a.rtf", rtf(rf"\uc{fallback} b")).replaced([text])
    assert written.isascii()
    assert said("a.rtf", written) == [text]
