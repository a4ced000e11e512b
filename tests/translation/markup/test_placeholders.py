from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.translation.markup.placeholders import find, is_one


def found(text: str) -> list[str]:
    return [text[start:end] for start, end in find(text)]


@pytest.mark.parametrize(
    "placeholder",
    [
        *("%s", "%d", "%1$s", "%2$d", "%(name)s", "%(count)d", "%.2f", "%5.1f", "%@", "%ld", "%%"),
        *("{name}", "{0}", "{}", "{user.name}", "{price:.2f}", "{{ name }}", "{{{html}}}"),
        *("${name}", "%{name}", "#{name}", "{% now %}", '<x id="7"/>', '<x id="7"></x>'),
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
        st.sampled_from("aWw1%s{}()$#@.:/\\\\~<>x= \U0001f1e9\U0001f600\u2600\u27bf-\n")
        | st.characters()
    )
)
def test_spans_do_not_depend_on_a_placeholder_in_a_later_line(text) -> None:
    """Texts without any of the signs that placeholders have are not searched."""
    assert find(f"{text}\n%%") == [*find(text), (len(text) + 1, len(text) + 3)]


@pytest.mark.parametrize(
    "unit", ["{", "{a", "%", "%(", "%(a", "a@", "a@b.", "a.", "http://", "www.", "/a", "./", "C:\\"]
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
