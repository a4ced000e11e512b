"""Shows runs in Weights & Biases or MLflow, as listeners of the run's log.

A tracked run has the recipe as its configuration and every number of the log as a metric. Its id is
kept in the run's directory, so that a resumed run continues it.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from training.disk import writing
from training.recipe import Recipe
from training.refusal import Refusal
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

_PROJECT = "dragoman"


class CannotTrack(Refusal):
    """The tracker cannot begin, for example without an account; the message says why."""


class _Tracker(Protocol):
    id: str

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def finish(self, failed: bool) -> None: ...


class _WeightsAndBiases:
    """A run of wandb, which sends metrics from a process of its own."""

    def __init__(self, recipe: Recipe, run: RunDirectory, known: str | None) -> None:
        import wandb

        self.id = known or uuid.uuid4().hex
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=recipe.name,
            id=self.id,
            resume="allow",
            dir=run.path,
            config=recipe.to_dict(),
            # The budget of a resumed run may be another.
            allow_val_change=True,
        )
        # Without a step of their own, metrics of steps that are repeated would be dropped.
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({**metrics, "step": step})

    def finish(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class _Mlflow:
    """A run of MLflow, which sends metrics from a thread of its own."""

    def __init__(self, recipe: Recipe, _: RunDirectory, known: str | None) -> None:
        import mlflow

        self._mlflow = mlflow
        if known is None:
            mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT))
            self.id: str = mlflow.start_run(run_name=recipe.name).info.run_id
            # Parameters cannot change: they remain those of the first command.
            mlflow.log_params(_flat(recipe.to_dict()))
        else:
            self.id = mlflow.start_run(run_id=known).info.run_id

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(metrics, step=step, synchronous=False)

    def finish(self, failed: bool) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.end_run("FAILED" if failed else "FINISHED")


_TRACKERS: dict[str, Callable[[Recipe, RunDirectory, str | None], _Tracker]] = {
    "wandb": _WeightsAndBiases,
    "mlflow": _Mlflow,
}


def _flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The fields of nested dictionaries as ``part.field``; lists remain values."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        place = f"{prefix}{name}"
        found |= _flat(value, f"{place}.") if isinstance(value, dict) else {place: value}
    return found


class Tracking:
    """Sends the events of a run to one tracker.

    An error of the tracker ends the tracking, with a line in the log. Training goes on.
    """

    def __init__(self, name: str, recipe: Recipe, run: RunDirectory) -> None:
        """Begin, or continue the tracked run of an interrupted training.

        Raises ``CannotTrack`` and ``CannotWrite``.
        """
        self._name = name
        ids = json.loads(run.tracked.read_text(encoding="utf-8")) if run.tracked.exists() else {}
        try:
            self._tracker: _Tracker | None = _TRACKERS[name](recipe, run, ids.get(name))
        # The errors of trackers and of their connections have no base class of their own.
        except Exception as error:
            raise CannotTrack(
                f"--track {name}: {' '.join(str(error).split())}; without the option, training "
                f"is logged in {run.log} and for TensorBoard"
            ) from error
        partial = run.tracked.with_suffix(".partial")
        with writing(run.path):
            partial.write_text(json.dumps(ids | {name: self._tracker.id}), encoding="utf-8")
            partial.replace(run.tracked)

    def write(self, event: str, step: int, values: Mapping[str, float | int | str]) -> None:
        metrics = {
            f"{event}/{name}": float(value)
            for name, value in values.items()
            if not isinstance(value, str)
        }
        if metrics:
            self._do(lambda tracker: tracker.log(step, metrics))

    def close(self, failed: bool) -> None:
        self._do(lambda tracker: tracker.finish(failed))

    def _do(self, act: Callable[[_Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            act(self._tracker)
        except Exception as error:
            self._tracker = None
            logger.error("training goes on without --track %s: %s", self._name, error)
