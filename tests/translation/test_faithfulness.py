"""Translations keep the source's figures, codes, unknown characters and missing full stops."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.bundle.manifest import DecodingDefaults
from models.bundle.tokenizer import Span, UnknownToken
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import ModelRepository
from service.inspection.inspector import Inspector, Place
from service.inspection.kept_translations import KeptTranslations
from service.inspection.translation_store import TranslationStore
from service.runtime.backend import FloatArray
from service.text.markup import Markup
from service.text.types import Term
from service.translation.decoding import DecodingOverrides
from service.translation.local_translator import LocalTranslator
from service.translation.types import Part, TranslateRequest, Translation
from tests.support.toy import (
    EOS,
    UNK,
    Both,
    ByteTokenizer,
    Script,
    ScriptedAttention,
    ScriptedBackend,
    make_limits,
    make_manifest,
    make_model,
    offering,
    shouting,
    translator_of,
)

(ZERO,) = ByteTokenizer().encode("0")
(FULL_STOP,) = ByteTokenizer().encode(".")
_UNKNOWN = re.compile(r"[^\x00-\x7f]+")


class AsciiTokenizer(ByteTokenizer):
    """Lacks every character that is not ASCII, as SentencePiece without byte fallback does."""

    def encode(self, text: str) -> tuple[int, ...]:
        parts = re.split(f"({_UNKNOWN.pattern})", text)
        return tuple(
            token_id
            for number, part in enumerate(parts)
            for token_id in ((UNK,) if number % 2 else super(AsciiTokenizer, self).encode(part))
        )

    def decode(self, ids: tuple[int, ...]) -> str:
        return "".join(
            " \u2047 " if i == UNK else super(AsciiTokenizer, self).decode((i,)) for i in ids
        )

    def spans(self, text: str) -> tuple[Span, ...]:
        return tuple(
            found.span() for found in re.finditer(f"{_UNKNOWN.pattern}|.", text, re.DOTALL)
        )

    def unknown(self, text: str) -> tuple[UnknownToken, ...]:
        return tuple(
            UnknownToken(index, text[slice(*span)], span)
            for index, span in enumerate(self.spans(text))
            if not text[slice(*span)].isascii()
        )

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        ends = [len(self.decode(ids[:n])) for n in range(len(ids) + 1)]
        return tuple(pairwise(ends))


def miscounting(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Shouts, but most likely replaces each ``1`` by ``2``."""
    log_probs = shouting(source, prefix)
    token = source[min(len(prefix), len(source)) - 1]
    if token == ZERO + 1:
        log_probs[token], log_probs[token + 1] = -1.5, -0.3
    return log_probs


def belated(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Shouts, and replaces each ``4`` by ``8``."""
    log_probs = shouting(source, prefix)
    token = source[min(len(prefix), len(source)) - 1]
    if token == ZERO + 4:
        log_probs[token], log_probs[token + 4] = -90.0, -0.05
    return log_probs


def stopping(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
    """Shouts, and ends each translation with a full stop."""
    log_probs = shouting(source, prefix)
    if len(prefix) == len(source):
        log_probs[EOS], log_probs[FULL_STOP] = -90.0, -0.05
    elif len(prefix) > len(source):
        log_probs[EOS] = -0.05
    return log_probs


@asynccontextmanager
async def scripted(
    script: Script = shouting,
    pairs: Sequence[str] = ("de_en",),
    decoding: DecodingDefaults | None = None,
    ascii_only: bool = False,
    **options: int,
) -> AsyncIterator[tuple[LocalTranslator, ModelRepository, list[LoadedModel]]]:
    models = []
    for number, pair in enumerate(pairs):
        manifest = make_manifest(f"m{number}", *pair.split("_"))
        if decoding is not None:
            manifest = manifest.model_copy(update={"decoding": decoding})
        model = await make_model(manifest, ScriptedBackend(script, make_limits()), **options)
        if ascii_only:
            model.tokenizers = Both(AsciiTokenizer())
        models.append(model)
    async with offering(*models) as repository:
        yield translator_of(repository), repository, models


async def translated(
    text: str, *, request: dict[str, Any] | None = None, **offered: Any
) -> Translation:
    async with scripted(**offered) as (translator, _, _):
        asked = TranslateRequest((text,), "en", "de", **(request or {}))
        return (await translator.translate(asked))[0]


def sentences_of(translation: Translation) -> list[str]:
    return [sentence.source for leg in translation.legs for sentence in leg.sentences]


# Sentences that are copied


@pytest.mark.parametrize(
    ("text", "markup", "expected", "sentences"),
    [
        ("42\nein Hund\n12.05.2026", Markup(), "42\nEIN HUND\n12.05.2026", ["ein Hund"]),
        ("xk-2024/b", Markup(), "xk-2024/b", []),
        ("<b>b12</b>", Markup("html"), "<b>b12</b>", []),
        (
            "<td>7&#37;</td><td>ein Hund</td>",
            Markup("html"),
            "<td>7&#37;</td><td>EIN HUND</td>",
            ["ein Hund"],
        ),
    ],
)
async def test_sentence_without_words_is_copied_and_does_not_reach_the_model(
    text: str, markup: Markup, expected: str, sentences: list[str]
) -> None:
    translation = await translated(text, request={"markup": markup})
    assert translation.text == expected
    assert sentences_of(translation) == sentences


async def test_copied_text_has_no_alternatives_and_no_score() -> None:
    decoding = DecodingOverrides(num_hypotheses=3, return_scores=True)
    translation = await translated("b12", request={"decoding": decoding})
    assert (translation.text, translation.alternatives) == ("b12", ())
    assert all(np.isnan(translation.scores))


@pytest.mark.parametrize(
    ("text", "prefix", "ascii_only", "beginning"),
    [("42\nein Hund", "so ", False, "42\nso "), ("ab!", "§ ", True, "§ ")],
    ids=["after a copied sentence", "of characters that the tokenizer lacks"],
)
async def test_prefix_begins_the_first_sentence_that_is_translated(
    text: str, prefix: str, ascii_only: bool, beginning: str
) -> None:
    decoding = DecodingOverrides(target_prefix=prefix)
    translation = await translated(text, ascii_only=ascii_only, request={"decoding": decoding})
    assert translation.text.startswith(beginning)


async def test_copied_sentences_are_streamed_in_their_place() -> None:
    parts: list[Part] = []
    async with scripted() as (translator, _, _):
        asked = TranslateRequest(("42\nein Hund\n43", "b12"), "en", "de")
        done = await translator.translate(asked, parts.append)
    for number, translation in enumerate(done):
        streamed = "".join(part.target for part in parts if part.text == number)
        assert streamed == translation.text
    assert [translation.text for translation in done] == ["42\nEIN HUND\n43", "b12"]


async def test_copied_sentence_is_copied_through_a_pivot() -> None:
    async with scripted(pairs=("de_en", "en_fr")) as (translator, _, _):
        (translation,) = await translator.translate(TranslateRequest(("b12\nja",), "fr", "de"))
    assert translation.text == "b12\nJA"


async def test_glossary_term_keeps_a_code_from_being_copied() -> None:
    translation = await translated("b12", request={"terms": (Term("b12", "C13"),)})
    assert translation.text == "C13"


@pytest.mark.parametrize(
    ("copies", "code", "sentences"),
    [(None, "B1", ["1 2"]), (False, "B1", ["1 2"]), (True, "b1", [])],
)
async def test_private_use_language_is_translated_unless_its_bundle_copies(
    copies: bool | None, code: str, sentences: list[str]
) -> None:
    decoding = DecodingDefaults(beam_size=2, copy_without_letters=copies)
    async with scripted(pairs=("x-digits_x-reversed",), decoding=decoding) as (translator, *_):
        asked = TranslateRequest(("1 2", "b1"), "x-reversed", "x-digits")
        first, second = await translator.translate(asked)
    assert (sentences_of(first), second.text) == (sentences, code)


async def test_bundle_may_translate_text_without_letters() -> None:
    decoding = DecodingDefaults(copy_without_letters=False)
    assert sentences_of(await translated("42", decoding=decoding)) == ["42"]


# Figures


@pytest.mark.parametrize(
    ("decoding", "default", "expected"),
    [
        ({}, None, "HUND 1"),
        ({"keep_figures": False}, None, "HUND 2"),
        ({"keep_figures": True}, False, "HUND 1"),
    ],
)
async def test_hypothesis_with_the_figures_of_the_source_wins(
    decoding: dict[str, Any], default: bool | None, expected: str
) -> None:
    translation = await translated(
        "HUND 1",
        script=miscounting,
        decoding=DecodingDefaults(beam_size=2, keep_figures=default),
        request={"decoding": DecodingOverrides(**decoding)},
    )
    assert translation.text == expected
    (sentence,) = translation.legs[0].sentences
    assert sentence.target == expected
    assert ByteTokenizer().decode(sentence.target_ids) == expected


async def test_alternatives_come_in_the_order_of_scores() -> None:
    translation = await translated(
        "HUND 1", script=miscounting, request={"decoding": DecodingOverrides(num_hypotheses=2)}
    )
    assert (translation.text, translation.alternatives) == ("HUND 2", ("HUND 1",))


async def test_cache_keeps_results_with_and_without_figures_apart() -> None:
    async with scripted(script=miscounting, result_bytes=1 << 20) as (translator, _, _):
        for _ in range(2):
            for keep, expected in ((True, "HUND 1"), (False, "HUND 2")):
                decoding = DecodingOverrides(keep_figures=keep)
                asked = TranslateRequest(("HUND 1",), "en", "de", decoding=decoding)
                (translation,) = await translator.translate(asked)
                assert translation.text == expected


async def test_keep_figures_of_a_request_applies_to_the_first_leg_of_a_pivot() -> None:
    pairs = ("de_en", "en_fr")
    async with scripted(script=miscounting, pairs=pairs) as (translator, _, _):
        asked = TranslateRequest(("HUND 1",), "fr", "de")
        assert (await translator.translate(asked))[0].text == "HUND 1"
        asked = replace(asked, decoding=DecodingOverrides(keep_figures=False))
        assert (await translator.translate(asked))[0].text == "HUND 2"


# Times of day


@pytest.mark.parametrize(
    ("text", "request_", "expected"),
    [
        ("um 14:30 uhr!", {}, "UM 14:30 UHR!"),
        ("um <b>14:30</b> uhr!", {"markup": Markup("html")}, "UM <b>14:30</b> UHR!"),
        # The score is that of what was written.
        ("um 14:30 uhr!", {"decoding": DecodingOverrides(return_scores=True)}, "UM 18:30 UHR!"),
    ],
)
async def test_wrong_time_of_the_models_own_is_corrected(
    text: str, request_: dict[str, Any], expected: str
) -> None:
    assert (await translated(text, script=belated, request=request_)).text == expected


# Full stops


@pytest.mark.parametrize(
    ("text", "request_", "expected"),
    [
        ("ein Hund", {}, "EIN HUND"),
        ("ein Hund!", {}, "EIN HUND!."),
        ("ein Hund\nzwei Hunde", {}, "EIN HUND\nZWEI HUNDE"),
        ("ein <b>hund</b>", {"markup": Markup("html")}, "EIN <b>HUND</b>"),
        # A full stop stays if scores are requested, or if it is of a prefix or a term.
        ("hund", {"decoding": DecodingOverrides(return_scores=True)}, "HUND."),
        ("hund", {"decoding": DecodingOverrides(target_prefix="hund.")}, "hund."),
        ("hund", {"terms": (Term("hund", "Dog Inc."),)}, "Dog Inc."),
    ],
)
async def test_fragment_gains_no_full_stop_of_the_models_own(
    text: str, request_: dict[str, Any], expected: str
) -> None:
    assert (await translated(text, script=stopping, request=request_)).text == expected


async def test_alternatives_of_a_fragment_gain_no_full_stop() -> None:
    decoding = DecodingOverrides(num_hypotheses=2)
    translation = await translated("hund", script=stopping, request={"decoding": decoding})
    assert not any(text.endswith(".") for text in translation.hypotheses)


# Unknown tokens


@pytest.mark.parametrize(
    ("text", "request_", "expected"),
    [
        ("ein § hund!", {}, "EIN § HUND!"),
        ("über die brücke!", {}, "üBER DIE BRüCKE!"),
        ("\u201ehund\u201c, ja!", {}, "\u201eHUND\u201c, JA!"),
        (
            "ein <b>§ 5</b> &amp; <i>öl</i>!",
            {"markup": Markup("html")},
            "EIN <b>§ 5</b> &amp; <i>öL</i>!",
        ),
        (
            "§ ein hund \u201eja\u201c!",
            {"terms": (Term("hund", "DOG"),)},
            "§ EIN DOG \u201eJA\u201c!",
        ),
    ],
)
async def test_unknown_tokens_become_the_characters_of_the_source(
    text: str, request_: dict[str, Any], expected: str
) -> None:
    assert (await translated(text, ascii_only=True, request=request_)).text == expected


async def test_unknown_token_is_removed_if_the_source_has_no_such_characters() -> None:
    def forgetful(source: tuple[int, ...], prefix: tuple[int, ...]) -> FloatArray:
        log_probs = shouting(source, prefix)
        if len(prefix) == 4:
            log_probs[UNK] = 0.0
        return log_probs

    async with scripted(forgetful, ascii_only=True) as (translator, _, models):
        (translation,) = await translator.translate(TranslateRequest(("ein hund!",), "en", "de"))
        attention = models[0].attention._model
    assert translation.text == "EINHUND!"
    assert isinstance(attention, ScriptedAttention)
    assert attention.calls == []


async def test_attention_is_read_only_for_unknown_tokens() -> None:
    async with scripted(ascii_only=True) as (translator, _, models):
        attention = models[0].attention._model
        assert isinstance(attention, ScriptedAttention)
        await translator.translate(TranslateRequest(("ein hund!",), "en", "de"))
        assert len(attention.calls) == 0
        await translator.translate(TranslateRequest(("ein § hund!",), "en", "de"))
        assert len(attention.calls) == 1


async def test_kept_translation_is_aligned_with_its_final_text() -> None:
    store = TranslationStore(1)
    async with scripted(stopping, ascii_only=True) as (translator, repository, _):
        done = await translator.translate(TranslateRequest(("ein § hund",), "en", "de"))
        kept = store.put(done)
        inspector = Inspector(repository, KeptTranslations(store))
        (text,) = await inspector.texts(kept)
        aligned = await inspector.alignment(Place(kept))
    assert done[0].text == "EIN § HUND"
    assert text.legs[0].sentences[0].sentence.target == "EIN § HUND"
    assert text.legs[0].sentences[0].target_pieces[-2:] == (".", "</s>")
    assert aligned.pair.target_text == "EIN § HUND"
    links = [(link.source, link.target) for link in aligned.alignment.links()]
    assert links == [(0, 0), (1, 1), (2, 2)]


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.text("abc .§ü\u201e\u4f60<>&12\n", max_size=20), min_size=1, max_size=4),
    html=st.booleans(),
    hypotheses=st.integers(1, 2),
)
async def test_no_answer_has_a_mark_of_an_unknown_token(
    texts: list[str], html: bool, hypotheses: int
) -> None:
    parts: list[Part] = []
    async with scripted(stopping, ascii_only=True) as (translator, _, _):
        asked = TranslateRequest(
            tuple(texts),
            "en",
            "de",
            decoding=DecodingOverrides(num_hypotheses=hypotheses),
            markup=Markup("html" if html else "text"),
        )
        done = await translator.translate(asked, parts.append)
    assert not any("\u2047" in text for each in done for text in each.hypotheses)
    assert "".join(part.target for part in parts) == "".join(each.text for each in done)
