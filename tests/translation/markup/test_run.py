from __future__ import annotations

import pytest

from service.text.markup import PLAIN, Cut, Markup, parse
from tests.translation.markup.making import HTML, seen, sentences, shouted


def cut(text: str) -> Cut:
    (run,) = parse(text, HTML).runs
    return run.cut(sentences(run.text))


def test_text_without_marks_is_one_run() -> None:
    text = "Eins.\n\n  Zwei < drei & mehr."
    (run,) = parse(text).runs
    assert run.text == text
    assert run.cut(sentences(text)).separators == ("", "\n\n  ", "")


@pytest.mark.parametrize("text", ["", " \n", "<p></p>", "<b> </b>", "<!-- x -->", "{name}"])
def test_text_without_words_has_no_runs(text) -> None:
    parsed = parse(text, HTML)
    assert parsed.runs == ()
    assert parsed.between == (text,)


def test_marks_around_whole_sentences_need_no_alignment() -> None:
    parts = cut("<b>Eins. <i>Zwei.</i></b> <u>Drei</u>{name}")
    assert parts.separators == ("<b>", " <i>", "</i></b> <u>", "</u>{name}")
    assert not any(sentence.marked for sentence in parts.sentences)


def test_marks_within_a_sentence_belong_to_it() -> None:
    parts = cut("<u><b>Eins</b> und <i>zwei</i></u>. Drei")
    assert parts.separators == ("", " ", "")
    assert [sentence.marked for sentence in parts.sentences] == [True, False]
    assert parts.sentences[0].raw == "<u><b>Eins</b> und <i>zwei</i></u>."


@pytest.mark.parametrize("markup", [PLAIN, HTML])
@pytest.mark.parametrize(
    "leader", ["........", " . . . . . ", " ---- ", "====", " | ", "|", "\u00b7\u00b7\u00b7\u00b7"]
)
def test_texts_on_both_sides_of_a_leader_are_runs(leader: str, markup: Markup) -> None:
    text = f"Der Anfang{leader}das Ende"
    assert [run.text.strip() for run in parse(text, markup).runs] == ["Der Anfang", "das Ende"]
    assert shouted(text, markup) == f"DER ANFANG{leader}DAS ENDE"


def test_element_around_a_leader_has_both_tags() -> None:
    assert shouted("ein <b>Anfang ........ Ende</b> da", HTML) == (
        "EIN <b>ANFANG ........ ENDE</b> DA"
    )


def test_blank_of_a_form_is_a_placeholder_in_its_sentence() -> None:
    assert seen("Bitte ____ hier eintragen") == ["Bitte hier eintragen"]
    assert shouted("Name: ____ Datum: ____") == "NAME: ____ DATUM: ____"


def test_an_element_across_sentences_is_shared_between_them() -> None:
    parts = cut("Eins <b>zwei. Drei. Vier</b> fünf.")
    assert [[mark.raw for mark in sentence.marks] for sentence in parts.sentences] == [
        ["<b>"],
        [],
        ["</b>"],
    ]
    text = "eins <b>zwei. drei. vier</b> fünf."
    assert shouted(text, HTML) == "EINS <b>ZWEI. DREI. VIER</b> FÜNF."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hallo {name}, wie geht es?", "Hallo, wie geht es?"),
        ("Auf http://a.example steht es", "Auf steht es"),
        ("Es ist ({name} kennt es) so", "Es ist (kennt es) so"),
        ("Er sagte „{name} ist da“", "Er sagte „ist da“"),
        ("Datei{nummer}bild da", "Datei bild da"),
        ("Genau {n}% davon", "Genau% davon"),
        ("Von {a} {b} nach", "Von nach"),
    ],
)
def test_model_input_has_no_superfluous_blanks_at_placeholders(text, expected) -> None:
    assert seen(text, PLAIN) == [expected]
    assert shouted(text).lower() == text.lower()


@pytest.mark.parametrize("spans", [[(0, 0)], [(3, 2)], [(0, 99)], [(2, 4), (1, 3)]])
def test_sentences_out_of_order_are_refused(spans) -> None:
    (run,) = parse("Hallo Welt").runs
    with pytest.raises(ValueError, match="out of order"):
        run.cut(spans)


def test_the_line_breaks_of_subtitle_editors_end_sentences_in_plain_text() -> None:
    text = parse("Ein Hund.<br />Eine Katze<BR>schläft.")
    assert [run.text for run in text.runs] == ["Ein Hund.", "Eine Katze", "schläft."]
    assert text.between == ("", "<br />", "<BR>", "")
