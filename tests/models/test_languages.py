from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langcodes import Language

from models.bundle.languages import canonical, display_name, without_region


@pytest.mark.parametrize(
    ("code", "standard"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("deu", "de"),
        ("ger", "de"),
        ("de-Latn", "de"),
        ("pt-br", "pt-BR"),
        ("pt_BR", "pt-BR"),
        ("zh-hans", "zh-Hans"),
        ("iw", "he"),
        ("X-Digits", "x-digits"),
        ("pb", "pt-BR"),
        ("ZT", "zh-Hant"),
    ],
)
def test_spellings_of_a_language_have_one_canonical_code(code: str, standard: str) -> None:
    assert canonical(code) == standard


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("en-US", "en"),
        ("de-AT", "de"),
        ("es-419", "es"),
        ("zh-CN", "zh"),
        ("zh-TW", "zh-TW"),
        ("sr-ME", "sr-ME"),
        ("zh-Hant", "zh-Hant"),
        ("de-CH-1996", "de-CH-1996"),
        ("de", "de"),
        ("x-digits", "x-digits"),
    ],
)
def test_region_is_removed_if_the_script_is_the_languages(code: str, language: str) -> None:
    assert without_region(code) == language


@pytest.mark.parametrize(
    "code",
    [
        *("", "d", "german", "zz", "auto", "und", "root", "x-", " de", "de\n", "../de"),
        *("\uff44\uff45", "x" * 1_000_000),
    ],
)
def test_invalid_language_code_is_named(code: str) -> None:
    with pytest.raises(ValueError) as refusal:
        canonical(code)
    assert repr(code) in str(refusal.value) or len(code) > 35
    assert len(str(refusal.value)) < 200


@given(st.text())
def test_any_text_is_canonicalised_or_refused(code: str) -> None:
    try:
        standard = canonical(code)
    except ValueError:
        return
    assert canonical(standard) == standard


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("de", "German"),
        ("eng", "English"),
        ("pt-BR", "Portuguese (Brazil)"),
        ("x-digits", "digits"),
        ("x-simple-english", "simple english"),
    ],
)
def test_a_language_has_an_english_name(code: str, name: str) -> None:
    assert display_name(code) == name


def test_number_of_codes_kept_is_bounded() -> None:
    def kept() -> int:
        gc.collect()
        return sum(type(each) is Language for each in gc.get_objects())

    for number in range(10_000):
        without_region(canonical(f"en-x-{number}"))
    full = kept()
    for number in range(10_000, 12_000):
        without_region(canonical(f"en-x-{number}"))
    assert kept() == full
