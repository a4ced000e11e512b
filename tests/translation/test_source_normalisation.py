"""Source texts are normalised as in training, and spans count the characters of the text."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator

import pytest

from service.catalogue.loaded_model import DirectedModel, LoadedModel
from service.translation.types import TranslateRequest
from tests.support.toy import (
    Both,
    ByteTokenizer,
    ScriptedBackend,
    directed,
    make_limits,
    make_model,
    offering,
    translator_of,
    two_directions,
)


class NormalisingTokenizer(ByteTokenizer):
    """Reads no-break spaces as blanks, as SentencePiece's own normalisation does."""

    def encode(self, text: str) -> tuple[int, ...]:
        return super().encode(text.replace("\u00a0", " "))


@pytest.fixture
async def model() -> AsyncIterator[LoadedModel]:
    model = await make_model(two_directions(), ScriptedBackend(directed, make_limits()))
    yield model
    await model.close()


def german(model: LoadedModel) -> DirectedModel:
    return model.directed[0]


@pytest.mark.parametrize(
    "text",
    ["ein\u00a0hund", "ein hu\u00adnd", "ein\thund", "ein\u200b  hund\ufeff", "\u0000ein hund"],
)
async def test_invisible_characters_do_not_reach_the_model(model: LoadedModel, text: str) -> None:
    assert german(model).source_ids(text) == german(model).exact_source_ids("ein hund")


async def test_decomposed_letters_reach_the_model_composed(model: LoadedModel) -> None:
    decomposed = unicodedata.normalize("NFD", "schläft")
    assert german(model).source_ids(decomposed) == german(model).exact_source_ids("schläft")


async def test_texts_of_tokenizers_that_normalise_are_not_changed(model: LoadedModel) -> None:
    model.tokenizers = Both(NormalisingTokenizer())
    text = "hu\u00adnd"
    assert german(model).source_ids(text) == german(model).exact_source_ids(text)


async def test_spans_of_tokens_count_characters_of_the_text(model: LoadedModel) -> None:
    text = "hu\u00adnd\u00a0 lo\u0301"
    spans = german(model).source_spans(text)
    # A letter has the invisible characters and accents after it; "ó" is two tokens.
    expected = ["h", "u\u00ad", "n", "d", "\u00a0", "l", "o\u0301", "o\u0301"]
    assert [text[slice(*span)] for span in spans] == expected
    assert german(model).source_spans("hund") == ByteTokenizer().spans("hund")


async def test_text_with_soft_hyphens_is_translated_as_without(model: LoadedModel) -> None:
    request = TranslateRequest(("ein hu\u00adnd\u00a0läuft",), "en", "de")
    async with offering(model) as repository:
        (translation,) = await translator_of(repository).translate(request)
    assert translation.text == "EIN HUND LäUFT"
