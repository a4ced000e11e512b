"""Parses the service's JSON into result types, ignoring unknown fields.

JSON that does not follow docs/api.md raises one of ``MALFORMED``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from dragoman.answers import (
    Alternative,
    Alternatives,
    Attention,
    Candidate,
    Chosen,
    Confidence,
    Detection,
    Leg,
    Model,
    Quality,
    Readiness,
    Score,
    Search,
    Sentence,
    Timings,
    Token,
    Translation,
    TranslationConfidence,
    Usage,
)

R = TypeVar("R")

MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, EOFError)

_UNLIMITED = 10**12
"""The limit in ``/v2/usage`` that means unlimited; DeepL's clients require a number."""


def translations(
    answer: dict[str, Any], source: str, target: str, *, single: bool
) -> list[Translation]:
    """One for each text. ``single``: ``q`` was a string. Languages are the requested ones."""

    def of_texts(name: str) -> list[Any]:
        return [answer[name]] if single else list(answer[name])

    texts = of_texts("translatedText")

    def if_present(name: str) -> list[Any]:
        return of_texts(name) if name in answer else [None] * len(texts)

    timings = answer.get("timings")
    about = zip(
        texts,
        if_present("detectedLanguage"),
        of_texts("model"),
        of_texts("finish_reason"),
        of_texts("truncated"),
        if_present("alternatives"),
        if_present("scores"),
        if_present("confidence"),
        strict=True,
    )
    return [
        Translation(
            text=_text(text),
            target=target,
            source=source if detected is None else detected["language"],
            detected=None if detected is None else result(Detection, detected),
            model=model,
            finish_reason=finish_reason,
            truncated=truncated,
            alternatives=tuple(alternatives or ()),
            scores=tuple(scores or ()),
            confidence=None if confidence is None else result(TranslationConfidence, confidence),
            timings=None if timings is None else result(Timings, timings),
            id=answer.get("id"),
            number=number,
        )
        for number, (
            text,
            detected,
            model,
            finish_reason,
            truncated,
            alternatives,
            scores,
            confidence,
        ) in enumerate(about)
    ]


def alternatives(answer: dict[str, Any]) -> Alternatives:
    detected = answer.get("detectedLanguage")
    return Alternatives(
        _text(answer["translation"]),
        answer["position"],
        tuple(results(Alternative, answer["alternatives"])),
        None if detected is None else result(Detection, detected),
        answer["model"],
    )


def search(answer: dict[str, Any]) -> Search:
    return Search(
        answer["model"],
        tuple(answer["source"]),
        tuple(tuple(results(Candidate, step["candidates"])) for step in answer["steps"]),
        answer["winner"],
        answer["reproduced"],
    )


def score(answer: dict[str, Any]) -> Score:
    confidence = answer.get("confidence")
    return Score(
        answer["log_prob"],
        answer["score"],
        answer["perplexity"],
        tuple(results(Token, answer["tokens"])),
        None if confidence is None else result(Confidence, confidence),
    )


def result(kind: type[R], given: dict[str, Any]) -> R:
    """An instance of a result type from the fields of the same names, nested ones included."""
    hints = get_type_hints(kind)
    return kind(**{name: _value(hint, given[name]) for name, hint in hints.items()})


def results(kind: type[R], given: Iterable[dict[str, Any]]) -> list[R]:
    return [result(kind, each) for each in given]


def _value(hint: Any, given: Any) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        return result(hint, given)
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], each) for each in given)
    return given


def legs(answer: dict[str, Any], number: int) -> tuple[Leg, ...]:
    return tuple(
        Leg(
            leg["model"],
            leg["version"],
            leg["source"],
            leg["target"],
            leg["layers"]["encoder"],
            leg["layers"]["decoder"],
            leg["heads"],
            tuple(results(Sentence, leg["sentences"])),
        )
        for leg in answer["texts"][number]["legs"]
    )


def attention(answer: dict[str, Any]) -> Attention:
    rows, columns = tuple(answer["rows"]), tuple(answer["columns"])
    layers, heads = _chosen(answer["layers"]), _chosen(answer["heads"])
    shape = (*(1 if each == "mean" else len(each) for each in (layers, heads)), -1, len(columns))
    weights = np.array([each["weights"] for each in answer["maps"]], np.float32).reshape(shape)
    return Attention(weights, rows, columns, layers, heads, answer["kind"], answer["model"])


def models(answer: dict[str, Any]) -> list[Model]:
    return [
        Model(
            each["name"],
            each["version"],
            tuple((direction["source"], direction["target"]) for direction in each["directions"]),
            each["precision"],
            tuple(results(Quality, each["scores"])),
        )
        for each in answer["models"]
    ]


def readiness(answer: dict[str, Any]) -> Readiness:
    return Readiness(
        answer["status"] == "ready",
        tuple(answer["reasons"]),
        tuple(answer["models"]),
        dict(answer["failed"]),
    )


def usage(answer: dict[str, Any]) -> Usage:
    limit = answer["character_limit"]
    return Usage(
        answer["character_count"],
        None if limit >= _UNLIMITED else limit,
        answer["document_count"],
        datetime.fromisoformat(answer["start_time"]),
        datetime.fromisoformat(answer["end_time"]),
    )


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError("the translation is no text")
    return given


def _chosen(given: Any) -> Chosen:
    return "mean" if given == "mean" else tuple(given)
