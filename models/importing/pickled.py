"""Reader of tensors in PyTorch's pickled files, which executes nothing.

It interprets the few pickle instructions that ``torch.save`` writes for a dict of tensors, and
refuses every other instruction and every name except those of tensors, their storages and
``OrderedDict``. Memory is bounded by the size of the file: storages are read when they are needed.

Two formats exist. Since PyTorch 1.6 a file is a zip archive without compression: ``data.pkl``, and
``data/<key>`` with the bytes of each storage. Older files are five pickles, followed by the
storages (``torch.serialization``).
"""

from __future__ import annotations

import math
import pickletools
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from models.importing.refusals import NotACheckpoint

LONGEST_PICKLE = 1 << 26
"""Bytes of all pickles of a file; those of a large network have 100 kB."""
LARGEST_NUMBER = 1 << 63
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001

STORAGES: Mapping[str, Any] = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
"""Element types of PyTorch's storage classes."""


class HarmfulPickle(Exception):
    """A pickle with more than tensors."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name that a pickle refers to."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    key: str
    dtype: np.dtype[Any]
    elements: int


@dataclass(frozen=True, slots=True)
class PickledTensor:
    """A view of a storage; offset and strides count elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_ALLOWED = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    *(f"torch {name}" for name in STORAGES),
}
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
}
_MARK = object()


class PickledTensors:
    """The tensors of a file, by name.

    Raises ``NotACheckpoint`` if the file is damaged or holds anything else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                if zipfile.is_zipfile(file):
                    self._places, found = _read_zip(file)
                else:
                    file.seek(0)
                    self._places, found = _read_legacy(file)
        except HarmfulPickle as error:
            raise NotACheckpoint(
                f"{path} is not read, because it holds more than tensors ({error}), and reading "
                "that could run anything; save the model as safetensors where you trust it"
            ) from error
        except (
            EOFError,
            IndexError,
            KeyError,
            NotImplementedError,
            OverflowError,
            TypeError,
            UnicodeError,
            ValueError,
            struct.error,
            zipfile.BadZipFile,
        ) as error:
            raise NotACheckpoint(f"{path} is damaged: {error}") from error
        if not isinstance(found, dict) or not all(
            isinstance(name, str) and isinstance(value, PickledTensor)
            for name, value in found.items()
        ):
            raise NotACheckpoint(f"{path} holds no tensors by name")
        self._tensors: dict[str, PickledTensor] = found

    def names(self) -> list[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def read(self, name: str) -> NDArray[Any]:
        """Raises ``NotACheckpoint`` if the tensor is not within its storage."""
        tensor = self._tensors[name]
        storage, place = tensor.storage, self._places.get(tensor.storage.key)
        last = tensor.offset + sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)
        )
        if place is None or place[1] < storage.elements * storage.dtype.itemsize:
            raise NotACheckpoint(f"{self._path} is damaged: the numbers of {name} are not in it")
        # Strides of 0 address a large tensor within a small storage.
        if math.prod(tensor.shape) > storage.elements or (
            0 not in tensor.shape and last >= storage.elements
        ):
            raise NotACheckpoint(f"{self._path} is damaged: {name} is larger than its storage")
        if 0 in tensor.shape:
            return np.zeros(tensor.shape, storage.dtype)
        elements: NDArray[Any] = np.memmap(
            self._path, storage.dtype, "r", offset=place[0], shape=(storage.elements,)
        )
        strides = tuple(stride * storage.dtype.itemsize for stride in tensor.strides)
        view = np.lib.stride_tricks.as_strided(
            elements[tensor.offset :], tensor.shape, strides, writeable=False
        )
        return np.array(view)


Places = dict[str, tuple[int, int]]
"""Position and size in bytes of each storage."""


def _read_zip(file: IO[bytes]) -> tuple[Places, object]:
    places: Places = {}
    described: zipfile.ZipInfo | None = None
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{entry.filename} is compressed, which PyTorch never does")
            _, _, inner = entry.filename.partition("/")
            if inner == "data.pkl":
                described = entry
            elif inner == "byteorder" and archive.read(entry) != b"little":
                raise ValueError("its numbers are not in little-endian order")
            elif inner.startswith("data/"):
                # The entry's header, of 30 bytes, ends with the lengths of its name and extra data.
                file.seek(entry.header_offset + 26)
                start = file.tell() + 4 + sum(struct.unpack("<HH", file.read(4)))
                places[inner.removeprefix("data/")] = (start, entry.file_size)
        if described is None:
            raise ValueError("the archive has no data.pkl")
        if described.file_size > LONGEST_PICKLE:
            raise ValueError(f"its data.pkl has {described.file_size} bytes")
        content = archive.read(described)
    return places, _interpret(BytesIO(content))


def _read_legacy(file: IO[bytes]) -> tuple[Places, object]:
    pickles = BytesIO(file.read(LONGEST_PICKLE))
    if _interpret(pickles) != LEGACY_MAGIC or _interpret(pickles) != LEGACY_PROTOCOL:
        raise ValueError("it is no file of PyTorch")
    system = _interpret(pickles)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise ValueError("its numbers are not in little-endian order")
    storages: dict[str, Storage] = {}
    found = _interpret(pickles, storages)
    keys = _interpret(pickles)
    file.seek(pickles.tell())
    if not isinstance(keys, list):
        raise ValueError("it has no list of storages")
    places: Places = {}
    for key in keys:
        elements = int.from_bytes(file.read(8), "little")
        size = elements * storages[_as(str, key)].dtype.itemsize
        places[key] = (file.tell(), size)
        file.seek(size, 1)
    end = file.seek(0, 2)
    if any(start + size > end for start, size in places.values()):
        raise EOFError("it ends before its last storage")
    return places, found


def _interpret(file: BytesIO, storages: dict[str, Storage] | None = None) -> object:
    """The value of one pickle in memory; ``storages`` are filled by key."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def popped_to_mark() -> list[Any]:
        start = len(stack) - 1 - stack[::-1].index(_MARK)
        values = stack[start + 1 :]
        del stack[start:]
        return values

    instructions: Any = pickletools.genops(file)
    for opcode, argument, _ in instructions:
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                return stack.pop()
            case "MARK":
                stack.append(_MARK)
            case "NONE":
                stack.append(None)
            case "NEWTRUE":
                stack.append(True)
            case "NEWFALSE":
                stack.append(False)
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(opcode.name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "TUPLE":
                stack.append(tuple(popped_to_mark()))
            case "APPEND":
                value = stack.pop()
                _as(list, stack[-1]).append(value)
            case "APPENDS":
                values = popped_to_mark()
                _as(list, stack[-1]).extend(values)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                _as(dict, stack[-1])[_as(str, key)] = value
            case "SETITEMS":
                values = popped_to_mark()
                _as(dict, stack[-1]).update(_entries(zip(values[::2], values[1::2], strict=True)))
            case "BINPUT" | "LONG_BINPUT" | "PUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET" | "GET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(_global(argument))
            case "STACK_GLOBAL":
                name, module = _as(str, stack.pop()), _as(str, stack.pop())
                stack.append(_global(f"{module} {name}"))
            case "BINPERSID":
                stack.append(_storage(stack.pop(), storages))
            case "REDUCE":
                arguments = _as(tuple, stack.pop())
                stack.append(_rebuilt(stack.pop(), arguments))
            case "BUILD":
                # Attributes of a state dict: the versions of its modules.
                stack.pop()
                _as(dict, stack[-1])
            case name if name in _LITERALS:
                stack.append(argument)
            case name:
                raise HarmfulPickle(f"the instruction {name}")
    raise EOFError("its pickle does not end")


def _as(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"its pickle has a {type(value).__name__} for a {kind.__name__}")
    return value


def _global(name: str) -> Global:
    if name not in _ALLOWED:
        raise HarmfulPickle(name.replace(" ", "."))
    return Global(name)


def _storage(reference: Any, storages: dict[str, Storage] | None) -> Storage:
    kind, storage_class, key, _, elements, *_ = _as(tuple, reference)
    if kind != "storage" or not isinstance(storage_class, Global):
        raise ValueError("its pickle refers to something that is no storage")
    name = storage_class.name.removeprefix("torch ")
    found = Storage(_as(str, key), np.dtype(STORAGES[name]), _as(int, elements))
    if found.elements < 0:
        raise ValueError(f"its storage {found.key} has {found.elements} elements")
    if storages is not None:
        storages[found.key] = found
    return found


def _rebuilt(function: Any, arguments: tuple[Any, ...]) -> object:
    called = function.name if isinstance(function, Global) else type(function).__name__
    if called == "collections OrderedDict":
        return _entries(*arguments)
    if called == "torch._utils _rebuild_parameter":
        return _as(PickledTensor, arguments[0])
    if called != "torch._utils _rebuild_tensor_v2":
        raise HarmfulPickle(f"a call of {called}")
    storage, offset, shape, strides, *_ = arguments
    found = PickledTensor(
        _as(Storage, storage),
        _as(int, offset),
        tuple(_as(int, size) for size in _as(tuple, shape)),
        tuple(_as(int, stride) for stride in _as(tuple, strides)),
    )
    if not all(0 <= n < LARGEST_NUMBER for n in (found.offset, *found.shape, *found.strides)):
        raise ValueError("its pickle has an offset, a size or a stride below 0, or 2⁶³ or more")
    return found


def _entries(pairs: Iterable[Any] = ()) -> dict[str, Any]:
    # Only strings are hashed: the hash of a deeply nested tuple overflows the C stack.
    return {_as(str, key): value for key, value in pairs}
