from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text.detection import LinguaDetector
from service.translation.errors import UndetectedLanguage
from service.translation.request_reader import detected

DETECTOR = LinguaDetector()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Zwei junge Männer spielen Fußball.", "de"),
        ("Two young men are playing soccer.", "en"),
        ("Deux jeunes hommes jouent au football.", "fr"),
        ("1 " * 9_000 + "Zwei junge Männer spielen Fußball.", "de"),
    ],
)
def test_a_text_is_in_the_likeliest_language_on_offer(text: str, language: str) -> None:
    found = DETECTOR.detect(text, ["de", "en", "fr"])
    assert found[0].language == language
    assert found[0].confidence > 0.7


def test_only_languages_on_offer_are_guessed() -> None:
    found = DETECTOR.detect("Deux jeunes hommes jouent au football.", ["de", "en"])
    assert {each.language for each in found} <= {"de", "en"}


@pytest.mark.parametrize("text", ["", " \n", "12 + 30", "🎉 …"])
def test_text_without_letters_is_in_no_language(text: str) -> None:
    assert DETECTOR.detect(text, ["de", "en"]) == ()


def test_text_in_a_script_of_no_offered_language_is_not_detected() -> None:
    assert DETECTOR.detect("人工智能", ["de", "en"]) == ()


def test_only_language_on_offer_is_always_detected() -> None:
    assert DETECTOR.detect("abc", ["x-digits"])[0].language == "x-digits"


def test_the_variant_on_offer_stands_for_its_language() -> None:
    found = DETECTOR.detect("Dois homens jovens jogam futebol.", ["en", "pt-BR"])
    assert found[0].language == "pt-BR"


@given(st.text(max_size=60))
def test_confidences_are_shares_in_descending_order(text: str) -> None:
    shares = [each.confidence for each in DETECTOR.detect(text, ["de", "en", "fr"])]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ceci n'est pas une phrase allemande, mais une phrase française.", "fr"),
        ("12 " * 900 + "人工智能正在改变世界", "zh"),
        ("Zwei junge Männer spielen Fußball auf einer Wiese.", None),
        ("Mit freundlichen Grüßen", None),
        ("Restaurant Hotel", None),
        ("12 + 30", None),
    ],
)
def test_a_language_that_is_not_on_offer_is_named_if_it_is_probable(
    text: str, language: str | None
) -> None:
    found = DETECTOR.unserved(text, ["de", "en"])
    assert (found and found.language) == language
    assert DETECTOR.unserved(text, ["de", "en", "fr", "zh"]) is None


def test_text_with_letters_of_an_offered_language_is_in_no_other() -> None:
    text = "Il-gvern ħabbar ukoll li se jżid il-pagi minimi għall-ħaddiema."
    assert DETECTOR.unserved(text, ["en", "mt"]) is None


@pytest.mark.parametrize(
    ("text", "target", "source"),
    [
        ("Hallo", "en", "de"),
        ("Brot", "en", "de"),
        ("Guten Tag", "de", "de"),
        ("Two young men are playing soccer.", "en", "en"),
        ("12", "en", "en"),
    ],
)
def test_few_words_are_in_another_language_than_the_target(
    text: str, target: str, source: str
) -> None:
    sources = ["de", "en"]
    assert detected(DETECTOR, text, sources, target).language == source


def test_an_undetected_text_is_refused_with_its_language_and_the_command() -> None:
    with pytest.raises(UndetectedLanguage) as raised:
        detected(DETECTOR, "人工智能正在改变世界", ["de"], "en")
    assert raised.value.unserved is not None
    assert raised.value.unserved.command == "dragoman models add zh-en"
