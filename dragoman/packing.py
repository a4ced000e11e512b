"""Packs texts into requests bounded by texts and characters. Knows no network."""

from __future__ import annotations


class Packer:
    """Collects texts and returns full packs, in order."""

    def __init__(self, texts: int, characters: int) -> None:
        self._most_texts = texts
        self._most_characters = characters
        self._texts: list[str] = []
        self._characters = 0

    def add(self, text: str) -> list[str]:
        """Add ``text``; returns the previous pack if it is full. A longer text is a pack alone."""
        full = self._texts and (
            len(self._texts) == self._most_texts
            or self._characters + len(text) > self._most_characters
        )
        pack = self.rest() if full else []
        self._texts.append(text)
        self._characters += len(text)
        return pack

    def rest(self) -> list[str]:
        """The texts added since the last pack."""
        pack, self._texts, self._characters = self._texts, [], 0
        return pack


def packer(texts: object, packs: int, most_texts: int, most_characters: int) -> Packer:
    """Check the arguments of ``translate_many``; ``packs`` is the concurrency."""
    if isinstance(texts, str):
        raise TypeError("translate_many takes many texts; for one there is translate")
    if min(packs, most_texts, most_characters) < 1:
        raise ValueError("concurrency, texts_per_request and characters_per_request are at least 1")
    return Packer(most_texts, most_characters)
