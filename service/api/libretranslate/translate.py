"""Route ``POST /translate``: answers at once, or streams sentences.

Unknown fields are ignored, as clients also send fields of other servers.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BeforeValidator, Field

from service.api.access import Caller
from service.api.dialects import deeplx
from service.api.errors import EXPECTED, BadRequest, message_of, refusal_of
from service.api.fields import schemas
from service.api.fields.bounds import RequestLimits
from service.api.fields.options import DecodingParameters, Key, LanguageCode, Name, Texts
from service.api.fields.parameters import ROOT, Fields
from service.api.fields.schemas import Answer, answer_of
from service.api.fields.terms import Glossary, terms_of
from service.api.inspect.attention_answers import ConfidenceAnswer
from service.api.libretranslate.languages import (
    DetectionAnswer,
    UnservedAnswer,
    detected,
    read,
    read_source,
    unserved,
)
from service.api.metering import MeteredTranslator
from service.api.middleware import facts_of
from service.api.readings import Reading, Readings
from service.api.responses import json_bytes, refusals
from service.api.routing import DirectRoute
from service.api.streaming import Event, EventStream
from service.catalogue.catalogue import Catalogue
from service.observability.logging import request_id
from service.text.confidence import Confidence, joined
from service.text.markup import PLAIN, Markup
from service.translation.decoding import WHOLE
from service.translation.types import Part, TranslateRequest, Translation, longest

KeepTranslations = Callable[[Caller, Sequence[Translation]], Awaitable[str]]
"""Keeps translations for requests about their attention; returns their id."""

_HTML = Markup("html")
_LONGEST_SHOWN = 40
_DIGITS = re.compile("[0-9]{1,18}")


def _number_as_text(value: Any) -> Any:
    """LibreTranslate's clients send this number as text in JSON, too."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


def _format(value: Any) -> Any:
    """Raises ``BadRequest`` in LibreTranslate's words."""
    if isinstance(value, str) and value not in ("text", "html"):
        raise BadRequest(f"{value[:_LONGEST_SHOWN]} format is not supported")
    return value


class TranslateParameters(DecodingParameters):
    q: str | Texts = Field(
        description="The text, or a list of texts (JSON only).",
        examples=["Zwei junge Männer spielen Fußball auf einer Wiese."],
    )
    source: LanguageCode = Field(
        description="Language code of the source, in any case; `auto` finds it out for each text.",
        examples=["de"],
    )
    target: LanguageCode = Field(
        description="Language code of the target, in any case.", examples=["en"]
    )
    format: Annotated[Literal["text", "html"] | None, BeforeValidator(_format)] = Field(
        None, description="`text` if not given; in `html`, tags stay where they belong."
    )
    glossary: Glossary = None
    prefix: str | None = Field(
        None,
        description="The beginning of the translation, of one text; kept character by character.",
        examples=["Two boys"],
    )
    alternatives: Annotated[int, Field(ge=0), WHOLE, BeforeValidator(_number_as_text)] | None = (
        Field(None, description="How many other translations to return.")
    )
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")
    model: Name | None = Field(
        None,
        description="A model by its name, see `GET /models`; chosen by languages if not given.",
    )
    attention: bool | None = Field(
        None,
        description="Keep the translation so that its attention can be requested by `id`.",
    )
    timings: bool | None = Field(None, description="Whether to return the time of each stage.")
    confidence: bool | None = Field(
        None,
        description="Whether to return how likely each word of the translation is; not of HTML.",
    )
    stream: bool | None = Field(
        None, description="Answer with server-sent events: each sentence as soon as it is done."
    )

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.q,) if isinstance(self.q, str) else tuple(self.q)

    @property
    def hypotheses(self) -> int:
        return max((self.alternatives or 0) + 1, self.num_hypotheses or 1)

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            self.texts,
            read(self.target, catalogue.targets),
            read_source(self.source, catalogue.sources),
            self.model,
            self.overrides(self.hypotheses),
            _HTML if self.format == "html" else PLAIN,
            terms=terms_of(self.glossary) if self.glossary else (),
            prefix=self.prefix or "",
            confidence=self.confidence or False,
        )


def _parameters(fields: Fields, limits: RequestLimits) -> TranslateParameters:
    parameters = fields.parse(TranslateParameters)
    if (parameters.alternatives or 0) > limits.alternatives:
        raise BadRequest(
            f"Invalid request: alternatives parameter must be at most {limits.alternatives}"
        )
    if parameters.confidence and parameters.format == "html":
        raise BadRequest(
            "Invalid request: confidence parameter is for plain text only; leave out format html"
        )
    if parameters.confidence and parameters.glossary:
        raise BadRequest("Invalid request: glossary parameter excludes confidence")
    if parameters.prefix:
        limits.check([parameters.prefix])
        if len(parameters.texts) != 1:
            raise BadRequest(
                "Invalid request: prefix parameter is allowed with one text only; "
                f"q has {len(parameters.texts)} texts"
            )
        for name in ("target_prefix", "prefix_bias_beta"):
            if getattr(parameters, name):
                raise BadRequest(f"Invalid request: prefix parameter excludes {name}")
    return parameters


FinishedBy = Literal["complete", "length"]
Scores = list[float | None]


class TimingsAnswer(Answer):
    """Milliseconds; of several texts and sentences, those of the longest."""

    preparing: float = Field(ge=0, description="Detecting, splitting and tokenising.")
    queued: float = Field(ge=0, description="Waiting for a place in the batch.")
    decoding: float = Field(ge=0, description="In the batch.")
    total: float = Field(ge=0, description="From the whole request to the answer.")


class SentenceConfidenceAnswer(Answer):
    start: int = Field(description="Characters of the translation before the sentence.")
    end: int
    mean: float | None = Field(
        description="Geometric mean of its words' probabilities; null without words."
    )
    lowest: float | None = Field(description="Lowest of them; null without words.")


class TranslationConfidenceAnswer(ConfidenceAnswer):
    sentences: list[SentenceConfidenceAnswer] = Field(
        description="In order; those that are copied, or were given as `prefix`, have no words."
    )


class TranslateAnswer(Answer):
    """Each field but `id` and `timings` is a list where `q` is one."""

    translated_text: str | list[str] = Field(
        serialization_alias="translatedText",
        examples=["Two young men are playing soccer on a meadow."],
    )
    detected_language: DetectionAnswer | list[DetectionAnswer] | None = Field(
        None, serialization_alias="detectedLanguage", description="If `source` was `auto`."
    )
    unserved_language: UnservedAnswer | list[UnservedAnswer | None] | None = Field(
        None,
        serialization_alias="unservedLanguage",
        description="Only if there is one: the language, not on offer, that the text is probably "
        "in, if `source` was `auto`.",
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None,
        description="If requested: other translations, best first, without repetitions.",
    )
    model: str | list[str | None] | None = Field(
        description="The model; two names joined by `+` are a route through a third language, "
        "and null means that no model was needed.",
        examples=["general-de-en"],
    )
    finish_reason: FinishedBy | list[FinishedBy] = Field(
        description="`length` if a sentence was cut at its longest allowed length.",
        examples=["complete"],
    )
    truncated: bool | list[bool] = Field(description="Whether `finish_reason` is `length`.")
    scores: Scores | list[Scores] | None = Field(
        None,
        description="If requested: of the translation and of each alternative, the mean of its "
        "sentences' scores, which are normalised log-probabilities; null where nothing was scored.",
    )
    confidence: TranslationConfidenceAnswer | list[TranslationConfidenceAnswer | None] | None = (
        Field(
            None,
            description="If requested: of `translatedText`, not of alternatives; null where no "
            "model was needed.",
        )
    )
    undetected: list[int] | None = Field(
        None,
        description="Only if there are any: numbers, from 0, of the texts whose language could not "
        "be detected. They are returned as they are.",
    )
    timings: TimingsAnswer | None = Field(None, description="If requested.")
    id: str | None = Field(
        None,
        description="With `attention`: the name under /translations; also in the header "
        "X-Translation-Id.",
    )


_STREAM = (
    'With `stream`, the answer is `text/event-stream`: `event: part` with `{"text": i, '
    '"translatedText": "…"}`, in order, whose texts joined are the translation; then `event: done` '
    'with what would else have been the whole answer, or `event: error` with `{"error": "…", '
    '"status": n}`.'
)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"The translations. {_STREAM}",
        "headers": {
            "X-Translation-Id": {
                "schema": {"type": "string"},
                "description": "With `attention`: the `id` of the answer.",
            }
        },
        **answer_of(TranslateAnswer),
    },
    **refusals(400, 403, 404, 413, 429, 500, 503, 504),
}


def create_translate_router(
    metered: MeteredTranslator, readings: Readings, keep: KeepTranslations
) -> APIRouter:
    """The route, which answers bodies of DeepLX's dialect in that dialect."""
    to_deeplx = deeplx.create_endpoint(metered, readings)
    router = APIRouter(tags=["translation"], route_class=DirectRoute)

    async def parse(
        fields: Fields, _: Caller, catalogue: Catalogue
    ) -> Reading[TranslateParameters]:
        parameters = _parameters(fields, metered.limits)
        wanted = parameters.request(catalogue)
        return Reading(fields.key, parameters, wanted, parameters.priority or "interactive")

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts",
        responses=_RESPONSES,
        openapi_extra={"requestBody": schemas.body(TranslateParameters, metered.limits)},
    )
    async def translate(request: Request) -> Response:
        """Blanks and line breaks around sentences come back exactly as they were.

        A JSON object with `text` and `target_lang`, without `q`, is answered as DeepLX does.
        """
        started = time.perf_counter()
        body = await request.body()
        # A request of LibreTranslate's clients calls nothing of another dialect.
        if deeplx.FIELD in body and deeplx.is_deeplx(body):
            return await to_deeplx(request)
        caller, reading = await readings.read(request, ROOT, parse)
        parameters = reading.parameters

        async def answer(translations: list[Translation], identifier: str | None) -> bytes:
            seconds = time.perf_counter() - started
            if not parameters.confidence:
                return json_bytes(_answer(parameters, translations, seconds, identifier))
            # It is long, if the text is.
            return await asyncio.to_thread(
                lambda: json_bytes(_answer(parameters, translations, seconds, identifier))
            )

        async def kept(translations: list[Translation]) -> str | None:
            return await keep(caller, translations) if parameters.attention else None

        if parameters.stream:

            async def last(translations: list[Translation]) -> bytes:
                return await answer(translations, await kept(translations))

            return await EventStream.begin(
                _events(metered.stream(request, caller, reading), last),
                lambda error: _broken_off(request, error),
            )
        translations = await metered.translate(request, caller, reading)
        identifier = await kept(translations)
        return Response(
            await answer(translations, identifier),
            headers=None if identifier is None else {"x-translation-id": identifier},
            media_type="application/json",
        )

    return router


async def _events(
    stream: AsyncGenerator[Part | list[Translation], None],
    answer: Callable[[list[Translation]], Awaitable[bytes]],
) -> AsyncIterator[Event]:
    async with aclosing(stream) as parts:
        async for each in parts:
            if isinstance(each, Part):
                yield Event("part", {"text": each.text, "translatedText": each.target})
            else:
                yield Event("done", await answer(each))


def _answer(
    parameters: TranslateParameters,
    translations: Sequence[Translation],
    seconds: float,
    identifier: str | None,
) -> TranslateAnswer:
    """``seconds`` is the total time."""
    wide = parameters.hypotheses > 1
    of_texts: dict[str, list[Any]] = {
        "translated_text": [t.text for t in translations],
        "model": [t.model for t in translations],
        "finish_reason": [t.finish_reason.value for t in translations],
        "truncated": [t.truncated for t in translations],
    }
    if any(t.detection is not None for t in translations):
        of_texts["detected_language"] = [detected(t.detection) for t in translations]
        others = [unserved(t.detection) for t in translations]
        if any(others):
            of_texts["unserved_language"] = others
    if wide:
        of_texts["alternatives"] = [list(t.alternatives) for t in translations]
    if parameters.return_scores:
        of_texts["scores"] = [_scores(t, alternatives=wide) for t in translations]
    if parameters.confidence:
        of_texts["confidence"] = [_confidence(t.confidences) for t in translations]
    body: dict[str, Any] = dict(of_texts)
    if isinstance(parameters.q, str):
        body = {name: values[0] for name, values in of_texts.items()}
    if undetected := [n for n, t in enumerate(translations) if t.undetected]:
        body["undetected"] = undetected
    if parameters.timings:
        body["timings"] = _timings(translations, seconds)
    if identifier is not None:
        body["id"] = identifier
    return TranslateAnswer(**body)


def _confidence(found: tuple[Confidence, ...] | None) -> TranslationConfidenceAnswer | None:
    if found is None:
        return None
    whole = joined(found)
    return TranslationConfidenceAnswer.model_validate(
        {"words": whole.words, "mean": whole.mean, "lowest": whole.lowest, "sentences": found},
        from_attributes=True,
    )


def _scores(translation: Translation, *, alternatives: bool) -> Scores:
    """Scores of the translation and of its alternatives, in order; non-finite ones are ``None``."""
    best_of: dict[str, float] = {}
    for text, score in zip(translation.hypotheses, translation.scores, strict=True):
        best_of.setdefault(text, score)
    texts = [translation.text, *(translation.alternatives if alternatives else ())]
    return [best_of[text] if math.isfinite(best_of[text]) else None for text in texts]


def _timings(translations: Sequence[Translation], seconds: float) -> TimingsAnswer:
    timing = longest([translation.timing for translation in translations])
    return TimingsAnswer(
        preparing=_milliseconds(timing.preparing),
        queued=_milliseconds(timing.queued),
        decoding=_milliseconds(timing.decoding),
        total=_milliseconds(seconds),
    )


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 3)


def _broken_off(request: Request, error: Exception) -> Event:
    """Error event for a failure after status 200 has been sent."""
    refusal = refusal_of(error)
    facts_of(request).refusal = refusal
    message = f"internal error; it was logged as request {request_id.get()}"
    if isinstance(error, EXPECTED):
        message = message_of(error)
    return Event("error", {"error": message, "status": int(refusal.status)})
