"""The bar that whoever waits looks at: how far, how fast, how long still."""

from __future__ import annotations

from typing import Never, TextIO

from tqdm import tqdm

_WITH_END = "{percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left{postfix}"
_WITHOUT_END = "{elapsed} so far{postfix}"


class BlockBar:
    """A block's share of the bar."""

    def __init__(self, bar: Bar, share: float, rows: int) -> None:
        self._bar = bar
        self._left = share
        self._step = share / max(rows, 1)
        self._counted = 0

    def decoded(self) -> None:
        step = min(self._step, self._left)
        self._left -= step
        self._counted += 1
        self._bar.advance(step, 1)

    def finished(self, sentences: int) -> None:
        """Its exact number of sentences is known; what was counted may differ a little."""
        self._bar.advance(self._left, sentences - self._counted)
        self._left = 0.0


class Bar:
    """On ``file``, or nowhere. ``total`` is the bytes of the source as it is stored, if known."""

    def __init__(self, file: TextIO | None, total: int | None) -> None:
        self._total = total
        self._begun = False
        self.sentences = 0
        self._tqdm: tqdm[Never] = tqdm(
            total=total,
            file=file,
            disable=file is None,
            bar_format=_WITHOUT_END if total is None else _WITH_END,
            # What is left is told by the whole, since blocks with long lines are slower.
            smoothing=0,
            dynamic_ncols=True,
        )

    def block(self, read: tuple[int, int], rows: int) -> BlockBar:
        """The share of a block before and after which so many bytes had been read.

        The clock begins with the first, and what had been read before it counts for how far it is,
        not for how fast.
        """
        before, after = read
        if not self._begun and not self._tqdm.disable:
            self._tqdm.reset()
            self._tqdm.n = self._tqdm.initial = before
        self._begun = True
        return BlockBar(self, after - before, rows)

    @property
    def shown(self) -> bool:
        return not self._tqdm.disable

    def advance(self, share: float, sentences: int) -> None:
        self.sentences += sentences
        if self._tqdm.disable:
            return
        seconds = self._tqdm.format_dict["elapsed"]
        if seconds > 0:
            postfix = f"{self.sentences / seconds:.0f} sentences/s"
            self._tqdm.set_postfix_str(postfix, refresh=False)
        self._tqdm.update(share)

    def close(self) -> None:
        self._tqdm.close()
