"""Argos Translate's index of packages, one JSON file, and resumable downloads from its links.

The index has no hashes. Entries of a package are verified by the checksums in the archive.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from tqdm import tqdm

from models.fetching.errors import FetchFailed

LARGEST_INDEX = 16 << 20
LARGEST_PACKAGE = 8 << 30
TIMEOUT = httpx.Timeout(30.0)


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
    content = bytearray()
    try:
        with httpx.stream("GET", address, timeout=TIMEOUT, follow_redirects=True) as answer:
            answer.raise_for_status()
            for chunk in answer.iter_bytes():
                content += chunk
                if len(content) > LARGEST_INDEX:
                    raise FetchFailed(f"{address} has more than {LARGEST_INDEX} bytes")
        entries = json.loads(content)
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
    """The package's file in ``directory``; continues an interrupted download."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / package.file
    if path.exists():
        return path
    part = path.with_suffix(".part")
    failures = []
    for link in package.links:
        try:
            _download(link, part)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failures.append(f"{link}: {error or type(error).__name__}")
        except OSError as error:
            raise FetchFailed(f"{part} cannot be written: {error.strerror or error}") from error
        else:
            return part.rename(path)
    raise FetchFailed(
        f"{package.file} cannot be fetched: {'; '.join(failures) or 'it has no link'}; the same "
        "command continues where this one stopped"
    )


def _download(link: str, part: Path) -> None:
    begun = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if begun:
        headers["Range"] = f"bytes={begun}-"
    with httpx.stream(
        "GET", link, headers=headers, timeout=TIMEOUT, follow_redirects=True
    ) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            # The part is already the whole, or belongs to another file.
            part.unlink()
            raise httpx.RequestError("what was fetched before does not fit; it was deleted")
        answer.raise_for_status()
        resumes = answer.status_code == httpx.codes.PARTIAL_CONTENT
        size = int(answer.headers.get("Content-Length", 0)) + (begun if resumes else 0)
        if size > LARGEST_PACKAGE:
            raise FetchFailed(f"{link} has {size} bytes; {LARGEST_PACKAGE} are allowed")
        with (
            part.open("ab" if resumes else "wb") as file,
            tqdm(
                total=size or None,
                initial=begun if resumes else 0,
                desc=part.stem,
                unit="B",
                unit_scale=True,
                disable=None,
            ) as bar,
        ):
            for chunk in answer.iter_bytes():
                if file.tell() + len(chunk) > LARGEST_PACKAGE:
                    raise FetchFailed(f"{link} has more than {LARGEST_PACKAGE} bytes")
                file.write(chunk)
                bar.update(len(chunk))


def _version(package: Package) -> tuple[int, ...]:
    return tuple(int(part) for part in package.version.split(".") if part.isdecimal())
