"""Saves, loads, prunes and averages checkpoints of the full training state, atomically."""

from __future__ import annotations

import copy
import os
import pickle
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch
from torch import Tensor

from models.transformer.config import TransformerConfig
from models.transformer.transformer import Transformer
from training.disk import writing
from training.refusal import Refusal

_NAME = re.compile(r"checkpoint-(\d{8})\.pt")


class CheckpointError(Refusal):
    """No usable checkpoint of this recipe; the message says what to do."""


def save(document: dict[str, Any], path: Path) -> None:
    """Write through a temporary file and a rename, so that a kill keeps the old file.

    Raises ``CannotWrite`` if the disk is full, leaving no partial file.
    """
    partial = path.with_suffix(".partial")
    with writing(path.parent, lambda: size_of(document)):
        try:
            _write(document, partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        # Makes the rename, too, survive a crash of the machine.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def snapshot(document: dict[str, Any]) -> dict[str, Any]:
    """A copy in host memory. Tensors that share memory, such as tied matrices, share it there."""
    hosts: dict[int, torch.UntypedStorage] = {}
    copies: dict[int, Any] = {}
    for tensor in _tensors(document):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in hosts:
            content = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            hosts[storage.data_ptr()] = content.to("cpu", copy=True).untyped_storage()
        place = tensor.storage_offset(), tensor.size(), tensor.stride()
        host = torch.empty(0, dtype=tensor.dtype)
        copies[id(tensor)] = host.set_(hosts[storage.data_ptr()], *place)
    # Known copies are taken by ``deepcopy`` from its memo.
    return copy.deepcopy(document, copies)


def size_of(document: object) -> int:
    """Bytes of the tensors in a document, about its size on disk."""
    tensors = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in _tensors(document)}
    return sum(storage.nbytes() for storage in tensors.values())


def load(path: Path) -> dict[str, Any]:
    """Read what ``save`` wrote: tensors and plain values only. Runs no pickled code.

    Raises ``CheckpointError`` if the file holds anything else, or is damaged.
    """
    with path.open("rb") as file:
        _require_undamaged(file, path)
        file.seek(0)
        try:
            document: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        except (RuntimeError, pickle.UnpicklingError) as error:
            raise CheckpointError(f"{path} is not a checkpoint: {error}") from error
    return document


def _require_undamaged(file: BinaryIO, path: Path) -> None:
    """Raises ``CheckpointError`` if a file is no zip archive or a checksum does not fit.

    Neither is checked by torch, which raises errors of every type for files that are not its
    archives. A gigabyte takes a third of a second, half as long as ``torch.load``.
    """
    if not zipfile.is_zipfile(file):
        raise CheckpointError(f"{path} is not a checkpoint, or not a whole one; delete it")
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
    # A damaged field may be a negative offset (OSError) or name encryption (RuntimeError).
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, RuntimeError, zlib.error) as error:
        raise CheckpointError(f"{path} is damaged: {error}; delete it") from error
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: the checksum of {damaged} differs; delete it")


def _write(document: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        watched = _Watched(file)
        try:
            torch.save(document, cast(IO[bytes], watched))
        except Exception:
            # torch replaces the OSError of a failed write by one that does not mention the disk.
            if watched.error is not None:
                raise watched.error from None
            raise
        file.flush()
        os.fsync(file.fileno())


class _Watched:
    """A file that remembers the error of a failed write."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _tensors(document: object) -> Iterator[Tensor]:
    if isinstance(document, Tensor):
        yield document
    elif isinstance(document, dict):
        for value in document.values():
            yield from _tensors(value)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from _tensors(value)


def path_of(directory: Path, step: int) -> Path:
    return directory / f"checkpoint-{step:08d}.pt"


def checkpoints(directory: Path) -> list[Path]:
    """A run's checkpoints, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))


def sweep(directory: Path) -> None:
    """Remove the partial files of a process that was killed while saving."""
    for path in directory.glob("checkpoint-*.partial"):
        path.unlink()


def prune(directory: Path, keep: int, spared: Set[int] = frozenset()) -> None:
    """Remove all checkpoints but the last ``keep`` and those of the steps ``spared``."""
    kept = {path_of(directory, step) for step in spared}
    for path in checkpoints(directory)[:-keep]:
        if path not in kept:
            path.unlink()


def remove_after(path: Path) -> None:
    """Remove the run's checkpoints of later steps than ``path``."""
    for later in checkpoints(path.parent):
        if step_of(later) > step_of(path):
            later.unlink()


def step_of(path: Path) -> int:
    """The step after which a checkpoint was saved, from its file name."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise ValueError(f"{path} is not named like a checkpoint")
    return int(found[1])


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """The mean of several checkpoints' weights (section 6.1), ready for ``restore``."""
    if not paths:
        raise CheckpointError(
            "there is no checkpoint to average; run `python -m training train RECIPE` first"
        )
    first: dict[str, Any] = {}
    sums: dict[str, Tensor] = {}
    steps: list[int] = []
    # One at a time: with optimiser state, twenty checkpoints of the big network are 50 GB.
    for path in paths:
        document = load(path)
        if "vocabulary" not in document:
            raise CheckpointError(
                f"{path} was written by another version of this program, and does not say what "
                "it was trained on; delete the checkpoints to train again"
            )
        first = first or {name: document[name] for name in ("config", "recipe", "vocabulary")}
        if document["config"] != first["config"]:
            raise CheckpointError("the checkpoints are of different networks")
        if document["vocabulary"] != first["vocabulary"]:
            raise CheckpointError("the checkpoints are of different vocabularies")
        steps.append(document["step"])
        # A moving average of the weights is better than the last ones.
        for name, tensor in document.get("average", document["network"]).items():
            sums[name] = sums[name] + tensor if name in sums else tensor.double()
    dtypes = {name: tensor.dtype for name, tensor in document["network"].items()}
    weights = {name: (total / len(paths)).to(dtypes[name]) for name, total in sums.items()}
    return {**first, "network": weights, "averaged": steps}


def restore(document: dict[str, Any]) -> Transformer:
    """The network of a checkpoint or an average of checkpoints, in evaluation mode."""
    network = Transformer(TransformerConfig(**document["config"]))
    network.load_state_dict(document["network"])
    return network.eval()
