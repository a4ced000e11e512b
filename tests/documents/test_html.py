from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.documents.formats.html import open_html
from service.documents.types import BrokenDocument, Languages, characters
from tests.documents.translations import shouted, unchanged

SOUP = st.lists(
    st.sampled_from(
        [
            *("<p>", "</p>", "<div class=notranslate>", "</div>", "<pre>", "</pre>", "</li>"),
            *("<script>", "</script>", "<br/>", "<!-- a", "-->", "a b ", "<", "&amp;", "é", "\r\n"),
            "x" * 4000,
        ]
    )
)


@given(SOUP)
def test_untranslated_pages_stay_byte_for_byte(soup: list[str]) -> None:
    content = "".join(soup).encode()
    document = open_html(content)
    assert unchanged(document) == content
    assert all(source.markup.kind == "html" for source in document.texts)


def test_a_long_page_is_split_after_blocks_and_never_in_pre() -> None:
    paragraph = "<p>" + "word " * 100 + "</p>\n"
    code = "<pre>" + paragraph * 50 + "</pre>"
    kept = '<div translate="no"><div>' + paragraph * 50 + "</div></div>"
    page = paragraph * 50 + code + kept + paragraph * 50
    parts = [source.text for source in open_html(page.encode()).texts]
    assert len(parts) > 4
    assert all(part in page and len(part) < 2 * len(code) for part in parts)
    assert all(part.count("<pre>") == part.count("</pre>") for part in parts)
    assert not any(part.startswith("</div>") for part in parts)
    assert unchanged(open_html(page.encode())) == page.encode()
    assert [source.text for source in open_html(paragraph.encode()).texts] == [paragraph]


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
        ('<?xml version="1.0" encoding="ISO-8859-15"?>', "iso8859-15"),
        ("<meta charset=utf-16>", "utf-8"),
        ("", "utf-8"),
    ],
)
def test_a_page_is_read_and_written_in_its_declared_encoding(head: str, encoding: str) -> None:
    said = "Привет" if encoding == "cp1251" else "schön"
    document = open_html(f"{head}<p>{said}</p>".encode(encoding))
    assert document.texts[0].text.endswith(f"<p>{said}</p>")
    assert shouted(document) == f"{head}<p>{said.upper()}</p>".encode(encoding)


def test_a_byte_order_mark_overrides_the_charset_and_characters_it_lacks_become_references() -> (
    None
):
    page = "<meta charset=latin-1><p>schön</p>"
    content = codecs.BOM_UTF16_LE + page.encode("utf-16-le")
    assert open_html(content).texts[0].text == page
    document = open_html(b"<meta charset=latin-1><p>ok</p>")
    assert document.replaced(["<p>日本</p>"]) == b"<p>&#26085;&#26412;</p>"


@pytest.mark.parametrize("label", ["rot13", "hex", "zlib", "unicode_escape", "no-such", "utf-7"])
def test_an_unsupported_charset_is_refused_by_name(label: str) -> None:
    with pytest.raises(BrokenDocument, match=f"its charset is {label}; save it as UTF-8"):
        open_html(f"<meta charset={label}><p>Hi".encode())


def test_scripts_styles_and_comments_are_not_counted() -> None:
    page = "<style>p {}</style><script>let a</script><p class=a>Hi &amp; you</p>\n<!-- no -->"
    assert characters(open_html(page.encode())) == len("Hi & you")
    assert open_html(b"<script>let a</script><br>").texts == ()


PAGE = """<!DOCTYPE html><html lang="en-GB"><head><title>page title</title>
<meta name="description" content="about &quot;dogs&quot;"><meta name="author" content="a person">
</head><body title='a tip'><p>see <img src=a.png alt=dog> and <input placeholder="your name"></p>
<p translate="no"><img alt="kept" title="kept"></p><q lang="fr">mot</q><b lang=en-GB>word</b>
<img alt="12"><img alt="dog"></body></html>
"""


def test_title_attributes_with_text_and_language_are_translated() -> None:
    document = open_html(PAGE.encode(), Languages("en", "de"))
    assert [source.text for source in document.texts[1:]] == [
        *('about "dogs"', "a tip", "dog", "your name"),
    ]
    page = document.texts[0].text
    attributes = ['"HUNDE" & mehr', "Tipp", "Hund", "Ihr Name"]
    written = document.replaced([page.replace("page title", "Titel"), *attributes]).decode()
    assert written == (
        PAGE.replace("page title", "Titel")
        .replace("about &quot;dogs&quot;", "&quot;HUNDE&quot; &amp; mehr")
        .replace("'a tip'", '"Tipp"')
        .replace("alt=dog", 'alt="Hund"')
        .replace('"dog"', '"Hund"')
        .replace("your name", "Ihr Name")
        .replace('lang="en-GB"', 'lang="de"')
        .replace("lang=en-GB", 'lang="de"')
    )
    content = b'<html><body><p lang="en">one</p></body></html>'
    assert unchanged(open_html(content, Languages("en", "de"))) == content
