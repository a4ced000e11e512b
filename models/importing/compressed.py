"""Reads whole files that may be packed with gzip or Zstandard, with a bound of unpacked bytes."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from typing import IO

from models.importing.refusals import NotACheckpoint
from models.zstandard import WINDOW, zstd

SUFFIXES = ("", ".gz", ".zst")
"""Suffixes of a file as it is, and packed."""
_CHUNK = 1 << 20


def read_unpacked(path: Path, largest: int) -> bytes:
    """The content of a file, unpacked according to its suffix.

    Raises ``NotACheckpoint`` for a file that is missing, unreadable, not a plain file, damaged, or
    of more than ``largest`` bytes when it is unpacked.
    """
    try:
        # Not blocking: opening a FIFO would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotACheckpoint(f"{path} is not a plain file")
            match path.suffix:
                case ".gz":
                    content = bytes(_gunzipped(file, largest))
                case ".zst":
                    with zstd.ZstdFile(file, options=WINDOW) as unpacked:
                        content = unpacked.read(largest + 1)
                case _:
                    content = file.read(largest + 1)
    except FileNotFoundError as error:
        raise NotACheckpoint(f"{path.parent} has no {path.name}") from error
    except OSError as error:
        raise NotACheckpoint(f"{path} cannot be read: {error.strerror or error}") from error
    except (zlib.error, EOFError, zstd.ZstdError) as error:
        raise NotACheckpoint(f"{path} is damaged: {error}") from error
    if len(content) > largest:
        raise NotACheckpoint(f"{path} has more than {largest} bytes")
    return content


def _gunzipped(file: IO[bytes], largest: int) -> bytearray:
    # Not by the module gzip, which unpacks several streams in one file without end.
    unpacker, content = zlib.decompressobj(wbits=31), bytearray()
    while len(content) <= largest and not unpacker.eof:
        packed = unpacker.unconsumed_tail or file.read(_CHUNK)
        if not packed:
            raise EOFError("it ends within its packed data")
        content += unpacker.decompress(packed, _CHUNK)
    return content
