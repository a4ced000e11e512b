"""Reorders finished sentences into text order for streaming."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from service.translation.preparing import Text
from service.translation.types import Part


class OrderedParts:
    """Delivers the parts of texts, each as soon as it and all before it are known."""

    def __init__(self, texts: int, deliver: Callable[[Part], None]) -> None:
        self._deliver = deliver
        self._texts: list[Sequence[str] | None] = [None] * texts
        """The separators of each text, once its sentences have been found."""
        self._shares: dict[int, list[float]] = {}
        """The share of the text that each of its sentences is, and that of the rest."""
        self._known: dict[tuple[int, int], str] = {}
        self._next = (0, 0)

    def begin(self, number: int, text: Text) -> None:
        """Register a text once its sentences have been found."""
        self._texts[number] = text.separators
        lengths = [len(sentence.text) for sentence in text.sentences]
        whole = sum(lengths)
        self._shares[number] = [*(length / whole for length in lengths), float(not lengths)]
        self._flush()

    def whole(self, number: int, text: str) -> None:
        """Add a text that has no sentences to wait for."""
        self._texts[number], self._shares[number] = (text,), [1.0]
        self._flush()

    def deliver(self, number: int, sentence: int, target: str) -> None:
        self._known[number, sentence] = target
        self._flush()

    def _flush(self) -> None:
        number, sentence = self._next
        while number < len(self._texts) and (separators := self._texts[number]) is not None:
            if sentence < len(separators) - 1:
                target = self._known.pop((number, sentence), None)
                if target is None:
                    break
                self._part(number, sentence, separators[sentence] + target)
                sentence += 1
            else:
                self._part(number, -1, separators[-1])
                number, sentence = number + 1, 0
        self._next = number, sentence

    def _part(self, number: int, sentence: int, target: str) -> None:
        if target:
            self._deliver(Part(number, target, self._shares[number][sentence]))
