"""A sentence with its tags and points, rendered into its translation by word alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from service.text.alignment import Alignment, Span
from service.text.markup.attention import attention, refined
from service.text.markup.marks import Mark, tree
from service.text.markup.placement import Placement
from service.text.markup.spacing import escape, write


@dataclass(frozen=True, slots=True)
class Fragment:
    """The given beginning of the translation of a sentence."""

    raw: str = ""
    text: str = ""
    """The beginning without markup."""
    marks: tuple[str, ...] = ()
    """Its tags and placeholders, in order."""

    def spaced(self, rest: str) -> str:
        """``rest`` after the fragment, with a blank after a placeholder, and no second blank."""
        if self.raw[-1:].isspace():
            return rest.lstrip(" ")
        last = self.marks[-1] if self.marks else ""
        ends_in_placeholder = last and not last.startswith("<") and self.raw.endswith(last)
        return " " + rest if ends_in_placeholder and rest[:1].isalnum() else rest


NO_FRAGMENT = Fragment()


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

    def render(
        self,
        target: str,
        alignment: Alignment | None,
        whole: Sequence[Span] = (),
        beginning: Fragment = NO_FRAGMENT,
    ) -> str:
        """The translation with every mark of the sentence, nested as in the source.

        ``target`` begins with the text of ``beginning``, which is written as it is given. Marks
        that it has are not written again.

        ``alignment`` is of ``text`` and ``target``; without one, marks are placed at the same
        relative position. No mark is placed inside the target spans ``whole``. Raises
        ``ValueError`` for weights that do not fit the words.
        """
        start = len(beginning.text)
        marks = self._without(beginning.marks)
        if not marks:
            rest = escape(target[start:]) if self.escaped else target[start:]
            return beginning.raw + beginning.spaced(rest)
        aligned = attention(self.text, target, alignment, whole)
        aligned = refined(aligned, self.text, target, (mark.at for mark in marks))
        root = tree(marks, len(self.text))
        Placement(root, aligned, self.text, target).place()
        rest = write(root, target, aligned.target_words, self.escaped, start)
        return beginning.raw + beginning.spaced(rest)

    def _without(self, written: Sequence[str]) -> tuple[Mark, ...]:
        """The marks that have not been written."""
        left = Counter(written)
        marks = []
        for mark in self.marks:
            if left[mark.raw]:
                left[mark.raw] -= 1
            else:
                marks.append(mark)
        return tuple(marks)
