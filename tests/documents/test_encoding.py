from __future__ import annotations

import pytest

from service.documents import Languages, open_document
from service.documents.containers.encoding import decode

TEXTS = {
    ("de", "cp1252"): "Die Straße ist gesperrt. Er sagte: „Schöne Grüße“ – und ging.",
    ("fr", "cp1252"): "Le café est fermé, mais l’été arrive déjà. À bientôt, garçon !",  # noqa: RUF001
    ("pl", "cp1250"): "Zażółć gęślą jaźń. Książka leży na półce, a kot śpi.",
    ("cs", "cp1250"): "Příliš žluťoučký kůň úpěl ďábelské ódy. Děkuji, že jste přišel.",
    ("ru", "cp1251"): "Собака бежит по снегу. Мы идём домой, потому что уже поздно.",
    ("el", "cp1253"): "Ο σκύλος τρέχει στο χιόνι. Πάμε σπίτι.",  # noqa: RUF001
    ("ja", "cp932"): "犬が雪の中を走る。私たちは家に帰ります。",
    ("zh", "gb18030"): "一只狗在雪地里奔跑。我们回家吧，已经很晚了。",
}


@pytest.mark.parametrize(("language", "encoding"), TEXTS)
def test_text_in_the_usual_encoding_of_its_language_is_read(language: str, encoding: str) -> None:
    text = TEXTS[language, encoding]
    assert decode(text.encode(encoding), language).text == text
    assert decode(text.encode(encoding)).text == text


def test_a_short_latin_text_of_an_unknown_language_is_western_european() -> None:
    for text in ("café noir", "Schöne Grüße"):
        assert decode(text.encode("cp1252")).text == text


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_a_translation_keeps_the_encoding_if_it_can(name: str) -> None:
    document = open_document(name, "Schöne Grüße".encode("cp1252"), Languages("de", "fr"))
    assert document.replaced(["très bien"]) == "très bien".encode("cp1252")


def test_a_translation_with_other_letters_becomes_utf_8() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nSchöne Grüße\n".encode("cp1252")
    document = open_document("a.srt", content, Languages("de", "ru"))
    assert document.replaced(["Привет"]).decode("utf-8-sig").endswith("\nПривет\n")  # noqa: RUF001
