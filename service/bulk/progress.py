"""Progress bar of a bulk translation: fraction done, sentences per second, remaining time."""

from __future__ import annotations

from typing import Never, TextIO

from tqdm import tqdm

_WITH_END = "{percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left{postfix}"
_WITHOUT_END = "{elapsed} so far{postfix}"


class BlockBar:
    """Share of one block in the bar."""

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
        """Complete the share and correct the sentence count to the exact number."""
        self._bar.advance(self._left, sentences - self._counted)
        self._left = 0.0


class Bar:
    """Bar on ``file``, or hidden without one. ``total``: stored bytes of the source, if known."""

    def __init__(self, file: TextIO | None, total: int | None) -> None:
        self._total = total
        self._begun = False
        self.sentences = 0
        self._tqdm: tqdm[Never] = tqdm(
            total=total,
            file=file,
            disable=file is None,
            bar_format=_WITHOUT_END if total is None else _WITH_END,
            # Estimate the remaining time from the average speed: blocks of long lines are slower.
            smoothing=0,
            dynamic_ncols=True,
        )

    def block(self, read: tuple[int, int], rows: int) -> BlockBar:
        """Share of a block; ``read`` are the source bytes read before and after it.

        The clock starts with the first block. Bytes before it count for the fraction done, not for
        the speed.
        """
        before, after = read
        if not self._begun and not self._tqdm.disable:
            self._tqdm.reset()
            self._tqdm.n = self._tqdm.initial = before
        self._begun = True
        return BlockBar(self, after - before, rows)

    @property
    def is_shown(self) -> bool:
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
