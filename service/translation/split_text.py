"""Sentences of a text that is read for translation, and the text around them in the translation."""

from __future__ import annotations

from dataclasses import dataclass

from service.text.segmentation import rejoined
from service.text.types import Detection, LanguagePair
from service.translation.request_reader import Prepared


@dataclass(frozen=True, slots=True)
class SplitText:
    pair: LanguagePair
    detection: Detection | None
    """The detected language of the text, if the request names no source."""
    model: str | None
    """The models of the route, joined by ``+``; ``None`` if source and target are the same."""
    sentences: tuple[str, ...]
    """Parts of the text, unchanged. What is copied to the translation is part of the separators."""
    separators: tuple[str, ...]
    """The text around the translated sentences, one more than there are sentences."""


def split_text(prepared: Prepared) -> SplitText:
    """The only text of a request that is read, as its translation is put together."""
    (group,) = prepared.groups
    (read,) = group.read
    if not group.route:
        return SplitText(read.pair, read.detection, None, (), (read.text,))
    (text,) = group.texts
    separators = list(text.separators)
    for directed in group.route[1:]:
        separators = rejoined(separators, directed.pair.source, directed.pair.target)
    return SplitText(
        read.pair,
        read.detection,
        "+".join(directed.model.name for directed in group.route),
        tuple(sentence.marked.raw for sentence in text.sentences),
        tuple(separators),
    )
