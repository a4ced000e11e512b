"""Messages in the formats of programs: properties, Apple's, Android's, Fluent's, and tables.

In the examples, ``«text»`` is translated, and ``«text|TEXT»`` changes in that way.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable

import pytest
from fluent.syntax import ast, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from service.documents import BrokenDocument, Languages, open_document
from tests.documents.translations import ENGLISH_TO_GERMAN, said, shouted, unchanged

_MARKED = re.compile(r"«([^|»]*)(?:\|([^»]*))?»")


def before(example: str) -> str:
    return _MARKED.sub(r"\1", example)


def after(example: str) -> str:
    return _MARKED.sub(lambda found: found[1].upper() if found[2] is None else found[2], example)


_PROPERTIES = r"""# A comment
! other = comment
title = «Private»
 key\ with\:colon : «value one \
     continued|VALUE ONE CONTINUED»
empty =
alone
count=«It''s» {0} «files of» {1,number}«, \u00fcber \ud83d\ude00|, \u00DCBER \uD83D\uDE00»
plain «it's»\n«second»\t«tabbed»
"""
_STRINGS = r"""/* A comment = "x"; */
"title" = "«Private»"; // "another" = "comment";
key.unquoted = "«it's» \"«quoted»\"\n«and» %@ «more»";
"%d files" = "%1$@ «has» %#@files@ «\U00e4|Ä»";
"alone";
"several
lines" = "«of
text|OF\nTEXT»";
"""
_ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<!-- A comment -->
<resources xmlns:tools="http://schemas.android.com/tools" tools:locale="«en|de»"
    xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <string name="tab">«one»\n\t«two» \t «Open C:\\new»</string>
    <string name="title">«Private»</string>
    <string name="kept" translatable="false">not this</string>
    <string name="escaped">«Don\'t say» \"«no»\" &amp; <b>«never»</b>\n«a»</string>
    <string name="placeholder"><xliff:g id="a">%s x</xliff:g> «left»</string>
    <string name="wrapped">
        «one long
        sentence|ONE LONG SENTENCE»
    </string>
    <string name="quoted">"«two  words»"</string>
    <string name="cdata"><![CDATA[«Terms» & <a href="x">«so on»</a>]]></string>
    <string name="html">&lt;b>«bold»&lt;/b> «text»<br/>\? «line»</string>
    <string name="reference">@string/title</string>
    <plurals name="n"><item quantity="one">%1$s «file»</item></plurals>
    <string-array name="a"><item>«one more»</item><!-- a note --></string-array>
    <style name="x"><item name="y">some words</item></style>
    <item type="string" name="z">«last one»</item><string name="empty"/>
</resources>
"""
_FLUENT = """# A comment
-brand = Fire words
title = «Private» { $x } «it»
long =
    «First line
    second|FIRST LINE SECOND» { -brand } «line»

    «another paragraph»
    .label = «Some» <b>«text»</b> &amp; «more»
    .accesskey = F
files = «You have» { $n ->
    [one] «one file»
   *[other] { $n } «files of» { $kind ->
        [a] «trees»
       *[b]
           «many
           houses|MANY HOUSES»
    }
  } «here»
"""
_TABLE = """ID;«name»;«Text»
1;"«Private»; ""«one»""\";«Hello world»
icon_ok;«it's»;=SUM(A1)
"""
_CATALOGUE = """{
  "sourceLanguage" : "en",
  "strings" : {
    "" : {

    },
    "ACME {}" : {
      "comment" : "A note",
      "shouldTranslate" : false
    },
    "Cancel" : {
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Abbrechen"
          }
        }
      }
    },
    "files" : {
      "localizations" : {
        «|"de" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "needs_review",
                  "value" : "%LLD FILE"
                }
              }
            }
          }
        },
        »"en" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld file"
                }
              }
            }
          }
        }
      }
    },
    "Open" : {
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "«new|needs_review»",
            "value" : "«Open»"
          }
        }
      }
    },
    "Private" : {
      "extractionState" : "manual"«|,
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "needs_review",
            "value" : "PRIVATE"
          }
        }
      }»
    }
  },
  "version" : "1.0"
}
"""
EXAMPLES = {
    ".properties": _PROPERTIES,
    ".strings": _STRINGS,
    ".xcstrings": _CATALOGUE,
    ".xml": _ANDROID,
    ".ftl": _FLUENT,
    ".csv": _TABLE,
}


@pytest.mark.parametrize("extension", EXAMPLES)
def test_values_are_translated_and_all_other_bytes_are_kept(extension: str) -> None:
    example = EXAMPLES[extension]
    document = open_document("a" + extension, before(example).encode(), ENGLISH_TO_GERMAN)
    written = shouted(document).decode()
    # Placeholders of C in plain text are known to the translation, not to the document.
    written = re.sub(r"%(\d\$)?([SD])", lambda found: found[0].lower(), written)
    assert written == after(example)


@pytest.mark.parametrize("extension", [each for each in EXAMPLES if each != ".xcstrings"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_untranslated_file_keeps_its_bytes(extension: str, newline: str) -> None:
    content = before(EXAMPLES[extension]).replace("\n", newline).encode("utf-8-sig")
    assert unchanged(open_document("a" + extension, content)) == content


@pytest.mark.parametrize(
    ("encoding", "source", "written"),
    [
        ("utf-8", "a=ü", "a=Ü €"),
        ("latin-1", "a=ü", "a=Ü \\u20AC"),
        ("ascii", "a=u", "a=\\u00DC \\u20AC"),
        ("utf-16", "a=ü", "a=Ü €"),
    ],
)
def test_encoding_of_properties_is_kept(encoding: str, source: str, written: str) -> None:
    document = open_document("a.properties", source.encode(encoding))
    assert document.replaced(["Ü €"]).decode(encoding) == written


def test_catalogue_in_another_source_language_gives_its_localisations() -> None:
    content = before(_CATALOGUE).encode()
    assert said("a.xcstrings", content, Languages("de", "fr")) == ["Abbrechen", "Open"]
    assert said("a.xcstrings", content, Languages("en", "en")) == []
    assert said("a.xcstrings", content, Languages("", "de")) == ["%lld file", "Open", "Private"]
    half = b'{"sourceLanguage": "en", "strings": {"a \\ud800": {}, "words": {}}}'
    assert b'"a \\ud800" : {' in shouted(open_document("a.xcstrings", half, ENGLISH_TO_GERMAN))


TRANSLATIONS = """key,en,de-AT,comment
a.b,"Private, or not",,a note
c,Known,Bekannt,
d,%s,,
"""


def test_empty_cells_of_the_target_column_get_the_translation_of_the_source_column() -> None:
    document = open_document("a.csv", TRANSLATIONS.encode(), ENGLISH_TO_GERMAN)
    assert [text.text for text in document.texts] == ["Private, or not"]
    same = document.replaced(["Private, or not"]).decode()
    assert same == TRANSLATIONS.replace('not",,', 'not","Private, or not",')
    assert said("a.csv", b"source|target\r\none|\r\ntwo|zwei") == ["one"]
    assert "Bekannt" in said("a.csv", TRANSLATIONS.encode(), Languages("en", "fr"))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("name,unit_price\nSome tea,3\n", ["Some tea"]),
        ("sep=|\nOne, two|three\n", ["One, two", "three"]),
        ("A, B\tC\nD\tE, F, G\n", ["A, B", "C", "D", "E, F, G"]),
        ('A,"B\nC"\nD,E\n', ["A", 'B<n id="1"/>C', "D", "E"]),
        ('A "b",c\n"d" e,f\n', ['A "b"', "c", '"d" e', "f"]),
    ],
)
def test_delimiter_and_header_of_a_table_are_recognised(content: str, texts: list[str]) -> None:
    assert said("a.csv", content.encode()) == texts


def fluent_value(content: str) -> str:
    (message,) = parse(content).body
    assert isinstance(message, ast.Message) and message.value is not None
    return "".join(
        each.value if isinstance(each, ast.TextElement) else each.expression.value  # type: ignore[union-attr]
        for each in message.value.elements
    )


READERS: dict[str, tuple[str, Callable[[str], str]]] = {
    ".csv": ("Xy;1\n", lambda content: next(csv.reader(io.StringIO(content), delimiter=";"))[0]),
    ".ftl": ("a = Xy\n", fluent_value),
    ".properties": ("a=Xy\n", lambda content: content[2:-1].encode().decode("unicode_escape")),
    ".strings": ('"a" = "Xy";', lambda content: json.loads(content[6:-1])),
    ".xml": (
        "<resources><string>Xy</string></resources>",
        lambda content: re.sub(r"\\(.)", r"\1", etree.fromstring(content)[0].text or ""),
    ),
}


@settings(max_examples=300, deadline=None)
@given(
    st.text("aZ{}[]<>'\"\\:*.=#@?!&;,|%$ü€ ", min_size=1).filter(lambda text: text == text.strip())
)
def test_any_translation_is_read_again_as_it_was(text: str) -> None:
    for extension, (content, value_of) in READERS.items():
        document = open_document("a" + extension, content.encode(), ENGLISH_TO_GERMAN)
        written = document.replaced([text]).decode()
        assert value_of(written) == text, extension


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.ftl", b"a = b\n\nc\n", "line 3"),
        ("a.ftl", b"a = " + b"{" * 5_000, "nested too deeply"),
        ("a.strings", b'"a" = "b";\n"c" "d";\n', "line 2"),
        ("a.strings", b"bplist00", "line 1"),
        ("a.xml", b"<html/>", "its root is html"),
        ("a.xcstrings", b'{"a": 1}', "no strings"),
        ("a.xcstrings", b'{"strings": {"a": ' + b"[" * 200 + b"]" * 200 + b"}}", "100 levels"),
        ("a.csv", b"," * 1_000_001, "more than 1000000 cells"),
    ],
)
def test_broken_files_are_refused_with_the_place(name: str, content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument, match=reason):
        open_document(name, content)
