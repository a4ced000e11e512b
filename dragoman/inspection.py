"""Builds the requests for attention, word alignment, searches and scores. Sends nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from operator import index
from typing import Any, SupportsIndex, overload
from urllib.parse import quote

from dragoman import reading
from dragoman.answers import Alignment, Attention, Chosen, Leg, Score, Search, Translation
from dragoman.options import Choice, Kind, Texts
from dragoman.request import Call


def legs(translation: Translation | str, *, text: int | None = None) -> Call[tuple[Leg, ...]]:
    """Models, sentences and pieces of a translation.

    ``translation`` was requested with ``attention``, or is its ``id``, with the index of the
    ``text``. Raises ``NotFound`` if the service has evicted it.
    """
    identifier, number = _place(translation, text)
    return Call(
        "GET",
        f"translations/{identifier}",
        lambda body: reading.legs(json.loads(body), number),
    )


def attention(
    translation: Translation | str,
    *,
    kind: Kind = "cross",
    layer: Choice | None = None,
    head: Choice = "mean",
    text: int | None = None,
    leg: int = 0,
    sentence: int = 0,
) -> Call[Attention]:
    """Attention weights of a translated sentence, as exact float32 values.

    ``translation`` was requested with ``attention``, or is its ``id``, with the index of the
    ``text``. ``layer`` defaults to the last. Raises ``NotFound`` if the service has evicted the
    translation.
    """
    identifier, number = _place(translation, text)
    place = {"text": str(number), "leg": str(leg), "sentence": str(sentence), "kind": kind}
    ask: Call[Attention] = Call("GET", f"translations/{identifier}/attention", _attention)
    chosen = {"head": _choice(head)} if layer is None else {"layer": _choice(layer)}

    def with_labels(body: bytes) -> Call[Attention]:
        import numpy as np

        weights = np.load(io.BytesIO(body), allow_pickle=False)

        def read(body: bytes) -> Attention:
            labelled = _attention(body)
            if weights.shape[2:] != labelled.weights.shape[2:]:
                raise ValueError("weights and labels are not of the same sentence")
            layers = labelled.layers if layer is None else _numbers(layer, weights.shape[0])
            return replace(
                labelled, weights=weights, layers=layers, heads=_numbers(head, weights.shape[1])
            )

        # One map is enough for the labels.
        one = {} if layer is None else {"layer": "mean"}
        return replace(ask, read=read, query={**place, **one})

    wanted = {**place, **chosen, "head": _choice(head), "format": "npy"}
    return replace(ask, read=with_labels, query=wanted)


def alignment(
    translation: Translation | str, *, text: int | None = None, leg: int = 0, sentence: int = 0
) -> Call[Alignment]:
    """Word alignment of a translated sentence; arguments as for ``attention``."""
    identifier, number = _place(translation, text)
    return Call(
        "GET",
        f"translations/{identifier}/alignment",
        lambda body: reading.result(Alignment, json.loads(body)),
        query={"text": str(number), "leg": str(leg), "sentence": str(sentence)},
    )


def search(
    translation: Translation | str, *, text: int | None = None, leg: int = 0, sentence: int = 0
) -> Call[Search]:
    """Tree of the beam search of a translated sentence; arguments as for ``attention``.

    The service decodes the sentence again.
    """
    identifier, number = _place(translation, text)
    return Call(
        "GET",
        f"translations/{identifier}/search",
        lambda body: reading.search(json.loads(body)),
        query={"text": str(number), "leg": str(leg), "sentence": str(sentence)},
    )


def attention_of(
    source_text: str,
    target_text: str,
    *,
    source: str,
    target: str,
    kind: Kind = "cross",
    layer: Choice | None = None,
    head: Choice = "mean",
    model: str | None = None,
) -> Call[Attention]:
    """Attention maps of any two texts, each as one sentence, under forced decoding.

    Weights have six decimals.
    """
    body = _pair(source_text, target_text, source, target, model)
    body |= {"kind": kind, "head": _choice(head)}
    if layer is not None:
        body["layer"] = _choice(layer)
    return Call("POST", "attention", _attention, json=body)


def alignment_of(
    source_text: str, target_text: str, *, source: str, target: str, model: str | None = None
) -> Call[Alignment]:
    """Word alignment of any two texts, each as one sentence."""
    body = _pair(source_text, target_text, source, target, model)
    return Call(
        "POST",
        "attention",
        lambda body: reading.result(Alignment, json.loads(body)["alignment"]),
        json={**body, "alignment": True},
    )


@overload
def score(
    source_text: str,
    target_text: str,
    *,
    source: str,
    target: str,
    model: str | None = ...,
    confidence: bool = ...,
) -> Call[Score]: ...
@overload
def score(
    source_text: str | Texts,
    target_text: Texts,
    *,
    source: str,
    target: str,
    model: str | None = ...,
    confidence: bool = ...,
) -> Call[list[Score]]: ...
def score(
    source_text: str | Texts,
    target_text: str | Texts,
    *,
    source: str,
    target: str,
    model: str | None = None,
    confidence: bool = False,
) -> Call[Any]:
    """Log-probabilities of given translations, each as one sentence.

    Takes one pair, two lists of equal length, or one source with many targets. ``confidence``
    adds the probability of each word of the target.
    """
    single = isinstance(target_text, str)

    def read(body: bytes) -> Any:
        scores = [reading.score(each) for each in json.loads(body)["scores"]]
        return scores[0] if single else scores

    body = _pair(source_text, target_text, source, target, model)
    if confidence:
        body["confidence"] = True
    return Call("POST", "score", read, json=body)


def _attention(body: bytes) -> Attention:
    return reading.attention(json.loads(body))


def _place(translation: Translation | str, text: int | None) -> tuple[str, int]:
    """The id, URL-quoted, and the index of the text."""
    if isinstance(translation, str):
        return quote(translation, safe=""), text or 0
    if translation.id is None:
        raise ValueError("the translation was not kept; ask for it with attention=True")
    return quote(translation.id, safe=""), translation.number if text is None else text


def _pair(
    source_text: str | Texts,
    target_text: str | Texts,
    source: str,
    target: str,
    model: str | None,
) -> dict[str, Any]:
    pair = {"source_text": source_text, "target_text": target_text}
    body: dict[str, Any] = {
        name: given if isinstance(given, str) else list(given) for name, given in pair.items()
    }
    return body | {"source": source, "target": target} | ({"model": model} if model else {})


def _listed(choice: int | Sequence[int]) -> list[int]:
    """The choice as Python integers; accepts NumPy integers."""
    many = [choice] if isinstance(choice, SupportsIndex) else choice
    return [index(number) for number in many]


def _choice(choice: Choice) -> str:
    return choice if isinstance(choice, str) else ",".join(map(str, _listed(choice)))


def _numbers(choice: Choice, count: int) -> Chosen:
    """The chosen indices of ``count`` layers or heads, in the sorted order of the service."""
    if choice == "mean":
        return "mean"
    return tuple(range(count)) if choice == "all" else tuple(sorted(set(_listed(choice))))
