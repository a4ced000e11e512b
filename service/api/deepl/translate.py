"""Route ``/v2/translate``: translates texts in DeepL's request and response format.

Clients send options that our models lack: formality, style, instructions, context. They are
accepted, and the answer lists them under ``ignored``. Formatting is always preserved. Unknown
fields are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BeforeValidator, Field

from service.api.access import Caller
from service.api.deepl.dialect import (
    DEEPL,
    CommaSeparated,
    Identifiers,
    answers,
)
from service.api.deepl.glossaries import terms_of
from service.api.deepl.languages import language, shown
from service.api.deepl.memories import Memories
from service.api.deepl.memory_answers import MemoryMatchAnswer, matches_of
from service.api.fields import schemas
from service.api.fields.bounds import CONTEXT_CHARACTERS, INSTRUCTION_CHARACTERS, INSTRUCTIONS
from service.api.fields.options import DecodingParameters, Key, LanguageCode, Name, Texts
from service.api.fields.parameters import Fields
from service.api.fields.schemas import Answer, answer_of
from service.api.metering import MeteredTranslator
from service.api.readings import Reading, Readings
from service.api.responses import json_bytes
from service.api.routing import DirectRoute
from service.catalogue.catalogue import Catalogue
from service.state.glossaries import GlossaryStore
from service.text.markup import PLAIN, Markup
from service.text.memory.memory_index import Memory
from service.text.segmentation import Splitting
from service.text.types import Term
from service.translation.decoding import WHOLE, DecodingOverrides
from service.translation.types import TranslateRequest, Translation

Formality = Annotated[
    Literal["default", "more", "less", "prefer_more", "prefer_less"] | None,
    Field(description="Accepted; no language on offer supports it, so it changes nothing."),
]

_WITHOUT_EFFECT = (
    "context",
    "formality",
    "style_id",
    "custom_instructions",
)

_SPLITTINGS: dict[str, Splitting] = {
    "0": "none",
    "1": "sentences",
    "nonewlines": "ignoring_lines",
}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    # In Python, a boolean is an integer, too.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_flag(value: Any) -> Any:
    return value == "1" if value in ("0", "1") else value


Flag = Annotated[bool, BeforeValidator(_as_flag)]
"""A boolean; older clients send it as the text ``0`` or ``1``, in JSON too."""


class TextParameters(DecodingParameters):
    """The fields of ``/v2/translate``, in whichever shape they come."""

    text: Annotated[Texts, BeforeValidator(_listed, json_schema_input_type=str | list[str])] = (
        Field(
            description="The texts to translate. Forms repeat the field.",
            examples=[["Zwei junge Männer spielen Fußball auf einer Wiese."]],
        )
    )
    target_lang: LanguageCode = Field(
        description="In any case; variants that are not on offer are their language.",
        examples=["EN-GB"],
    )
    source_lang: LanguageCode | None = Field(
        None, description="Detected for each text if left out.", examples=["DE"]
    )
    context: Annotated[str, Field(max_length=CONTEXT_CHARACTERS)] | None = Field(
        None, description="Accepted; it changes nothing."
    )
    split_sentences: (
        Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(_as_text)] | None
    ) = Field(
        None,
        description="Whether sentences end at full stops and at newlines (`1`), at full stops only "
        "(`nonewlines`, the default for `html`), or only with the text (`0`).",
    )
    preserve_formatting: Flag | None = Field(
        None, description="Accepted; formatting is always preserved."
    )
    formality: Formality = None
    glossary_id: Name | None = Field(None, description="Needs `source_lang`.")
    glossary_ids: Identifiers | None = Field(None, description="Up to five; the first counts most.")
    tag_handling: Literal["xml", "html"] | None = Field(None, description="What the markup is.")
    tag_handling_version: Literal["v1", "v2"] | None = Field(None, description="Accepted.")
    outline_detection: Flag | None = Field(
        None,
        description="XML: whether tags that no text stands next to end sentences. By "
        "default they do.",
    )
    splitting_tags: CommaSeparated | None = Field(None, description="Tags that end sentences.")
    non_splitting_tags: CommaSeparated | None = Field(None, description="Tags that never do.")
    ignore_tags: CommaSeparated | None = Field(
        None, description="Tags whose content is not translated."
    )
    model_type: (
        Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None
    ) = Field(None, description="`latency_optimized` searches greedily, unless asked otherwise.")
    show_billed_characters: Flag | None = Field(
        None, description="Accepted; they are always shown."
    )
    style_id: Name | None = Field(None, description="Accepted; it changes nothing.")
    translation_memory_id: Name | None = Field(
        None,
        description="A memory of the caller: translations of equal sentences are taken from it, "
        "and those of similar ones adapted.",
    )
    translation_memory_threshold: Annotated[int, Field(ge=0, le=100), WHOLE] | None = Field(
        None, description="Similarity of a sentence in percent, at least; 75 if left out."
    )
    custom_instructions: (
        Annotated[
            list[Annotated[str, Field(max_length=INSTRUCTION_CHARACTERS)]],
            Field(max_length=INSTRUCTIONS),
        ]
        | None
    ) = Field(None, description="Accepted; they change nothing.")
    model: Name | None = Field(None, description="A model on offer, by name.")
    auth_key: Key | None = Field(None, description="The key, for clients that send no header.")

    @property
    def markup(self) -> Markup:
        if self.tag_handling is None:
            return PLAIN
        return Markup(
            self.tag_handling,
            ignore_tags=self._tags(self.ignore_tags),
            splitting_tags=self._tags(self.splitting_tags),
            non_splitting_tags=self._tags(self.non_splitting_tags),
            outline_detection=self.outline_detection is not False,
        )

    @property
    def splitting(self) -> Splitting:
        by_default = "nonewlines" if self.tag_handling == "html" else "1"
        given = self.split_sentences
        return _SPLITTINGS[given or by_default]

    @property
    def decoding(self) -> DecodingOverrides:
        overrides = self.overrides(self.num_hypotheses or 1)
        quick = self.model_type == "latency_optimized"
        if quick and overrides.beam_size is None and overrides.num_hypotheses == 1:
            return overrides.model_copy(update={"beam_size": 1})
        return overrides

    def request(
        self, catalogue: Catalogue, terms: tuple[Term, ...], memory: Memory | None
    ) -> TranslateRequest:
        source = self.source_lang
        return TranslateRequest(
            texts=tuple(self.text),
            target=language(catalogue, self.target_lang, "targets"),
            source=None if source is None else language(catalogue, source, "sources"),
            model=self.model,
            decoding=self.decoding,
            markup=self.markup,
            splitting=self.splitting,
            terms=terms,
            memory=memory,
        )

    @property
    def ignored(self) -> list[str]:
        """Names of the requested options that have no effect."""
        given = [name for name in _WITHOUT_EFFECT if getattr(self, name)]
        return [name for name in given if getattr(self, name) != "default"]

    def _tags(self, names: Sequence[str] | None) -> frozenset[str]:
        html = self.tag_handling == "html"
        return frozenset(name.lower() if html else name for name in names or ())


class TranslationAnswer(Answer):
    detected_source_language: str = Field(examples=["DE"])
    text: str = Field(examples=["Two young men are playing soccer on a meadow."])
    billed_characters: int = Field(description="Of the text, without tags.")
    truncated: bool = Field(description="Whether a sentence was cut at its longest allowed length.")
    model_type_used: str | None = Field(None, description="Only if `model_type` was given.")
    score: float | None = Field(None, description="Only with `return_scores`; null if unknown.")
    alternatives: list[str] | None = Field(None, description="Only with `num_hypotheses`.")
    undetected: bool | None = Field(
        None,
        description="Only if true: the language could not be detected, and the text is returned as "
        "it is.",
    )
    translation_memory_matches: list[MemoryMatchAnswer] | None = Field(
        None, description="Only if there are any: units like sentences of the text."
    )
    ignored: list[str] | None = Field(
        None, description="Only if there are any: fields that were given and change nothing."
    )


class TranslationsAnswer(Answer):
    translations: list[TranslationAnswer] = Field(description="In the order of the texts.")


def create_router(
    metered: MeteredTranslator, readings: Readings, store: GlossaryStore, memories: Memories
) -> APIRouter:
    router = APIRouter(tags=["translation"], route_class=DirectRoute)
    responses = {200: answer_of(TranslationsAnswer), **answers(404, 456, 504)}

    async def parse(
        fields: Fields, caller: Caller, catalogue: Catalogue
    ) -> Reading[TextParameters]:
        parameters = fields.parse(TextParameters)
        terms = await terms_of(
            store,
            caller,
            catalogue,
            parameters.glossary_id,
            parameters.glossary_ids or (),
            parameters.source_lang,
            parameters.target_lang,
        )
        memory = await memories.of(
            caller,
            catalogue,
            parameters.translation_memory_id,
            parameters.translation_memory_threshold,
            parameters.source_lang,
            parameters.target_lang,
        )
        wanted = parameters.request(catalogue, terms, memory)
        priority = parameters.priority or "interactive"
        return Reading(fields.key, parameters, wanted, priority, lasting=not (terms or memory))

    @router.get(
        "/translate",
        summary="Translate texts, for clients that send no body",
        responses=responses,
        openapi_extra={"parameters": schemas.query(TextParameters, metered.limits)},
    )
    @router.post(
        "/translate",
        summary="Translate texts",
        responses=responses,
        openapi_extra={"requestBody": schemas.body(TextParameters, metered.limits, lists=True)},
    )
    async def translate(request: Request) -> Response:
        """Blanks, line breaks and tags come back exactly as they were."""
        caller, reading = await readings.read(request, DEEPL, parse)
        translations = await metered.translate(request, caller, reading)
        content = _content(reading.parameters, reading.characters, translations)
        return Response(content, media_type="application/json")

    return router


def _content(
    parameters: TextParameters, characters: Sequence[int], translations: Sequence[Translation]
) -> bytes:
    pairs = zip(characters, translations, strict=True)
    return json_bytes(TranslationsAnswer(translations=[_answer(parameters, *p) for p in pairs]))


def _answer(
    parameters: TextParameters, characters: int, translation: Translation
) -> TranslationAnswer:
    given: dict[str, Any] = {}
    if parameters.model_type is not None:
        given["model_type_used"] = parameters.model_type.removeprefix("prefer_")
    if parameters.return_scores:
        score = translation.scores[0]
        given["score"] = score if math.isfinite(score) else None
    if (parameters.num_hypotheses or 1) > 1:
        given["alternatives"] = list(translation.alternatives)
    if translation.undetected:
        given["undetected"] = True
    if translation.matches:
        given["translation_memory_matches"] = matches_of(translation.matches)
    if parameters.ignored:
        given["ignored"] = parameters.ignored
    return TranslationAnswer(
        detected_source_language=shown(translation.pair.source),
        text=translation.text,
        billed_characters=characters,
        truncated=translation.truncated,
        **given,
    )
