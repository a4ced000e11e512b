"""Position of a run and the values of its validations, by which checkpoints are ranked."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(slots=True)
class Progress:
    """Position of the run; saved with every checkpoint."""

    step: int = 0
    tokens: int = 0
    """Target tokens of all steps so far."""
    best: float = -math.inf
    """Best value of ``Validation.judged_by`` so far, at ``best_step``."""
    best_step: int = 0
    judged: tuple[str, str | None] = ("bleu", None)
    """The recipe's ``judged_by`` and ``judged_on``."""
    validations_without_gain: int = 0
    validated: dict[int, float] = field(default_factory=dict)
    """The value of every step that was both validated and saved."""

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """The progress of a checkpoint, also of versions that knew BLEU or the best step alone."""
        saved = dict(document["progress"])
        if "best_bleu" in saved:
            saved["best"] = saved.pop("best_bleu")
        if "validated" not in saved and saved["best_step"]:
            saved["validated"] = {saved["best_step"]: saved["best"]}
        return cls(**saved)

    def judge(self, value: float) -> None:
        """Count a validation after this step; more is better."""
        if value > self.best:
            self.best, self.best_step = value, self.step
            self.validations_without_gain = 0
        else:
            self.validations_without_gain += 1

    def best_steps(self, count: int, among: Container[int] | None = None) -> list[int]:
        """The ``count`` best of ``validated``, best first; of equal values the earlier one."""
        steps = [step for step in self.validated if among is None or step in among]
        return sorted(steps, key=lambda step: (-self.validated[step], step))[:count]
