"""Bounded LRU store of recent translations, by scope and id, for later requests about them.

Keeps texts, token ids and options; attention maps and searches are recomputed from them. Event loop
only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import uuid4

from service.text.errors import TranslationError
from service.translation.types import Translation

_BYTES_PER_ENTRY = 700
_BYTES_PER_TEXT = 900
_BYTES_PER_SENTENCE = 800
_BYTES_PER_TOKEN = 40
_BYTES_PER_EDIT = 300
_BYTES_PER_CHARACTER = 4
"""Upper bound: few strings have a character that needs 4 bytes."""

_LONGEST_SHOWN = 40


class UnknownTranslation(TranslationError):
    """The store has no translation with this id."""

    def __init__(self, translation_id: str) -> None:
        shown = translation_id[:_LONGEST_SHOWN]
        super().__init__(
            f"there is no translation {shown}, or it is no longer kept: translate again with "
            "attention, or send both texts to POST /attention"
        )


class StoreObserver(Protocol):
    """Callback for each change of the store."""

    def __call__(self, *, entries: int, size: int, evicted: int) -> None:
        """``entries`` and ``size`` in bytes after the change; ``evicted`` counts entries."""


class TranslationStore:
    """Keeps translations up to ``megabytes``; evicts the least recently used first.

    An entry larger than the whole store is not kept.
    """

    def __init__(self, megabytes: int, observer: StoreObserver | None = None) -> None:
        self._most = megabytes << 20
        self._observer = observer
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], tuple[int, tuple[Translation, ...]]] = (
            OrderedDict()
        )

    def put(self, translations: Sequence[Translation], scope: str = "") -> str:
        """Keep the translations of one request, without their confidences; returns their id.

        ``scope`` is that of ``Callers.scope``: no other scope has translations of this id.
        """
        translation_id = uuid4().hex
        size = size_of(translations)
        evicted = 0
        if size <= self._most:
            kept = tuple(replace(each, confidences=None) for each in translations)
            self._kept[scope, translation_id] = size, kept
            self._size += size
        while self._size > self._most:
            _, (freed, _) = self._kept.popitem(last=False)
            self._size -= freed
            evicted += 1
        if self._observer is not None:
            self._observer(entries=len(self._kept), size=self._size, evicted=evicted)
        return translation_id

    def get(self, translation_id: str, scope: str = "") -> tuple[Translation, ...]:
        """The translations with an id in a scope; raises ``UnknownTranslation``."""
        found = self._kept.get((scope, translation_id))
        if found is None:
            raise UnknownTranslation(translation_id)
        self._kept.move_to_end((scope, translation_id))
        return found[1]


def size_of(translations: Sequence[Translation]) -> int:
    """Estimated size of translations, in bytes."""
    return _BYTES_PER_ENTRY + sum(map(_size_of_text, translations))


def _size_of_text(translation: Translation) -> int:
    sentences = [sentence for leg in translation.legs for sentence in leg.sentences]
    texts = [translation.unchanged]
    for leg in translation.legs:
        texts += (*leg.separators, *leg.hypotheses)
    for sentence in sentences:
        texts += (sentence.source, sentence.target, *sentence.hypotheses)
    characters = sum(map(len, texts))
    sequences: list[Collection[int]] = []
    for each in sentences:
        options = each.options
        sequences += (each.source_ids, each.target_ids, options.target_prefix, *options.completions)
    for leg in translation.legs:
        # The sentences of a text share them.
        sequences += [ids for each in leg.sentences[:1] for ids in each.options.suppress_sequences]
    tokens = sum(map(len, sequences))
    edits = sum(len(sentence.edits) for sentence in sentences)
    return (
        _BYTES_PER_TEXT
        + _BYTES_PER_SENTENCE * len(sentences)
        + _BYTES_PER_TOKEN * tokens
        + _BYTES_PER_EDIT * edits
        + _BYTES_PER_CHARACTER * characters
    )
