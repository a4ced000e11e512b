from __future__ import annotations

from dataclasses import replace

import pytest

from service.text.errors import TranslationError
from service.text.markup import MalformedMarkup, parse
from tests.translation.markup.making import XML, seen, shouted

DOCUMENT = "<doc>\n <p>Ein <b>fettes</b> Wort</p>\n <p>Noch <i><u>eins</u></i></p>\n</doc>"


def test_element_next_to_text_is_inline_and_any_other_ends_a_sentence() -> None:
    assert seen(DOCUMENT, XML) == ["Ein fettes Wort", "Noch eins"]
    assert seen("<a>Eins</a><b>Zwei</b>", XML) == ["Eins", "Zwei"]
    assert seen("Hallo <b>Welt</b>", XML) == ["Hallo Welt"]


def test_without_outline_detection_only_named_tags_end_sentences() -> None:
    plain = replace(XML, outline_detection=False)
    assert seen("<a>Eins</a><b>Zwei</b>", plain) == ["EinsZwei"]
    splitting = replace(plain, splitting_tags=frozenset({"b"}))
    assert seen("<a>Eins</a><b>Zwei</b>", splitting) == ["Eins", "Zwei"]


def test_named_tags_override_outline_detection() -> None:
    splitting = replace(XML, splitting_tags=frozenset({"b"}))
    assert seen("Hallo <b>Welt</b>", splitting) == ["Hallo", "Welt"]
    joining = replace(XML, non_splitting_tags=frozenset({"b"}), splitting_tags=frozenset({"b"}))
    assert seen("<a> <b>Eins</b> <b>zwei</b></a>", joining) == ["Eins zwei"]


def test_names_keep_their_case() -> None:
    ignoring = replace(XML, ignore_tags=frozenset({"X"}))
    assert shouted("eins <X>zwei</X> <x>drei</x>", ignoring) == "EINS <X>zwei</X> <x>DREI</x>"


def test_placeholders_of_translation_tools_survive() -> None:
    ignoring = replace(XML, ignore_tags=frozenset({"x"}))
    text = 'Hallo <x id="7"></x>, du hast <x id="8"/> Fehler<x id="9">%s</x>'
    assert seen(text, ignoring) == ["Hallo, du hast Fehler"]
    assert shouted(text, ignoring) == (
        'HALLO <x id="7"></x>, DU HAST <x id="8"/> FEHLER<x id="9">%s</x>'
    )


def test_references_are_resolved_for_the_model_and_written_again() -> None:
    assert seen("a &amp; b &#xFC; &#228;", XML) == ["a & b ü ä"]
    assert shouted("a &amp; <b>b</b>", XML) == "A &amp; <b>B</b>"


def test_comments_instructions_and_character_data_are_kept() -> None:
    text = "<?xml version='1.0'?>\n<a><!-- <b> -->eins <![CDATA[<nein>]]> zwei<?x y?></a>"
    assert shouted(text, XML) == text.replace("eins", "EINS").replace("zwei", "ZWEI")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("<a>", 1, 5),
        ("eins\n</a>", 2, 2),
        ("a & b", 1, 3),
        ("<a b=c/>", 1, 5),
        ("eins</fragment><fragment>zwei", 1, 4),
        ("eins &nbsp; zwei", 1, 5),
        ("\x00", 1, 0),
        ("\ud800", 1, 0),
    ],
)
def test_malformed_xml_is_refused_with_line_and_column(text, line, column) -> None:
    with pytest.raises(MalformedMarkup, match=f"line {line}, column {column}") as refused:
        parse(text, XML)
    assert isinstance(refused.value, TranslationError)
    assert (refused.value.line, refused.value.column) == (line, column)


def test_entities_cannot_be_declared() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'
    with pytest.raises(MalformedMarkup, match="document type"):
        parse(bomb, XML)
    with pytest.raises(MalformedMarkup):
        parse("<?xml version='1.0'?>" + bomb, XML)


@pytest.mark.parametrize(
    "prologue",
    [
        "<!DOCTYPE html>",
        "\n<!doctype html>\n",
        "<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0//EN' 'xhtml.dtd'>",
    ],
)
def test_document_type_without_declarations_is_kept(prologue: str) -> None:
    assert shouted(f"{prologue}<a>eins <b>zwei</b></a>", XML) == (
        f"{prologue}<a>EINS <b>ZWEI</b></a>"
    )
    with pytest.raises(MalformedMarkup):
        parse(f"<a>eins</a>{prologue}", XML)
