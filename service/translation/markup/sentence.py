"""A sentence with its tags and points, rendered into its translation by word alignment."""

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
    """``text`` is the model's input, ``raw`` the sentence with its markup."""

    text: str
    raw: str
    marks: tuple[Mark, ...]
    escaped: bool

    @property
    def marked(self) -> bool:
        """Whether an alignment is needed to write the translation."""
        return bool(self.marks)

    def render(self, target: str, alignment: Alignment | None, whole: Sequence[Span] = ()) -> str:
        """The translation with every mark of the sentence, nested as in the source.

        ``alignment`` is of ``text`` and ``target``; without one, marks are placed at the same
        relative position. No mark is placed inside the target spans ``whole``. Raises
        ``ValueError`` for weights that do not fit the words.
        """
        if not self.marks:
            return escape(target) if self.escaped else target
        aligned = attention(self.text, target, alignment, whole)
        aligned = refined(aligned, self.text, target, (mark.at for mark in self.marks))
        root = tree(self.marks, len(self.text))
        Placement(root, aligned, self.text, target).place()
        return write(root, target, aligned.target_words, self.escaped)
