"""Parses the service's JSON into result types, ignoring unknown fields.

JSON that does not follow docs/api.md raises one of ``MALFORMED``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from dragoman.answers import (
    Alternatives,
    Attention,
    Chosen,
    Detection,
    Leg,
    Model,
    Readiness,
    Score,
    Search,
    Timings,
    Translation,
    TranslationConfidence,
    UnservedLanguage,
    Usage,
)

R = TypeVar("R")

MALFORMED = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError, EOFError),
    *(OverflowError, RecursionError),
)

_UNLIMITED = 10**12
"""The limit in ``/v2/usage`` that means unlimited; DeepL's clients require a number."""
_PER_TEXT = {
    *("translatedText", "detectedLanguage", "model", "finish_reason", "truncated"),
    *("alternatives", "scores", "confidence", "unservedLanguage"),
}
"""Fields of a translation with a value for each text."""


def translations(
    answer: dict[str, Any], source: str, target: str, *, single: bool
) -> list[Translation]:
    """One for each text. ``single``: ``q`` was a string. Languages are the requested ones."""

    names = {"translatedText", *(_PER_TEXT & set(answer))}
    columns = [[answer[name]] if single else list(answer[name]) for name in names]
    timings = _optional(Timings, answer.get("timings"))
    found = []
    for number, values in enumerate(zip(*columns, strict=True)):
        one = dict(zip(names, values, strict=True))
        detected = _optional(Detection, one.get("detectedLanguage"))
        found.append(
            Translation(
                text=_text(one["translatedText"]),
                target=target,
                source=source if detected is None else detected.language,
                detected=detected,
                model=one["model"],
                finish_reason=one["finish_reason"],
                truncated=one["truncated"],
                alternatives=tuple(one.get("alternatives") or ()),
                scores=tuple(one.get("scores") or ()),
                confidence=_optional(TranslationConfidence, one.get("confidence")),
                timings=timings,
                id=answer.get("id"),
                number=number,
                unserved=_optional(UnservedLanguage, one.get("unservedLanguage")),
            )
        )
    return found


def alternatives(answer: dict[str, Any]) -> Alternatives:
    _text(answer["translation"])
    named = {"words": answer["alternatives"], "detected": answer.get("detectedLanguage")}
    return result(Alternatives, answer | named)


def search(answer: dict[str, Any]) -> Search:
    steps = [step["candidates"] for step in answer["steps"]]
    return result(Search, answer | {"steps": steps})


def score(answer: dict[str, Any]) -> Score:
    return result(Score, {"confidence": None, **answer})


def result(kind: type[R], given: dict[str, Any]) -> R:
    """An instance of a result type from the fields of the same names, nested ones included."""
    hints = get_type_hints(kind)
    return kind(**{name: _value(hint, given[name]) for name, hint in hints.items()})


def _optional(kind: type[R], given: dict[str, Any] | None) -> R | None:
    return None if given is None else result(kind, given)


def results(kind: type[R], given: Iterable[dict[str, Any]]) -> list[R]:
    return [result(kind, each) for each in given]


def _value(hint: Any, given: Any) -> Any:
    if NoneType in get_args(hint):
        return None if given is None else _value(get_args(hint)[0], given)
    if isinstance(hint, type) and is_dataclass(hint):
        return result(hint, given)
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], each) for each in given)
    return given


def legs(answer: dict[str, Any], number: int) -> tuple[Leg, ...]:
    return tuple(map(_leg, answer["texts"][number]["legs"]))


def _leg(given: dict[str, Any]) -> Leg:
    layers = {f"{side}_layers": number for side, number in given["layers"].items()}
    return result(Leg, given | layers)


def attention(answer: dict[str, Any]) -> Attention:
    import numpy as np

    rows, columns = tuple(answer["rows"]), tuple(answer["columns"])
    layers, heads = _chosen(answer["layers"]), _chosen(answer["heads"])
    shape = (*(1 if each == "mean" else len(each) for each in (layers, heads)), -1, len(columns))
    weights = np.array([each["weights"] for each in answer["maps"]], np.float32).reshape(shape)
    return Attention(weights, rows, columns, layers, heads, answer["kind"], answer["model"])


def models(answer: dict[str, Any]) -> list[Model]:
    return [_model(each) for each in answer["models"]]


def _model(given: dict[str, Any]) -> Model:
    pairs = [(each["source"], each["target"]) for each in given["directions"]]
    return result(Model, given | {"directions": pairs})


def readiness(answer: dict[str, Any]) -> Readiness:
    return result(Readiness, answer | {"ready": answer["status"] == "ready"})


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
