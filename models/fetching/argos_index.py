"""Argos Translate's index of packages, one JSON file, and resumable downloads from its links.

The index has no hashes. A package is verified by the checksums of the entries in its archive.
"""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from models.fetching.download import download, read_whole
from models.fetching.errors import FetchFailed

LARGEST_INDEX = 16 << 20
LARGEST_PACKAGE = 8 << 30
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, OSError, RuntimeError, ValueError),
)


@dataclass(frozen=True, slots=True)
class Package:
    source: str
    target: str
    version: str
    links: tuple[str, ...]

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def file(self) -> str:
        return f"argos-{self.pair}-{self.version.replace('.', '_')}.argosmodel"


def read_index(address: str) -> tuple[Package, ...]:
    """The packages that translate, the newest of each pair; raises ``FetchFailed``."""
    try:
        entries = json.loads(read_whole(address, LARGEST_INDEX))
        found = [
            Package(
                str(entry["from_code"]),
                str(entry["to_code"]),
                str(entry["package_version"]),
                tuple(link for link in map(str, entry["links"]) if link.startswith("http")),
            )
            for entry in entries
            if entry.get("type", "translate") == "translate"
        ]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchFailed(f"the index of Argos cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FetchFailed(f"{address} is not an index of Argos packages: {error!r}") from error
    newest = {package.pair: package for package in sorted(found, key=_version)}
    return tuple(newest.values())


def find(packages: Sequence[Package], pair: str) -> Package:
    for package in packages:
        if package.pair == pair:
            return package
    raise FetchFailed(f"Argos has no package {pair}")


def fetch_package(package: Package, directory: Path) -> Path:
    """The package's file in ``directory``; continues an interrupted download from each link.

    A file that is no whole archive is deleted. Raises ``FetchFailed`` if no link gives a whole one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / package.file
    if path.exists() and not _damage(path):
        return path
    path.unlink(missing_ok=True)
    failures = []
    for number, link in enumerate(package.links):
        part = path.with_suffix(f".{number}.part")
        try:
            download(link, part, LARGEST_PACKAGE)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failures.append(f"{link}: {error or type(error).__name__}")
        except OSError as error:
            raise FetchFailed(f"{part} cannot be written: {error.strerror or error}") from error
        else:
            if damage := _damage(part):
                part.unlink()
                failures.append(f"{link} gives no whole zip archive ({damage}), which was deleted")
                continue
            part.rename(path)
            for other in directory.glob(f"{path.stem}.*.part"):
                other.unlink()
            return path
    raise FetchFailed(
        f"{package.file} cannot be fetched: {'; '.join(failures) or 'it has no link'}; the same "
        "command continues where this one stopped"
    )


def _damage(path: Path) -> str:
    """The reason why a file is no whole zip archive; empty for a whole one."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except _DAMAGE as error:
        return str(error) or type(error).__name__
    return "" if damaged is None else f"{damaged} is damaged"


def _version(package: Package) -> tuple[int, ...]:
    parts = package.version.split(".")
    return tuple(int(part) for part in parts if part.isdecimal() and len(part) < 10)
