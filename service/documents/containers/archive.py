"""Safe reading and rewriting of untrusted zip archives, with size limits against zip bombs."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from service.documents.types import BrokenDocument

_MOST_ENTRIES = 10_000
_MOST_BYTES = 256 * 2**20
"""Limit for all entries together, unpacked."""
_MOST_BYTES_READ = 32 * 2**20
"""Limit for an entry that is parsed, which takes several times as much memory."""
_CHUNK = 2**20

_DAMAGED = (
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions of ``zipfile`` for damaged files, all of them observed."""


class Archive:
    """A zip archive. Raises ``BrokenDocument`` unless every entry can be read."""

    def __init__(self, content: bytes, extension: str) -> None:
        try:
            self._file = zipfile.ZipFile(io.BytesIO(content))
        except _DAMAGED as error:
            raise BrokenDocument(f"this is not a zip file, as every {extension} is") from error
        entries = self._file.infolist()
        if any(entry.flag_bits & 1 for entry in entries):
            raise BrokenDocument("the file is protected by a password; save it without one")
        if len({entry.filename for entry in entries}) < len(entries):
            raise BrokenDocument("the zip file has several entries of one name")
        unpacked = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_ENTRIES or unpacked > _MOST_BYTES:
            raise BrokenDocument(
                f"the zip file has {len(entries)} entries of {unpacked} bytes; at most "
                f"{_MOST_ENTRIES} entries and {_MOST_BYTES} bytes are unpacked"
            )
        for entry in entries:
            self._prove(entry)

    def _prove(self, entry: zipfile.ZipInfo) -> None:
        # zipfile never returns more than the declared size, and verifies the checksum.
        try:
            with self._file.open(entry) as stream:
                while stream.read(_CHUNK):
                    pass
        except _DAMAGED as error:
            raise BrokenDocument(f"the zip file is damaged at {entry.filename[:80]}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._file.NameToInfo

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.namelist())

    def read(self, name: str) -> bytes:
        """The content of an entry; raises ``BrokenDocument`` if it is too large to parse."""
        size = self._file.getinfo(name).file_size
        if size > _MOST_BYTES_READ:
            raise BrokenDocument(
                f"{name[:80]} has {size} bytes; at most {_MOST_BYTES_READ} are read: send the "
                "document in parts"
            )
        return self._file.read(name)

    def rewritten(self, replacements: Mapping[str, bytes]) -> bytes:
        """The zip file with new contents for some of its entries, in the same order."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in self._file.infolist():
                copy = zipfile.ZipInfo(entry.filename, entry.date_time)
                copy.compress_type = entry.compress_type
                copy.external_attr = entry.external_attr
                copy.comment = entry.comment
                content = replacements.get(entry.filename)
                target.writestr(copy, self._file.read(entry) if content is None else content)
            target.comment = self._file.comment
        return packed.getvalue()
