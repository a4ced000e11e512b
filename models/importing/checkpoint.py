"""Reader of Hugging Face checkpoint files: configuration, and tensors one by one.

It reads files without interpreting them. ``pytorch_model.bin`` is read by a reader that knows
tensors only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

# Importing it makes bfloat16 known to NumPy, as safetensors needs.
import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from models.importing.pickled import PickledTensors
from models.importing.refusals import NotACheckpoint, UnsupportedCheckpoint
from models.importing.side_files import read_bytes, read_object

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
FLOATS = {np.dtype(each) for each in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file, which is not yet read."""

    shape: tuple[int, ...]
    read: Callable[[], NDArray[Any]]


class Checkpoint:
    """The tensors of a directory, by name. A context manager that keeps the files open.

    Raises ``NotACheckpoint`` if the directory lacks a file or a file is damaged.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise NotACheckpoint(f"{directory} is not a directory")
        self.directory = directory
        self.config: dict[str, Any] = self.document("config.json")
        self._stored: dict[str, StoredTensor] = {}
        self._taken: set[str] = set()
        self._files = ExitStack()
        try:
            self._open()
        except BaseException:
            self._files.close()
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def document(self, name: str, *, optional: bool = False) -> dict[str, Any]:
        """The object in a JSON file; an empty one if an optional file is absent."""
        path = self.directory / name
        if optional and not path.exists():
            return {}
        return read_object(path)

    def content(self, name: str) -> bytes:
        return read_bytes(self.directory / name)

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def take(self, name: str, *shape: int) -> NDArray[np.float32]:
        """A tensor as float32; raises unless it has the shape that the configuration implies."""
        if name not in self._stored:
            raise NotACheckpoint(f"{self.directory} has no tensor {name}")
        stored = self._stored[name]
        if stored.shape != shape:
            raise UnsupportedCheckpoint(
                f"{self.directory}: {name} has the shape {list(stored.shape)}; its configuration "
                f"implies {list(shape)}"
            )
        try:
            found = stored.read()
        # safetensors raises AttributeError for types that NumPy does not have, such as fp8, and
        # ValueError for empty arrays of absurd lengths.
        except (SafetensorError, AttributeError, ValueError) as error:
            raise NotACheckpoint(f"{self.directory}: {name} cannot be read: {error}") from error
        if found.dtype not in FLOATS:
            raise UnsupportedCheckpoint(
                f"{self.directory}: {name} holds {found.dtype}; quantised checkpoints are not "
                "imported, the one that they were made from can be"
            )
        tensor = found.astype(np.float32, copy=False)
        if not np.isfinite(tensor).all():
            raise NotACheckpoint(f"{self.directory}: {name} holds what is not a number")
        self._taken.add(name)
        return tensor

    def leave(self, names: Sequence[str]) -> None:
        """Mark tensors as unneeded, such as copies of other tensors."""
        self._taken.update(names)

    def check_all_taken(self) -> None:
        """Raises ``UnsupportedCheckpoint`` with the names of tensors that were not used."""
        left = sorted(self._stored.keys() - self._taken)
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

    def _plain(self, name: str) -> Path:
        path = self.directory / name
        # Opening a FIFO would wait for a writer.
        if path.exists() and not path.is_file():
            raise NotACheckpoint(f"{path} is not a plain file")
        return path

    def _open_safetensors(self, name: str, wanted: set[str] | None) -> None:
        path = self._plain(name)
        try:
            file = self._files.enter_context(safe_open(path, framework="np"))
            stored = {
                key: StoredTensor(
                    tuple(file.get_slice(key).get_shape()), partial(file.get_tensor, key)
                )
                for key in file.offset_keys()
            }
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{self.directory} has no {name}") from error
        except (OSError, SafetensorError) as error:
            raise NotACheckpoint(f"{path} is no safetensors file: {error}") from error
        self._offer(name, stored, wanted)

    def _open_pickled(self, name: str, wanted: set[str] | None) -> None:
        path = self._plain(name)
        try:
            file = PickledTensors(path)
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{self.directory} has no {name}") from error
        except OSError as error:
            raise NotACheckpoint(f"{path} cannot be read: {error}") from error
        stored = {
            key: StoredTensor(file.shape(key), partial(file.read, key)) for key in file.names()
        }
        self._offer(name, stored, wanted)

    def _offer(
        self, file: str, stored: Mapping[str, StoredTensor], wanted: set[str] | None
    ) -> None:
        if wanted is not None and not wanted <= stored.keys():
            missing = min(wanted - stored.keys())
            raise NotACheckpoint(f"{self.directory / file} lacks {missing}, which its index has")
        self._stored |= {key: stored[key] for key in (stored if wanted is None else wanted)}
