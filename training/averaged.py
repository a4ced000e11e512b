"""The network that a run ends with: the average of its last checkpoints."""

from __future__ import annotations

from models.transformer.transformer import Transformer
from training import checkpoint
from training.run_directory import RunDirectory


def averaged_network(run: RunDirectory) -> Transformer:
    """In evaluation mode. Raises ``CheckpointError`` if there is none, or it is not of the last
    checkpoints."""
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
    return checkpoint.restore(document)
