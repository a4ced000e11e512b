"""Reader of ``model.bin``, CTranslate2's binary file of variables.

Versions 2 to 6 of the file exist; ``ctranslate2/specs/model_spec.py`` writes the last one. A file
is a list of variables, each with name, shape, type and bytes, then, since version 3, a list of
aliases. Weights may be int8 with a scale for each row, int16 with one scale, or floats of 16 or 32
bits; ``quantised / scale`` is the float value.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from models.importing.refusals import NotACheckpoint

NAME = "model.bin"
VERSIONS = range(2, 7)
TYPES: tuple[Any, ...] = (np.float32, np.int8, np.int16, np.int32, np.float16, ml_dtypes.bfloat16)
"""Element types by CTranslate2's number (``include/ctranslate2/types.h``)."""
TYPES_OF_SIZE = {1: np.int8, 2: np.int16, 4: np.float32}
"""Element types by size in bytes, which files before version 4 have instead of the number."""
MOST_DIMENSIONS = 4
MOST_ALIASES = 1 << 16


@dataclass(frozen=True, slots=True)
class Variable:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    position: int


class ModelFile:
    """The variables of a file by name; numbers are read when they are needed.

    Raises ``NotACheckpoint`` if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._variables: dict[str, Variable] = {}
        self._aliases: dict[str, str] = {}
        try:
            with path.open("rb") as file:
                self._read(file, path.stat().st_size)
        except FileNotFoundError as error:
            raise NotACheckpoint(f"{path.parent} has no {NAME}") from error
        except OSError as error:
            raise NotACheckpoint(f"{path} cannot be read: {error.strerror or error}") from error
        except (struct.error, UnicodeDecodeError) as error:
            raise NotACheckpoint(f"{path} is damaged: {error}") from error

    @property
    def names(self) -> set[str]:
        return {*self._variables, *self._aliases}

    def __contains__(self, name: str) -> bool:
        return name in self._variables or name in self._aliases

    def origin(self, name: str) -> str:
        """The variable that an alias stands for, or ``name`` itself."""
        return self._aliases.get(name, name)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._variables[self.origin(name)].shape

    def read(self, name: str) -> NDArray[Any]:
        """The numbers as they are stored."""
        variable = self._variables[self.origin(name)]
        count = math.prod(variable.shape)
        found = np.fromfile(self.path, variable.dtype, count, offset=variable.position)
        if len(found) != count:
            raise NotACheckpoint(f"{self.path} is damaged: it ends within {name}")
        return found.reshape(variable.shape)

    def floats(self, name: str) -> NDArray[np.float32]:
        """The numbers as float32, dequantised."""
        origin = self.origin(name)
        found = self.read(origin)
        if np.issubdtype(found.dtype, np.integer):
            if f"{origin}_scale" not in self._variables:
                raise NotACheckpoint(f"{self.path}: {name} holds integers without a scale")
            scale = self.read(f"{origin}_scale").astype(np.float32)
            if scale.shape not in {(), found.shape[:1]}:
                raise NotACheckpoint(
                    f"{self.path}: the scale of {name} has the shape {list(scale.shape)}"
                )
            values = found / scale.reshape(*scale.shape, *[1] * (found.ndim - scale.ndim))
        else:
            values = found
        floats: NDArray[np.float32] = values.astype(np.float32, copy=False)
        if not np.isfinite(floats).all():
            raise NotACheckpoint(f"{self.path}: {name} holds what is not a number")
        return floats

    def number(self, name: str) -> float | None:
        """An attribute; ``None`` if the file does not have it."""
        if name not in self:
            return None
        found = self.read(name)
        if found.size != 1:
            raise NotACheckpoint(f"{self.path}: {name} is not one number")
        number = float(found.reshape(-1)[0])
        if not math.isfinite(number):
            raise NotACheckpoint(f"{self.path}: {name} is {number}")
        return number

    def text(self, name: str) -> str | None:
        """An attribute that is a text; ``None`` if the file does not have it."""
        if name not in self:
            return None
        try:
            return self.read(name).astype(np.int8).tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotACheckpoint(f"{self.path}: {name} is not a text: {error}") from error

    def _read(self, file: IO[bytes], size: int) -> None:
        def unpack(form: str) -> int:
            (found,) = struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))
            return int(found)

        def string() -> str:
            length = unpack("H")
            return file.read(length).rstrip(b"\0").decode("utf-8")

        self.version = unpack("I")
        if self.version not in VERSIONS:
            raise NotACheckpoint(
                f"{self.path} is of version {self.version}; versions {VERSIONS[0]} to "
                f"{VERSIONS[-1]} can be read, so convert the model with a current CTranslate2"
            )
        self.specification, self.revision = string(), unpack("I")
        for _ in range(unpack("I")):
            name, dimensions = string(), unpack("B")
            if dimensions > MOST_DIMENSIONS:
                raise NotACheckpoint(f"{self.path} is damaged: {name} has {dimensions} dimensions")
            shape = tuple(unpack("I") for _ in range(dimensions))
            if self.version >= 4:
                number, length = unpack("B"), unpack("I")
                known = dict(enumerate(TYPES))
            else:
                number, count = unpack("B"), unpack("I")
                known, length = TYPES_OF_SIZE, number * count
            if number not in known:
                raise NotACheckpoint(
                    f"{self.path} is damaged: {name} has the unknown type {number}"
                )
            variable = Variable(shape, np.dtype(known[number]), file.tell())
            # An empty variable has no number to bound its other dimensions.
            if (
                math.prod(shape) * variable.dtype.itemsize != length
                or max(shape, default=0) > length
            ):
                raise NotACheckpoint(
                    f"{self.path} is damaged: {name} has the shape {list(shape)} and {length} bytes"
                )
            if variable.position + length > size:
                raise NotACheckpoint(f"{self.path} is damaged: it ends within {name}")
            file.seek(length, 1)
            self._variables[name] = variable
        if self.version < 3:
            return
        count = unpack("I")
        if count > MOST_ALIASES:
            raise NotACheckpoint(f"{self.path} is damaged: it has {count} aliases")
        for _ in range(count):
            alias, origin = string(), string()
            if origin not in self._variables:
                raise NotACheckpoint(f"{self.path} is damaged: {alias} stands for no variable")
            self._aliases[alias] = origin
