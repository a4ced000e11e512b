"""A stand-in of the Hugging Face hub on 127.0.0.1: its paths, hashes, redirects and ranges."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from tests.support.local_server import answering

COMMIT = "1a2b3c4d" * 5
LARGE = (".safetensors", ".bin", ".spm", ".model", ".argosmodel")
"""Files that the hub keeps outside of Git."""


@dataclass
class Hub:
    """Serves directories as repositories, and single files at ``/files/NAME``."""

    repositories: dict[str, Path] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    """Names of files whose hash is announced wrongly."""
    absent: set[str] = field(default_factory=set)
    """Names of files that are listed and do not exist."""
    cut: dict[str, int] = field(default_factory=dict)
    """Number of bytes of a file after which a connection is closed, once."""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and range of every request."""
    address: str = ""
    other_host: str = "localhost"
    """Name of the host that has the large files."""

    def ranges_of(self, name: str) -> list[str]:
        """The ranges of the downloads of a file; empty for a whole file."""
        return [
            range_
            for method, path, range_ in self.requests
            if method == "GET" and path.startswith(("/cdn/", "/files/")) and path.endswith(name)
        ]


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def handle(self) -> None:
        # Clients close connections that they keep open when they end.
        with contextlib.suppress(ConnectionResetError):
            super().handle()

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.hub.requests.append((self.command, path, self.headers.get("Range", "")))
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/.+)?", path):
            return self._describe(found[1])
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/([^/]+)", path):
            return self._resolve(found[1], found[3], body=body)
        if found := re.fullmatch(r"/cdn/([^/]+/[^/]+)/([^/]+)", path):
            return self._send(found[2], self._content(found[1], found[2]), body=body)
        if found := re.fullmatch(r"/files/(.+)", path):
            return self._send(found[1], self.hub.files.get(found[1]), body=body)
        return self._refuse()

    def _content(self, repository: str, name: str) -> bytes | None:
        directory = self.hub.repositories.get(repository)
        if directory is None or name in self.hub.absent or not (directory / name).is_file():
            return None
        return (directory / name).read_bytes()

    def _refuse(self, code: str = "RepoNotFound") -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _describe(self, repository: str) -> None:
        directory = self.hub.repositories.get(repository)
        if directory is None:
            return self._refuse()
        siblings: list[dict[str, Any]] = []
        for file in sorted(directory.iterdir()):
            content = file.read_bytes()
            if file.name in self.hub.wrong:
                content = content[::-1] + b"x"
            entry: dict[str, Any] = {
                "rfilename": file.name,
                "size": file.stat().st_size,
                "blobId": blob_id(content),
            }
            if file.name.endswith(LARGE):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": file.stat().st_size, "pointerSize": 134}
            siblings.append(entry)
        document = json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(document)))
        self.end_headers()
        self.wfile.write(document)

    def _resolve(self, repository: str, name: str, *, body: bool) -> None:
        content = self._content(repository, name)
        if content is None:
            return self._refuse("EntryNotFound")
        if not name.endswith(LARGE):
            return self._send(name, content, body=body, etag=blob_id(content))
        # Another host, which is not asked before the hub's own headers have been read.
        address = self.hub.address.replace("127.0.0.1", self.hub.other_host)
        self.send_response(302)
        self.send_header("Location", f"{address}/cdn/{repository}/{name}")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Etag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, name: str, content: bytes | None, *, body: bool, etag: str = "") -> None:
        if content is None:
            return self._refuse("EntryNotFound")
        begin = 0
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            begin = int(found[1])
            if begin >= len(content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{etag or hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        if not body:
            return
        if (limit := self.hub.cut.pop(name, None)) is not None:
            self.wfile.write(content[begin : begin + limit])
            self.close_connection = True
            return
        self.wfile.write(content[begin:])


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with answering(handler) as hub.address:
        yield hub


def use_hub(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Make ``huggingface_hub`` ask the stand-in."""
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    # Chunks are small like the files of tests: an incomplete chunk is lost with the connection.
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1 << 14)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
