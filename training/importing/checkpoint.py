"""Reader of Hugging Face checkpoint files: configuration, and tensors one by one.

It reads files without interpreting them. ``pytorch_model.bin`` is read by torch's safe loader,
which unpickles tensors only.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from training.importing.refusals import NotACheckpoint, UnsupportedCheckpoint

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
INDICES = {f"{SAFETENSORS}.index.json": SAFETENSORS, f"{PICKLED}.index.json": PICKLED}
"""Index files of sharded checkpoints, which map tensors to files."""


class Checkpoint:
    """The tensors of a directory, by name. A context manager that keeps the files open.

    Raises ``NotACheckpoint`` if the directory lacks a file or a file is damaged.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise NotACheckpoint(f"{directory} is not a directory")
        self.directory = directory
        self.config: dict[str, Any] = self.document("config.json")
        self._read: dict[str, Callable[[str], Tensor]] = {}
        self._taken: set[str] = set()
        self._files = ExitStack()
        try:
            self._open()
        except BaseException:
            self._files.close()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()

    def document(self, name: str, *, optional: bool = False) -> dict[str, Any]:
        """The object in a JSON file; an empty one if an optional file is absent."""
        path = self.directory / name
        if optional and not path.exists():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{self.directory} has no {name}") from error
        except (OSError, ValueError, RecursionError) as error:
            raise NotACheckpoint(f"{path} cannot be read as JSON: {error}") from error
        if not isinstance(found, dict):
            raise NotACheckpoint(f"{path} holds no JSON object")
        return found

    def content(self, name: str) -> bytes:
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{self.directory} has no {name}") from error
        except OSError as error:
            raise NotACheckpoint(f"{self.directory / name} cannot be read: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._read

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor as float32; raises unless it has the shape that the configuration implies."""
        if name not in self._read:
            raise NotACheckpoint(f"{self.directory} has no tensor {name}")
        try:
            found = self._read[name](name)
        except SafetensorError as error:
            raise NotACheckpoint(f"{self.directory}: {name} cannot be read: {error}") from error
        if not found.is_floating_point():
            raise UnsupportedCheckpoint(
                f"{self.directory}: {name} holds {found.dtype}; quantised checkpoints are not "
                "imported, the one that they were made from can be"
            )
        if tuple(found.shape) != shape:
            raise UnsupportedCheckpoint(
                f"{self.directory}: {name} has the shape {list(found.shape)}; its configuration "
                f"implies {list(shape)}"
            )
        tensor = found.float()
        if not bool(tensor.isfinite().all()):
            raise NotACheckpoint(f"{self.directory}: {name} holds what is not a number")
        self._taken.add(name)
        return tensor

    def leave(self, names: Sequence[str]) -> None:
        """Mark tensors as unneeded, such as copies of other tensors."""
        self._taken.update(names)

    def check_all_taken(self) -> None:
        """Raises ``UnsupportedCheckpoint`` with the names of tensors that were not used."""
        left = sorted(self._read.keys() - self._taken)
        if left:
            shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
            raise UnsupportedCheckpoint(
                f"{self.directory} has tensors that no supported network has: {shown}"
            )

    def _open(self) -> None:
        for whole, opener in ((SAFETENSORS, self._open_safetensors), (PICKLED, self._open_pickled)):
            if (self.directory / whole).exists():
                return opener(whole, None)
            index = f"{whole}.index.json"
            if (self.directory / index).exists():
                for name, wanted in self._shards(index).items():
                    opener(name, wanted)
                return None
        raise NotACheckpoint(f"{self.directory} has neither {SAFETENSORS} nor {PICKLED}")

    def _shards(self, index: str) -> dict[str, set[str]]:
        """The tensors of each file in an index."""
        places = self.document(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise NotACheckpoint(f"{self.directory / index} does not say which file has what")
        shards: dict[str, set[str]] = {}
        for tensor, file in places.items():
            if not isinstance(file, str) or PurePosixPath(file).name != file:
                raise NotACheckpoint(
                    f"{self.directory / index} names {file!r}, which is not a file beside it"
                )
            shards.setdefault(file, set()).add(tensor)
        return shards

    def _open_safetensors(self, name: str, wanted: set[str] | None) -> None:
        path = self.directory / name
        try:
            file = self._files.enter_context(safe_open(path, framework="pt"))
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{self.directory} has no {name}") from error
        except (OSError, SafetensorError) as error:
            raise NotACheckpoint(f"{path} is no safetensors file: {error}") from error
        self._offer(name, file.keys(), wanted, file.get_tensor)

    def _open_pickled(self, name: str, wanted: set[str] | None) -> None:
        path = self.directory / name
        try:
            # Only zip archives can be memory-mapped; the oldest checkpoints are not zip archives.
            mapped = zipfile.is_zipfile(path)
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{self.directory} has no {name}") from error
        except pickle.UnpicklingError as error:
            raise NotACheckpoint(
                f"{path} is not read, because it holds more than tensors, and reading that could "
                "run anything; save the model as safetensors where you trust it"
            ) from error
        except (OSError, RuntimeError, EOFError, ValueError) as error:
            raise NotACheckpoint(f"{path} is damaged: {error}") from error
        if not isinstance(found, dict) or not all(
            isinstance(value, Tensor) for value in found.values()
        ):
            raise NotACheckpoint(f"{path} holds no tensors by name")
        self._offer(name, list(found), wanted, found.__getitem__)

    def _offer(
        self,
        file: str,
        names: Sequence[str],
        wanted: set[str] | None,
        read: Callable[[str], Tensor],
    ) -> None:
        if wanted is not None and not wanted <= set(names):
            missing = min(wanted - set(names))
            raise NotACheckpoint(f"{self.directory / file} lacks {missing}, which its index has")
        self._read.update(dict.fromkeys(names if wanted is None else wanted, read))
