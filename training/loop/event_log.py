"""Log of a run as JSON lines, for TensorBoard and other listeners; resuming removes the steps to
repeat."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from torch.utils.tensorboard import SummaryWriter

from training.disk import writing

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Receives every event of a run's log."""

    def write(self, event: str, step: int, values: Mapping[str, float | int | str]) -> None: ...

    def close(self, failed: bool) -> None:
        """End; ``failed`` says whether an error or an interruption ends the run."""


class TensorBoard:
    """Writes events as scalars and texts of TensorBoard."""

    def __init__(self, directory: Path, resume_step: int) -> None:
        self._writer = SummaryWriter(str(directory), purge_step=resume_step + 1)

    def write(self, event: str, step: int, values: Mapping[str, float | int | str]) -> None:
        for name, value in values.items():
            if isinstance(value, str):
                self._writer.add_text(f"{event}/{name}", value, step)
            else:
                self._writer.add_scalar(f"{event}/{name}", value, step)

    def close(self, failed: bool) -> None:
        self._writer.close()


class RunLog:
    """Appends one JSON object per event, each with its ``step``; TensorBoard and ``listeners``
    receive the same events.

    Lines after ``resume_step`` are removed: a killed run wrote them after its last checkpoint, and
    those steps are repeated. So are lines that a crash of the machine has damaged. Raises
    ``CannotWrite`` if the disk is full and keeps what was written.
    """

    def __init__(self, path: Path, resume_step: int, listeners: Sequence[Listener] = ()) -> None:
        lines = [line for step, line in _whole_lines(path) if step <= resume_step]
        partial = path.with_suffix(".partial")
        text = "".join(f"{line}\n" for line in lines)
        self._directory = path.parent
        with writing(self._directory, lambda: len(text)):
            try:
                with partial.open("w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
            # Unbuffered, so that closing does not fail on a full disk once more.
            self._file = path.open("ab", buffering=0)
            board = TensorBoard(path.parent / "tensorboard", resume_step)
        self._listeners: tuple[Listener, ...] = (*listeners, board)

    def write(self, event: str, step: int, **values: float | int | str) -> None:
        record: dict[str, Any] = {"event": event, "step": step, **values}
        line = (json.dumps(record) + "\n").encode()
        with writing(self._directory, lambda: len(line)):
            unwritten = line
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
            for listener in self._listeners:
                listener.write(event, step, values)

    def sync(self) -> None:
        """Flush to disk, to survive a machine crash; call before a checkpoint."""
        with writing(self._directory):
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.close(failed=error is not None)

    def close(self, failed: bool = False) -> None:
        self._file.close()
        for listener in self._listeners:
            listener.close(failed)


class SilentLog:
    """Null object for processes that do not write the ``RunLog``."""

    def write(self, event: str, step: int, **values: float | int | str) -> None:
        pass

    def sync(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Each line and its step, but for damaged ones and a partial one of a killed run at the end."""
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), start=1):
        try:
            yield int(json.loads(line)["step"]), line
        except (ValueError, TypeError, KeyError):
            logger.warning("line %d of %s is damaged and removed", number, path)
