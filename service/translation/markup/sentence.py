"""A sentence with its marks, on the way to its translation with the same marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.translation.alignment import Alignment, Span
from service.translation.markup.attention import attention, refined
from service.translation.markup.marks import Mark, tree
from service.translation.markup.placement import Placement
from service.translation.markup.spacing import escape, write


@dataclass(frozen=True, slots=True)
class MarkedSentence:
    """``text`` is what the model translates, ``raw`` the sentence as it is written."""

    text: str
    raw: str
    marks: tuple[Mark, ...]
    escaped: bool

    @property
    def marked(self) -> bool:
        """Whether an alignment is needed to write the translation."""
        return bool(self.marks)

    def render(self, target: str, alignment: Alignment | None, whole: Sequence[Span] = ()) -> str:
        """The translation as it is written, with every mark in it and nested as it was.

        ``alignment`` is of ``text`` and ``target``; without one, marks are placed as far into
        the translation as they are into the sentence. Nothing is put into the spans of the target
        in ``whole``. Raises ``ValueError`` for weights that do
        not fit the words.
        """
        if not self.marks:
            return escape(target) if self.escaped else target
        aligned = attention(self.text, target, alignment, whole)
        aligned = refined(aligned, self.text, target, (mark.at for mark in self.marks))
        root = tree(self.marks, len(self.text))
        Placement(root, aligned, self.text, target).place()
        return write(root, target, aligned.target_words, self.escaped)
