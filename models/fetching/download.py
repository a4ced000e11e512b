"""Resumable downloads by HTTP, with a bound of bytes."""

from __future__ import annotations

from pathlib import Path

import httpx
from tqdm import tqdm

from models.fetching.errors import FetchFailed

TIMEOUT = httpx.Timeout(30.0)


def read_whole(address: str, largest: int) -> bytes:
    """The content at an address; raises ``FetchFailed`` if it is too large, and httpx's errors."""
    content = bytearray()
    with httpx.stream("GET", address, timeout=TIMEOUT, follow_redirects=True) as answer:
        answer.raise_for_status()
        for chunk in answer.iter_bytes():
            content += chunk
            if len(content) > largest:
                raise FetchFailed(f"{address} has more than {largest} bytes")
    return bytes(content)


def download(link: str, part: Path, largest: int) -> None:
    """Write the content of ``link`` to ``part``, after what an interrupted download has left there.

    Raises ``FetchFailed`` if it is too large, and the errors of httpx and of the file system.
    """
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
        if size > largest:
            raise FetchFailed(f"{link} has {size} bytes; {largest} are allowed")
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
                if file.tell() + len(chunk) > largest:
                    raise FetchFailed(f"{link} has more than {largest} bytes")
                file.write(chunk)
                bar.update(len(chunk))
