"""The network that a run ends with: the average of its last checkpoints."""

from __future__ import annotations

from models.transformer.transformer import Transformer
from training import checkpoint
from training.resuming import vocabulary_of
from training.run_directory import RunDirectory


def averaged_network(run: RunDirectory) -> Transformer:
    """In evaluation mode. Raises ``CheckpointError`` if there is none, or it is not of the last
    checkpoints or not of the run's vocabulary."""
    if not run.averaged.exists():
        raise checkpoint.CheckpointError(
            f"{run.averaged} does not exist; run `python -m training average RECIPE` first"
        )
    document = checkpoint.load(run.averaged)
    newer = checkpoint.checkpoints(run.path)
    if newer and newer[-1] > checkpoint.path_of(run.path, max(document["averaged"])):
        raise checkpoint.CheckpointError(
            f"{run.averaged} is older than {newer[-1].name}; run `python -m training average "
            "RECIPE` again"
        )
    if document.get("vocabulary") != vocabulary_of(run):
        raise checkpoint.CheckpointError(
            f"{run.averaged} was trained with another vocabulary than the tokenizer in {run.path}; "
            "bring the tokenizer back that it was trained with, or train again"
        )
    return checkpoint.restore(document)
