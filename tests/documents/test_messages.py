"""Messages of programs: values in JSON, ARB and YAML, their placeholders and plural forms."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.documents import BrokenDocument, Languages, open_document
from service.documents.fragments.message import has_words
from tests.documents.translations import (
    ENGLISH_TO_GERMAN,
    said,
    shouted,
    translated,
    unchanged,
)

JSON = r"""{
  "title" : "Private", "count": 12, "none": null,
  "nested": {"a.b": ["one \u00fc two\/three", true, ["four five"]]},
  "icon": "icon_ok",
  "rich": "Hello {name}, <b>read</b> <br/>&quot;this&quot; &amp; that",
  "files": "{n, plural, =0 {No files} one {# file of <b>{who}</b>} other {# files}} in {place}",
  "chrome": {"message": "Hi $NAME$", "description": "A greeting",
    "placeholders": {"name": {"content": "$1"}}},
  "keys": "See $t(a.b), @:title and :name on %d pages"
}
"""
ARB = """{"@@locale": "en", "greeting": "Hello '{'you'}' {name}",
 "@greeting": {"description": "Not said", "placeholders": {"name": {}}}}
"""
YAML = """# A comment
en: &all
  title: Private  # another
  'quoted': 'It''s one'
  "double": "a \\"word\\"\\nand more"
  number: 12
  truth: yes
  flow: {key one: value one, list: [two three, "four"]}
  literal: |-
    first line
      second line

    third line
  folded: >+
    one long
    sentence

    and another

  wrapped: a plain
    scalar
  tagged: !!str some words
  alias: *all
"""


@pytest.mark.parametrize(
    ("value", "texts", "written"),
    [
        ("Hi {name}", ["Hi {name}"], "HI {NAME}"),
        ("a <b>c</b>\nd", ['a <g id="1">c</g><n id="2"/>d'], "A <b>C</b>\nD"),
        ("a &amp; b", ["a & b"], "A &amp; B"),
        ("a & b", ["a & b"], "A & B"),
        (
            "Press <code>x y</code> now",
            ['Press <w id="1">XY-1</w> now'],
            "PRESS <code>x y</code> NOW",
        ),
        ("%#@files@ of %arg left", ['<w id="1">XY-1</w> of <w id="2">XY-2</w> left'], None),
        ("{n, number} was {d, date, short}", ['<w id="1">XY-1</w> was <w id="2">XY-2</w>'], None),
        ("{0,choice,0#none|1<{0} of us} go", ['<w id="1">XY-1</w> go'], None),
        ("{n, plural, one {a} other {b}}", ["a", "b"], "{n, plural, one {A} other {B}}"),
        (
            "{g, select, m {his {n, plural, other {# cats}}} other {all}}",
            ['his <w id="1">XY-1</w>', '<w id="1">XY-1</w> cats', "all"],
            "{g, select, m {HIS {n, plural, other {# CATS}}} other {ALL}}",
        ),
        ("it''s '{'{n, number}'}'", None, "IT''S '{'{n, number}'}'"),
        ("a {unbalanced", ["a {unbalanced"], "A {UNBALANCED"),
        ("{n, plural, one {a} other {b}", ["{n, plural, one {a} other {b}"], None),
        *(
            (value, [], value)
            for value in ("%s: {n}", "icon_ok", "#1a2b3c", "a.html", "/a", "", "12")
        ),
        ("\ud800 half", [], "\ud800 half"),
    ],
)
def test_texts_of_a_message_leave_out_its_placeholders(
    value: str, texts: list[str] | None, written: str | None
) -> None:
    content = json.dumps([value]).encode()
    assert texts is None or said("a.json", content) == texts
    document = open_document("a.json", content)
    assert unchanged(document) == content
    assert written is None or json.loads(shouted(document)) == [written]


def test_an_apostrophe_before_a_placeholder_quotes_nothing() -> None:
    document = open_document("a.json", b'["of {n, number}", "it\'\'s {n, number}"]')
    of, is_one = (text.text for text in document.texts)
    written = document.replaced([of.replace("of ", "d'"), is_one.replace("it's", "l'ami")])
    assert json.loads(written) == ["d\u2019{n, number}", "l''ami {n, number}"]


@pytest.mark.parametrize(("word", "translated"), [("Off", True), ("E-mail", True), ("GmbH", False)])
def test_identifiers_are_no_words(word: str, translated: bool) -> None:
    assert has_words(word) == translated


def test_values_of_json_are_translated_and_all_else_keeps_its_bytes() -> None:
    written = shouted(open_document("a.json", JSON.encode())).decode()
    before, after = json.loads(JSON), json.loads(written)
    assert list(after) == list(before)
    assert after["nested"] == {"a.b": ["ONE Ü TWO/THREE", True, ["FOUR FIVE"]]}
    assert '"ONE \\u00dc TWO\\/THREE", true, ["FOUR FIVE"]' in written
    assert '{\n  "title" : "PRIVATE", "count": 12, "none": null,\n  "nested": {"a.b": [' in written
    assert after["rich"] == 'HELLO {NAME}, <b>READ</b> <br/>"THIS" &amp; THAT'
    assert after["chrome"] == before["chrome"] | {"message": "HI $NAME$"}
    assert after["keys"] == "SEE $t(a.b), @:title AND :name ON %D PAGES"
    assert after["icon"] == "icon_ok"


def test_metadata_of_a_resource_bundle_is_kept_and_its_language_is_the_target() -> None:
    written = shouted(open_document("a.arb", ARB.encode(), ENGLISH_TO_GERMAN)).decode()
    assert written == ARB.replace('"en"', '"de"').replace("Hello", "HELLO").replace(
        "}' {name}", "}' {NAME}"
    ).replace("'you'", "'YOU'")


def test_values_of_yaml_are_translated_in_their_style() -> None:
    written = shouted(open_document("a.yml", YAML.encode(), ENGLISH_TO_GERMAN)).decode()
    assert (
        written
        == """# A comment
de: &all
  title: PRIVATE  # another
  'quoted': 'IT''S ONE'
  "double": "A \\"WORD\\"\\nAND MORE"
  number: 12
  truth: yes
  flow: {key one: VALUE ONE, list: [TWO THREE, "FOUR"]}
  literal: |-
    FIRST LINE
      SECOND LINE

    THIRD LINE
  folded: >+
    ONE LONG SENTENCE

    AND ANOTHER

  wrapped: A PLAIN SCALAR
  tagged: !!str SOME WORDS
  alias: *all
"""
    )


@pytest.mark.parametrize(
    ("key", "languages", "expected"),
    [
        ("en", Languages("en", "de"), "de"),
        ("en-GB", Languages("en", "de"), "de"),
        ("en", Languages("", "de"), "de"),
        ("en", Languages("fr", "de"), "en"),
        ("ui", Languages("", "de"), "ui"),
        ("en", Languages(), "en"),
    ],
)
def test_the_language_that_is_the_only_key_becomes_the_target(
    key: str, languages: Languages, expected: str
) -> None:
    content = f"{key}:\n  a: one\n".encode()
    assert unchanged(open_document("a.yml", content, languages)).decode().startswith(expected + ":")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("aB {}<>'\"\\:#-|&*!%@\n\t,[]ü\u2028€ "),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab: '"), inner, max_size=3)
    ),
    max_leaves=8,
)


def folded(value: Any) -> Any:
    """A value with its keys, in which strings have no case and no character references."""
    match value:
        case dict():
            return {key: folded(each) for key, each in value.items()}
        case list():
            return [folded(each) for each in value]
        case str():
            return html.unescape(value).casefold()
    return value


@settings(max_examples=150, deadline=None)
@example({"a": "one\u2028}two\n"}, False, "|")
@example({"a": ["\tone\n"]}, False, "|")
@given(VALUES, st.booleans(), st.sampled_from([None, "'", '"', "|", ">"]))
def test_any_values_keep_their_structure_and_their_text(
    value: Any, flow: bool, style: str | None
) -> None:
    written = yaml.safe_dump(
        value, default_flow_style=flow, default_style=style, allow_unicode=True, width=20
    )
    for name, content, load in (
        ("a.json", json.dumps(value, indent=1 if flow else None), json.loads),
        ("a.yaml", written, yaml.safe_load),
    ):
        document = open_document(name, content.encode())
        assert unchanged(document) == content.encode()
        for translation in (translated(document, str.swapcase), shouted(document)):
            assert folded(load(translation)) == folded(load(content))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", b'{"a": 1,\n}', "line 2"),
        ("a.json", b"[" * 200 + b'"a"' + b"]" * 200, "100 levels"),
        ("a.json", b"[" * 100_000, "levels|line 1"),
        ("a.json", b"1" * 5_000, "digits"),
        ("a.arb", b"[]", "not one object"),
        ("a.yml", b"a: b\nc: [", "line"),
        ("a.yml", b"a: \x01", "character 3"),
        ("a.yml", b"[" * 200, "100 levels"),
    ],
)
def test_broken_files_are_refused_with_the_place(name: str, content: bytes, reason: str) -> None:
    with pytest.raises(BrokenDocument, match=reason):
        open_document(name, content)
