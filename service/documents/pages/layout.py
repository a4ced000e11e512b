"""Room of each block on its page: how far its translation may grow without touching others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from service.documents.pages.blocks import Alignment, Block, alignment_of
from service.documents.pages.types import Box
from service.documents.pages.typesetting import Room

_PADDING = 2.0
"""Points between text and a rule."""
_GUTTER = 0.6
"""Ems between text and other text beside it."""


class Layout:
    """Boxes that are taken on a page, by blocks and by rules."""

    def __init__(self, blocks: Sequence[Block], rules: Sequence[Box], page: Box) -> None:
        self._blocks = blocks
        self._boxes = [block.box.turned(-block.turns) for block in blocks]
        """Boxes that texts take, in user space."""
        self._page = page
        self._rules = {
            turns: [rule.turned(turns) for rule in rules]
            for turns in {block.turns for block in blocks}
        }
        self._edges = {turns: self._edges_of(turns) for turns in self._rules}

    def _edges_of(self, turns: int) -> Box:
        """Edges of all text, at least as far as margins of the same width on both sides."""
        boxes = [box.turned(turns) for box in self._boxes]
        page = self._page.turned(turns)
        left, right = min(box.left for box in boxes), max(box.right for box in boxes)
        bottom, top = min(box.bottom for box in boxes), max(box.top for box in boxes)
        return Box(
            min(left, page.left + page.right - right),
            min(bottom, page.bottom + page.top - top),
            max(right, page.right + page.left - left),
            top,
        )

    def room_of(self, number: int) -> Room:
        """Room of a block: its box, the free place beside a single line, and that below."""
        block = self._blocks[number]
        alignment = alignment_of(block, self._blocks, self._page.turned(block.turns))
        left, right = block.left, block.right
        if len(block.lines) == 1:
            alignment = self._in_cell(number) or alignment
        if len(block.lines) == 1 or alignment == "left":
            after, before = self._beside(number)
            if alignment == "left":
                column = min(self._column(block), block.widest)
                free = after if len(block.lines) == 1 else min(after, column)
                right = right if block.is_justified else max(right, free)
            elif alignment == "right":
                left = min(left, before)
            else:
                free = max(0.0, min(after - right, left - before))
                left, right = left - free, right + free
        return Room(left, right, self._below(number, left, right), alignment)

    def take(self, number: int, box: Box) -> None:
        """State the box that a translation takes, in the frame of its block."""
        old, box = self._boxes[number], box.turned(-self._blocks[number].turns)
        self._boxes[number] = Box(
            min(old.left, box.left),
            min(old.bottom, box.bottom),
            max(old.right, box.right),
            max(old.top, box.top),
        )

    def _column(self, block: Block) -> float:
        """Right edge of the blocks that begin at the same place."""
        return max(
            other.right
            for other in self._blocks
            if other.turns == block.turns and abs(other.left - block.left) < 0.5 * block.size
        )

    def _in_cell(self, number: int) -> Alignment | None:
        """Alignment of a line between two rules; ``None`` without them or at the left."""
        block = self._blocks[number]
        box = block.box
        level = [
            rule
            for rule in self._rules[block.turns]
            if rule.bottom <= block.lines[0].y and rule.top >= block.lines[0].y + block.size / 4
        ]
        before = box.left - max((r.right for r in level if r.right <= box.left), default=-math.inf)
        after = min((r.left for r in level if r.left >= box.right), default=math.inf) - box.right
        if not math.isfinite(before + after) or before < block.size:
            return None
        if abs(before - after) < 0.6 * block.size:
            return "centre"
        return "right" if after < block.size else None

    def _beside(self, number: int) -> tuple[float, float]:
        """Limits at the right and at the left of a block."""
        block = self._blocks[number]
        box = block.box
        edges = self._edges[block.turns]
        after, before = edges.right, edges.left
        for other, padding in self._others(number):
            if other.bottom < box.top and other.top > box.bottom:
                if other.left >= box.right - 1:
                    after = min(after, other.left - padding)
                if other.right <= box.left + 1:
                    before = max(before, other.right + padding)
        return after, before

    def _below(self, number: int, left: float, right: float) -> float:
        block = self._blocks[number]
        box = block.box
        floor = self._edges[block.turns].bottom
        for other, padding in self._others(number):
            if other.left < right and other.right > left and other.top <= box.bottom + 1:
                floor = max(floor, other.top + padding)
        return max(0.0, box.bottom - floor)

    def _others(self, number: int) -> list[tuple[Box, float]]:
        block = self._blocks[number]
        texts = [
            (box.turned(block.turns), _GUTTER * block.size)
            for other, box in enumerate(self._boxes)
            if other != number
        ]
        return texts + [(rule, _PADDING) for rule in self._rules[block.turns]]
