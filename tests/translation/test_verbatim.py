from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.faithfulness import is_verbatim


@pytest.mark.parametrize(
    "sentence",
    [
        *(
            "42",
            "2026",
            "10:30",
            "12.05.2026",
            "+49 170 1234567",
            "3,5 %",
            "5 €",
            "24/7",
            "½",
            "\uff13",
        ),
        *("https://example.org/a?b=c", "www.example.org", "example.com", "anna@example.org"),
        *("@anna", "#hashtag", "@anna @bob #1", "(@anna)", "example.com."),
        *("/usr/share/dict", "~/notes", "../main", r"C:\Windows", "src/main.py", "main.c"),
        *("v1.2.3", "1.2.3-beta", "2.0", "v2", "ISO-8859-1", "utf-8", "sha-256"),
        *("user_id", "os.path.join", "a1b2c3d4", "550e8400-e29b-41d4-a716-446655440000"),
        *("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "XK-2024/B", "SKU-00123"),
        *("B12", "CO2", "COVID-19", "A4", "10:30h", "12a", "B12, C3."),
    ],
)
def test_number_code_or_address_is_copied(sentence: str) -> None:
    assert is_verbatim(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        *("Hund.", "Hund", "A", "U-Bahn", "USB-Kabel", "NATO", "z.B.", "e.g.", "U.S.A.", "d.h."),
        *("und/oder", "Ja/Nein", "TCP/IP", "Dipl.-Ing.", "Mo.-Fr.", "Hund...", "...Hund", "Don't"),
        *("3D-Drucker", "24-Stunden-Dienst", "B12-Mangel", "5-Sterne-Hotel", "100-jährig"),
        *("1st", "2nd", "90er", "1980s", "10am", "5 km", "Seite 3", "Anna Müller", "Windows 11"),
        *(
            "Name:____",
            "Hund#  Katze",
            "Besuchen Sie example.com",
            "我有3只狗",
            "2026年5月12日",
            "3월",
        ),
        *("третий", "Ça", "ª", "三"),
    ],
)
def test_word_or_sentence_is_translated(sentence: str) -> None:
    assert not is_verbatim(sentence)


@given(st.text(st.characters(exclude_categories=["Lu", "Ll", "Lt", "Lm", "Lo"])))
def test_text_without_letters_is_copied(text: str) -> None:
    assert is_verbatim(text)


@given(st.lists(st.sampled_from(["Hund", "B12", "42", "-", "Müller.", "@anna"]), min_size=1))
def test_sentence_with_ordinary_word_is_translated(tokens: list[str]) -> None:
    assert is_verbatim(" ".join(tokens)) == (not {"Hund", "Müller."} & set(tokens))
