"""Response body of ``POST /translate`` in LibreTranslate's format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.libretranslate.spelling import written
from service.translation.types import Detection, Translation, longest

FinishedBy = Literal["complete", "length"]
Scores = list[float | None]

NOTHING_DETECTED = {"confidence": 0.0, "language": "en"}
"""LibreTranslate's answer for a text without a detectable language."""


class DetectionAnswer(BaseModel):
    confidence: float = Field(ge=0, le=100, description="In percent.", examples=[98.5])
    language: str = Field(examples=["de"])


class TimingsAnswer(BaseModel):
    """Milliseconds; of several texts and sentences, those of the longest."""

    preparing: float = Field(ge=0, description="Detecting, splitting and tokenising.")
    queued: float = Field(ge=0, description="Waiting for a place in the batch.")
    decoding: float = Field(ge=0, description="In the batch.")
    total: float = Field(ge=0, description="From the whole request to the answer.")


class TranslateAnswer(BaseModel):
    """Where `q` is a list, so is every field but `id` and `timings`."""

    translated_text: str | list[str] = Field(
        alias="translatedText", examples=["Two young men are playing soccer on a meadow."]
    )
    detected_language: DetectionAnswer | list[DetectionAnswer] | None = Field(
        None, alias="detectedLanguage", description="If `source` was `auto`."
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        None,
        description="If asked for: other translations, best first, without repetitions.",
    )
    model: str | list[str | None] | None = Field(
        description="The model; two names joined by `+` are a route through a third language, "
        "and null means that no model was needed.",
        examples=["everyday-de-en"],
    )
    finish_reason: FinishedBy | list[FinishedBy] = Field(
        description="`length` if a sentence was cut at its longest allowed length.",
        examples=["complete"],
    )
    truncated: bool | list[bool] = Field(description="Whether `finish_reason` is `length`.")
    scores: Scores | list[Scores] | None = Field(
        None,
        description="If asked for: of the translation and of each alternative, the mean of its "
        "sentences' scores, which are normalised log-probabilities; null where nothing was scored.",
    )
    timings: TimingsAnswer | None = Field(None, description="If asked for.")
    id: str | None = Field(
        None,
        description="With `attention`: what to ask for under /translations; also in the header "
        "X-Translation-Id.",
    )


def answer(
    translations: Sequence[Translation],
    *,
    single: bool,
    alternatives: bool,
    scores: bool,
    timings: bool,
    seconds: float,
    identifier: str | None,
) -> dict[str, Any]:
    """Response body; ``seconds`` is the total time, and the flags select optional fields."""
    of_texts: dict[str, list[Any]] = {"translatedText": [t.text for t in translations]}
    if any(t.detection is not None for t in translations):
        of_texts["detectedLanguage"] = [_detected(t.detection) for t in translations]
    if alternatives:
        of_texts["alternatives"] = [list(t.alternatives) for t in translations]
    of_texts["model"] = [t.model for t in translations]
    of_texts["finish_reason"] = [t.finish_reason.value for t in translations]
    of_texts["truncated"] = [t.truncated for t in translations]
    if scores:
        of_texts["scores"] = [_scores(t, alternatives=alternatives) for t in translations]
    body: dict[str, Any] = dict(of_texts)
    if single:
        body = {name: values[0] for name, values in of_texts.items()}
    if timings:
        body["timings"] = _timings(translations, seconds)
    if identifier is not None:
        body["id"] = identifier
    return body


def detected(detection: Detection) -> dict[str, Any]:
    """A detected language in LibreTranslate's format."""
    return {
        "confidence": round(100 * detection.confidence, 1),
        "language": written(detection.language),
    }


def _detected(detection: Detection | None) -> dict[str, Any]:
    if detection is None or not detection.confidence:
        return dict(NOTHING_DETECTED)
    return detected(detection)


def _scores(translation: Translation, *, alternatives: bool) -> Scores:
    """Scores of the translation and of its alternatives, in order; non-finite ones are ``None``."""
    best_of: dict[str, float] = {}
    for text, score in zip(translation.hypotheses, translation.scores, strict=True):
        best_of.setdefault(text, score)
    texts = [translation.text, *(translation.alternatives if alternatives else ())]
    return [best_of[text] if math.isfinite(best_of[text]) else None for text in texts]


def _timings(translations: Sequence[Translation], seconds: float) -> dict[str, float]:
    timing = longest([translation.timing for translation in translations])
    spent = {
        "preparing": timing.preparing,
        "queued": timing.queued,
        "decoding": timing.decoding,
        "total": seconds,
    }
    return {name: round(1000 * value, 3) for name, value in spent.items()}
