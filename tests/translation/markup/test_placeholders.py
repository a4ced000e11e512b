from __future__ import annotations

from itertools import pairwise
from string import ascii_uppercase, digits

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.text.markup.placeholders import divides, find, is_one


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in find(text)]


@pytest.mark.parametrize(
    "placeholder",
    [
        *("%s", "%d", "%1$s", "%2$d", "%(name)s", "%(count)d", "%.2f", "%5.1f", "%@", "%ld", "%%"),
        *("{name}", "{0}", "{}", "{user.name}", "{price:.2f}", "{{ name }}", "{{{html}}}"),
        *("__NAME__", "__USER_ID2__", "*|FNAME|*", "*|LIST:NAME|*", "##NAME##", "\\(name)"),
        *(
            "\\(user.name)",
            "${name}",
            "%{name}",
            "#{name}",
            "{% now %}",
            '<x id="7"/>',
            '<x id="7"></x>',
        ),
        *("https://a.example", "http://a.example/b_(c)?d=e&f=g#h", "www.a.example/b"),
        *("C:\\Temp\\a.txt", "~/.ssh/id_rsa", "./a", "../a/b", "/etc/ssh"),
        *("ftp://a.example/b.txt", "me@mail.example", "mailto:a.b+c@mail.example"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "Das ist {}.", "({})", "„{}“, ja", "so:{}!", "a {}\nb"])
def test_placeholder_or_address_is_found_without_surrounding_text(placeholder, around) -> None:
    assert found(around.replace("{}", placeholder, 1)) == [placeholder]


@pytest.mark.parametrize(
    "text",
    [
        *("50 % der Leute", "50 %der Leute", "100% sicher", "100%ig", "5%-10%", "50%der", "%"),
        *(
            "{",
            "}",
            "{ ein Satz in Klammern }",
            "$5",
            "a@b",
            "3 < 4 > 2",
            "http://",
            "www.",
        ),
        *(
            "<b>fett</b>",
            "Mein%20Dokument",
            "a://",
            "1:2",
            "und/oder",
            "/s",
            "km/h",
            "e.g. this",
            "http://.",
        ),
    ],
)
def test_ordinary_text_is_not_a_placeholder(text) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "code",
    [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        *("4f9c2e1b", "0x7FFFFFFF", "C02XK0AAJG5J", "US4558302", "DE89370400440532013000"),
        *("123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"),
        *("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:db8::8a2e:370", "fe80::1%eth0", "::1"),
        *("2001:db8::/32", "bf:84:ae:89:bc:86", "00-1A-2B-3C-4D-5E"),
        *("AB12-CD34-EF56", "AB12-CD34", "VK7JG-NPHTM-C97JM-9MPGT-3V66T", "LW0A-ZSGC-CJWQ"),
        *("dGhlIHNhbXBsZSBub25jZQ7a9Xw==", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "Das ist {}.", "({})", "„{}“, ja", "so: {}!", "a {}\nb"])
def test_code_is_found_without_surrounding_text(code: str, around: str) -> None:
    assert found(around.replace("{}", code, 1)) == [code]


@given(
    st.text("0123456789abcdef", min_size=16, max_size=80)
    | st.text(ascii_uppercase + digits, min_size=12, max_size=30),
    st.sampled_from(["{}", "Der Wert {} ist alt.", "ja ({})"]),
)
def test_long_word_that_mixes_digits_and_letters_is_a_code(word: str, around: str) -> None:
    changes = sum(a.isdecimal() != b.isdecimal() for a, b in pairwise(word))
    assume(changes > 1 and sum(map(str.isdecimal, word)) > 1)
    assert found(around.replace("{}", word)) == [word]


@pytest.mark.parametrize(
    "text",
    [
        *("COVID-19", "H2O", "A380", "20-jährig", "Multi30k", "WM2014", "EURO2024", "B12-Mangel"),
        *("90er", "12.05.2026", "14:30", "12:30:45", "2019-2020", "12-MAR-2024", "30km/h"),
        *("1st", "COVID-19-Infektionsschutzgesetz", "Sommersemester2024/Wintersemester"),
        *("Links-Rechts-Links-Rechts-2x", "SAISON-2019-2020", "Boeing-747-400", "WINDOWS95"),
        *("50000000EUR", "500000CAD", "1.000.000EUR", "Deadbeef", "2024-05-12T10:30:00Z"),
        *("std::vector", "100000000", "F-16", "SARS-CoV-2", "VERKEHRSBETRIEBE", "Effaced"),
        *("Donaudampfschifffahrtsgesellschaft", "e3b0c44298fc.png", "4:3", "A1B2"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "Das ist {}.", "({})", "so: {}!"])
def test_word_date_or_amount_is_not_a_code(text: str, around: str) -> None:
    assert found(around.replace("{}", text)) == []


@pytest.mark.parametrize(
    ("text", "filler", "divided"),
    [
        *(("Name: ____ Datum", "____", False), ("Name:____", "____", False)),
        *(("a ___, b", "___", False), ("Inhalt .... 5", "....", True)),
        *(
            ("Inhalt ...... a", "......", True),
            ("Inhalt.......5", ".......", True),
            ("Inhalt.........", ".........", True),
        ),
        *(("Inhalt . . . . 5", ". . . .", True), ("Preis …… 5", "……", True)),
        *(("Preis…………5", "…………", True), ("Tel. ··· 5", "···", True)),
        *(("==== Teil ", "====", True), ("Teil ----", "----", True), ("**** a", "****", True)),
    ],
)
def test_blank_of_a_form_or_leader_is_found(text: str, filler: str, divided: bool) -> None:
    assert found(text) == [filler]
    assert divides(filler) == divided


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Na ja...",
            "Ich weiß nicht.... Doch.",
            "Hm . . . ja",
            "Ja……",
            "a_b",
            "__init__",
            "a____b",
        ),
        *("__fett__", "__Fett__", "## Titel ##", "a * b + c *", "snake__CASE__", "f (x)"),
        *(
            "n----r",
            "Gut..... 20 Euro",
            "a -- b",
            "a --- b",
            "***fett***",
            "f****",
            "****Hotel",
            "****-Hotel",
            "a == b",
            "2**3",
        ),
    ],
)
def test_punctuation_of_a_sentence_is_not_a_filler(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "escapes"),
    [
        *(("eins\\nZwei", ["\\n"]), ("Ja.\\nnein", ["\\n"]), ("ab:\\r\\n\\tB", ["\\r\\n\\t"])),
        *(("Ende\\n", ["\\n"]), ("Daten\\neu", []), ("\\textit(a)", []), ("\\\\north\\test", [])),
    ],
)
def test_escaped_line_breaks_divide_texts(text: str, escapes: list[str]) -> None:
    assert found(text) == escapes
    assert all(map(divides, escapes))


@pytest.mark.parametrize(
    "text", ["{name}", "%s", "__NAME__", "____", "@anna", "#tag", "a@b.example", "%%"]
)
def test_word_of_a_sentence_divides_no_text(text: str) -> None:
    assert is_one(text)
    assert not divides(text)


@pytest.mark.parametrize("character", "_.=-*\u00b7\u2026")
@given(length=st.integers(8, 60))
def test_long_row_of_a_filler_character_is_found_whole(character: str, length: int) -> None:
    row = character * length
    assert found(row) == [row]
    assert found(f"Name: {row} Datum: {row}") == [row, row]


@pytest.mark.parametrize(
    ("text", "signs", "divided"),
    [
        *(("Start | Ende", ["|"], True), ("ja|nein", ["|"], True), ("a || b", ["||"], True)),
        *(("© 2024", ["©"], False), ("Marke™ ist", ["™"], False), ("A® b", ["®"], False)),
        *(("~50 Euro", ["~"], False), ("a ~ b", ["~"], False), ("~~alt~~ neu", ["~~"] * 2, False)),
        *(
            ("`git a` b", ["`"] * 2, False),
            ("``a``", ["``"] * 2, False),
            ("(`a`)", ["`"] * 2, False),
        ),
    ],
)
def test_sign_that_models_replace_is_found(text: str, signs: list[str], divided: bool) -> None:
    assert found(text) == signs
    assert all(divides(sign) == divided for sign in signs)


@pytest.mark.parametrize(
    "text",
    [
        "Wie geht`s?",
        "Er sagte `ja'.",
        "the women` s hand",
        "`` ` a`b` ",
        "a~b",
        "{{ a | upper }}",
        "*|A|*",
        "%{a|b}",
    ],
)
def test_sign_inside_a_word_or_placeholder_is_not_found(text: str) -> None:
    assert all(span not in ("`", "~", "|") for span in found(text))


def test_placeholder_beside_a_word_like_a_code_is_found() -> None:
    assert found("COVID-19/COVID-19/COVID-19=%s") == ["%s"]
    assert found("ABC-123-DEF{name}") == ["{name}"]


def test_adjacent_placeholders_are_found_separately() -> None:
    assert found("%s%s {a}{b} %1$s/%2$s") == ["%s", "%s", "{a}", "{b}", "%1$s", "%2$s"]
    assert found("%dGB von 10 %s") == ["%d", "%s"]


@given(st.text(st.sampled_from("a1%s{}()$#@.:/<>x= w\n-_&")))
def test_spans_are_ordered_and_do_not_overlap(text) -> None:
    position = 0
    for start, end in find(text):
        assert position <= start < end <= len(text)
        position = end


@given(
    st.text(
        st.sampled_from("aWwnAF1_=*|`~©·…%s{}()$#@.:/\\\\~<>x= \U0001f1e9\U0001f600\u2600\u27bf-\n")
        | st.characters()
    )
)
def test_spans_do_not_depend_on_a_placeholder_in_a_later_line(text) -> None:
    """Texts without any of the signs that placeholders have are not searched."""
    assert find(f"{text}\n%%") == [*find(text), (len(text) + 1, len(text) + 3)]


@pytest.mark.parametrize(
    "unit",
    [
        *("{", "{a", "%", "%(", "%(a", "a@", "a@b.", "a.", "http://", "www.", "/a", "./", "C:\\"),
        *("a1", "A1", "1", "A", "A1B-", "ABCD-", "1a:", "1a-", "::", "a1/", "1A/b.", "a1 ", "A1_"),
        *("\\n", "\\na", "\\(", "\\(a", "*|", "*|a", "__A", "##A", "__", "##"),
        *("_", "____a", ".", "....a", " ....a", ". ", "…", "…a", "·", "=", "-", "*", "****a", "*-"),
    ],
)
def test_search_is_linear_for_repeated_units(unit) -> None:
    find(unit * (100_000 // len(unit)))


@pytest.mark.parametrize(
    "text",
    [
        *("@anna", "@anna@example.social", "@a.b", "#Hunde", "#2fast", "\N{DOG FACE}"),
        "\N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}",
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
        "\N{REGIONAL INDICATOR SYMBOL LETTER D}\N{REGIONAL INDICATOR SYMBOL LETTER E}",
    ],
)
def test_mentions_hashtags_and_emoji_are_placeholders(text: str) -> None:
    assert found(f"Siehe {text}, ja") == [text]
    assert is_one(text)


@pytest.mark.parametrize("text", ["C# 4", "a#b", "# 1", "#1", "##", "@ home", "&#252;", "x/#y"])
def test_signs_inside_other_text_are_no_mentions(text: str) -> None:
    assert found(text) == []
