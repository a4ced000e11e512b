"""What a run writes about itself: JSON lines and TensorBoard, both rewound on resuming."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter


class RunLog:
    """Appends one JSON object per event, each with its ``step``, and the same as scalars.

    Lines after ``resume_step`` were written by a run that was killed before its next checkpoint;
    those steps are taken again, so their lines go.
    """

    def __init__(self, path: Path, resume_step: int) -> None:
        lines = [line for line in _whole_lines(path) if json.loads(line)["step"] <= resume_step]
        partial = path.with_suffix(".partial")
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        partial.replace(path)
        self._file = path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(path.parent / "tensorboard"), purge_step=resume_step + 1)

    def write(self, event: str, step: int, **values: float | int | str) -> None:
        record: dict[str, Any] = {"event": event, "step": step, **values}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        for name, value in values.items():
            if not isinstance(value, str):
                self._board.add_scalar(f"{event}/{name}", value, step)

    def sync(self) -> None:
        """Make what was written survive a crash of the machine; call before a checkpoint."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
        self._board.close()


def _whole_lines(path: Path) -> list[str]:
    """A killed run may have left half a line at the end."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1].splitlines()
