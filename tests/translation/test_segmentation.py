from __future__ import annotations

import re
from itertools import chain
from typing import Any

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.errors import SentenceTooLong
from service.text.segmentation import TokenLimit, segment

ANY_LENGTH = TokenLimit(len, 10**9)
BLANKS = " \t\n\r\x0b\x0c\x85\u00a0\u2009\u2028\u202f\u3000\ufeff\u200b"
WORDS = ("Dr", "z.B", "e.g", "J", "Ü", "Straße", "wort", "3", "你好", "word", "😀", "--", "«", "(")
MARKS = (".", "!", "?", "…", "。", "\uff01", ",", ";", ":", " – ", '"', "“", "\u2019", ")")

anything = st.text(max_size=80)
like_prose = st.lists(
    st.one_of(st.sampled_from(WORDS), st.sampled_from(MARKS), st.sampled_from(BLANKS)), max_size=60
).map("".join)
languages = st.sampled_from(["de", "en", "fr", "zh", "pt-BR", "x-digits", "und"])


def sentences_of(text: str, language: str = "de", limit: TokenLimit = ANY_LENGTH) -> list[str]:
    return [text[start:end] for start, end in segment(text, language, limit)]


def separators_of(text: str, language: str = "de", limit: TokenLimit = ANY_LENGTH) -> list[str]:
    offsets = [0, *chain.from_iterable(segment(text, language, limit)), len(text)]
    return [text[end:start] for end, start in zip(offsets[::2], offsets[1::2], strict=True)]


@given(anything | like_prose, languages)
def test_sentences_are_in_order_and_do_not_overlap(text: str, language: str) -> None:
    offsets = [0, *chain.from_iterable(segment(text, language, ANY_LENGTH)), len(text)]
    assert offsets == sorted(offsets)


PROSE = (
    "Dr. Müller kam am 3. Mai, z. B. mit dem Rad.",
    "„Ist das wahr?“, fragte er. ",
    "Sie sagte: „Ja. Das ist wahr. Und nun geh!“ Dann ging sie fort.",
    "Es kostet 3.50 Euro (ca. 4 Dollar), d. h. wenig!",
    "Mr. Smith's dog, e.g. the old one, isn't here… is it?",
    "你好。这是一个句子。",
    "Ein ganz gewöhnlicher Satz, der etwas länger ist als die anderen und einen Nebensatz hat.",
)


@given(st.lists(st.sampled_from(PROSE), min_size=80, max_size=120), st.sampled_from(["de", "en"]))
@settings(max_examples=20)
def test_a_long_line_has_the_sentences_that_sentencex_finds_in_the_whole_of_it(
    sentences: list[str], language: str
) -> None:
    line = " ".join(sentences)
    assert len(line) > 2_000
    whole = []
    for found in sentencex.get_sentence_boundaries(language, line):
        if whole and language == "de" and re.search(r"\b\d{1,2}\.$", whole[-1]):
            whole[-1] = f"{whole[-1]} {found['text']}".strip()
        else:
            whole.append(found["text"].strip())
    assert sentences_of(line, language) == whole


@pytest.mark.parametrize("character", "\u2039„'“«\"([.?1 x")
def test_sentencex_never_gets_more_than_a_window(
    character: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is quadratic in unbalanced quotation marks, so this makes the time linear."""
    read: list[int] = []
    original = sentencex.get_sentence_boundaries

    def counting(language: str, text: str) -> Any:
        read.append(len(text))
        return original(language, text)

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", counting)
    for text in (character * 20_000, f"{character} " * 10_000, f"A. {character}b " * 4_000):
        read.clear()
        segment(text, "de", ANY_LENGTH)
        assert max(read) <= 2_000
        assert sum(read) <= 5 * len(text)


@given(anything | like_prose, languages)
def test_sentence_has_a_letter_or_digit_and_no_blanks_around_it(text: str, language: str) -> None:
    for sentence in sentences_of(text, language):
        assert sentence == sentence.strip()
        assert any(character.isalnum() for character in sentence)
        assert len(sentence.splitlines()) == 1


@pytest.mark.parametrize("unseen", ["\ufeff", "\u200b", "\u200f \u202b", "\x00", "\x07\u2060 "])
def test_invisible_characters_around_a_sentence_are_separators(unseen: str) -> None:
    text = f"{unseen}Ein Wort.{unseen}"
    assert sentences_of(text) == ["Ein Wort."]
    assert separators_of(text) == [unseen, unseen]


@given(anything | like_prose, languages)
def test_separators_have_no_letters_and_digits(text: str, language: str) -> None:
    for separator in separators_of(text, language):
        assert not any(character.isalnum() for character in separator)


@given(like_prose, st.integers(12, 40))
def test_no_sentence_is_longer_than_the_model_reads_and_none_is_cut(text: str, most: int) -> None:
    limit = TokenLimit(len, most)
    try:
        sentences = sentences_of(text, limit=limit)
    except SentenceTooLong:
        assert max(map(len, text.split())) > most
        return
    assert all(len(sentence) <= most for sentence in sentences)
    assert not any(map(str.isalnum, "".join(separators_of(text, limit=limit))))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Hallo Welt.  Wie geht's?", ["Hallo Welt.", "Wie geht's?"]),
        ("Dr. Müller kam am 3. Mai, z.B. um acht.", ["Dr. Müller kam am 3. Mai, z.B. um acht."]),
        ("Die 1. Liga, im 19. Jahrhundert.", ["Die 1. Liga, im 19. Jahrhundert."]),
        ("Es war 1984. Es war kalt am 3.", ["Es war 1984.", "Es war kalt am 3."]),
        ("eins\r\nzwei\n\n\tdrei ", ["eins", "zwei", "drei"]),
        ("J.\u00a0Meier kommt. Gut.", ["J.\u00a0Meier kommt.", "Gut."]),
        ("0 1 5 9", ["0 1 5 9"]),
        ("-----\n🎉 !!! 🎉\n", []),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("de", "Alle Preise inkl. MwSt. und zzgl. Versandkosten."),
        ("de", "Die Fa. Bosch, hrsg. Müller, liefert bzgl. Teilen."),
        ("el", "Μένω στην οδ. Ερμού αρ. 5 και σελ. 3."),  # noqa: RUF001 - Greek letters
        ("en", "It is approx. 5 km, est. 1990, see vol. 3, ch. 4, para. 2."),
        ("es", "Vive en la Av. Libertad n.º 5, 2.º piso."),
        ("fr", "L'art. 5 et l\u2019art. 6 : né en 100 av. J.-C. à Rome."),
        ("fr", "M. J.-C. Martin et Mme A.-L. Roy sont nés avant J.-P. Sartre."),
        ("fr", "César vainquit en 52 av. J.-C."),
        ("it", "La Fiat S.p.A. di Torino, nel 50 a.C. a Roma, pag. 3 del libro."),
        ("nl", "Het is koud, d.w.z. ca. 10 graden, na 10 jr. en twee maanden."),
        ("pl", "Byli tam m.in. Kowalski z p. Nowakiem."),
        ("pt", "Moro na Av. Paulista, n.º 5, pág. 3."),
    ],
)
def test_abbreviations_end_no_sentence(language: str, sentence: str) -> None:
    assert sentences_of(f"{sentence} {sentence}", language) == [sentence] * 2


def test_separators_are_the_text_around_sentences() -> None:
    text = "\t Eins. \r\n\r\n Zwei!\u00a0"
    assert separators_of(text) == ["\t ", " \r\n\r\n ", "\u00a0"]


def test_a_long_sentence_is_split_at_clauses_before_blanks() -> None:
    text = "der Hund läuft schnell, die Katze schläft"
    assert sentences_of(text, limit=TokenLimit(len, 25)) == [
        "der Hund läuft schnell,",
        "die Katze schläft",
    ]


def test_a_decimal_comma_is_no_clause_mark() -> None:
    parts = sentences_of("es kostet 3,50 Euro und mehr", limit=TokenLimit(len, 16))
    assert parts == ["es kostet 3,50", "Euro und mehr"]


def test_an_error_quotes_the_word_that_is_longer_than_the_model_reads() -> None:
    for count, quoted in ((30, "a" * 30), (31, "a" * 30 + "…")):
        with pytest.raises(SentenceTooLong) as caught:
            segment("kurz " + "a" * count, "de", TokenLimit(len, 20))
        assert str(caught.value) == (
            f"sentence has {count} tokens; the model reads at most 20, and no blank or clause mark "
            f'divides "{quoted}"'
        )
