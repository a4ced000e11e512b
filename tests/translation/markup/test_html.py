from __future__ import annotations

from dataclasses import replace

import pytest

from service.text.markup import parse
from tests.support.weaving import raw_runs, woven
from tests.translation.markup.making import HTML, rendered, seen, shouted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>Eins.</p><p>Zwei</p>", ["Eins.", "Zwei"]),
        ("<ul><li>Eins<li>Zwei</ul>", ["Eins", "Zwei"]),
        ("Eins<br>Zwei", ["Eins", "Zwei"]),
        ("Ein <b>fettes</b> Wort", ["Ein fettes Wort"]),
        ("Ein\n   Satz <i> \t in</i> Zeilen", ["Ein Satz in Zeilen"]),
        ("<pre>Eine\nZeile</pre>", ["Eine", "Zeile"]),
        ("<title>Ein <b> Titel</title>", ["Ein <b> Titel"]),
        ("M&uuml;ller &amp; S&#246;hne &lt;3", ["Müller & Söhne <3"]),
        ("Wenn a <b und c> d, <i>dann</i>", ["Wenn a d, dann"]),
        ("Wenn a < b ist", ["Wenn a < b ist"]),
        ("Das <!-- nicht --> da", ["Das da"]),
        ("<script>var a = '<p>Nein</p>';</script>Ja", ["Ja"]),
        ("<style>p {}</style><svg><text>Nein</text></svg>Ja", ["Ja"]),
        ("Donau<wbr>dampf<b>er</b>", ["Donaudampfer"]),
        ("<a>Start</a><a>Hilfe</a>", ["Start Hilfe"]),
        ("<b><a>alt</a></b><img><del>aus</del><ins>ein</ins>", ["alt aus ein"]),
        ("<a>Eins</a>, <a>zwei</a>", ["Eins, zwei"]),
        ("<a>Wort</a>ende <b>Au</b><i>to</i>", ["Wortende Auto"]),
        ('<!DOCTYPE html [<!ENTITY b "&#160;">]><p>Eins</p>', ["Eins"]),
    ],
)
def test_the_model_sees_sentences_without_tags(text, expected) -> None:
    assert seen(text, HTML) == expected


@pytest.mark.parametrize(
    "untouched",
    [
        "<code>ls -l</code>",
        "<kbd>Strg</kbd>",
        '<span translate="no">Acme</span>',
        "<b class='x notranslate y'>Acme <i>Inc</i></b>",
        "<SVG><path d='a>b'/></SVG>",
        "<x-name>Acme</x-name>",
    ],
)
def test_untranslated_element_is_kept_as_one_unit_of_its_sentence(untouched) -> None:
    markup = replace(HTML, ignore_tags=frozenset({"x-name"}))
    text = f"Nimm {untouched}, bitte"
    assert seen(text, markup) == ["Nimm, bitte"]
    assert shouted(text, markup) == f"NIMM {untouched}, BITTE"


def test_an_untouched_block_ends_sentences() -> None:
    text = "<p>Eins</p><div translate=no><p>Zwei</p></div>Drei"
    assert shouted(text, HTML) == "<p>EINS</p><div translate=no><p>Zwei</p></div>DREI"


def test_untouched_elements_end_where_their_parents_do() -> None:
    assert seen("<p>A <span translate=no>b</p><p>C</p>", HTML) == ["A", "C"]


def test_options_set_which_tags_end_sentences() -> None:
    splitting = replace(HTML, splitting_tags=frozenset({"i"}))
    assert seen("Ein <i>Wort</i> da", splitting) == ["Ein", "Wort", "da"]
    joining = replace(HTML, non_splitting_tags=frozenset({"br"}))
    assert seen("Ein<br>Wort", joining) == ["EinWort"]
    assert shouted("Ein <br> Wort", joining) == "EIN <br> WORT"


def test_untranslated_entities_are_kept_unchanged() -> None:
    text = "<p>&nbsp;&sect; &uuml;ber</p>  <p>\n&mdash;\n</p>"
    assert shouted(text, HTML) == "<p>&nbsp;§ ÜBER</p>  <p>\n&mdash;\n</p>"


def test_translations_are_escaped() -> None:
    assert shouted("a &lt; b & <i>c</i>", HTML) == "A &lt; B &amp; <i>C</i>"


def test_address_with_entities_is_recognised_and_kept_unchanged() -> None:
    text = "Auf http://a.example/?b=1&amp;c=2&nbsp;steht mehr"
    assert seen(text, HTML) == ["Auf\xa0steht mehr"]
    assert "http://a.example/?b=1&amp;c=2" in shouted(text, HTML)


def test_tag_soup_is_translated_as_far_as_possible() -> None:
    assert shouted("<b>ein <i>wort</b> noch</i> eins", HTML) == "<b>EIN <i>WORT</b> NOCH</i> EINS"
    assert shouted("eins </b>zwei <p", HTML) == "EINS </b>ZWEI &lt;P"
    assert shouted('<a href="x>eins</a>', HTML) == '<a href="x>EINS</a>'


@pytest.mark.parametrize(
    "unit",
    [
        *("<", "</", "<!", "<!--", "<![CDATA[>", "<?", "&", "&#", '<a b="', '<a b=">" '),
        *('<a b="<a c" ', "<a =a", "<b>", "<b>x", "</b>", "<li>", "<b><div>", "<b><i></b>"),
        *("<code>", "<title>", "<i translate=no>", "{a} ", " \n", "<x/>"),
        *("<!doctype a [", "<!doctype a []", "<a>b</a>"),
    ],
)
def test_parsing_is_lossless_and_linear_for_repeated_units(unit) -> None:
    text = unit * (30_000 // len(unit))
    parsed = parse(text, HTML)
    assert woven(parsed.between, raw_runs(parsed)) == text


@pytest.mark.parametrize(
    "link",
    [
        '<a href="/@a" class="mention">@<span>anna</span></a>',
        '<a href="/tags/x" rel="tag">#<span>Hunde</span></a>',
        '<a href="https://a.example/b"><span class="invisible">https://</span>'
        '<span>a.example</span><span class="invisible">/b</span></a>',
    ],
)
def test_mention_hashtag_or_address_in_a_link_is_kept_whole(link: str) -> None:
    text = f"<p>Hallo {link}, wie geht es?</p>"
    assert seen(text, HTML) == ["Hallo, wie geht es?"]
    assert shouted(text, HTML) == f"<p>HALLO {link}, WIE GEHT ES?</p>"
    assert shouted(f"<p>{link}</p>", HTML) == f"<p>{link}</p>"


def test_text_of_a_link_is_never_empty() -> None:
    links = [(0, 0), (0, 1)]
    found = rendered('ganz <a href="x">neu hier</a>', "all new", links)
    assert found in ('<a href="x">all</a> new', 'all <a href="x">new</a>')
