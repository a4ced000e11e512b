"""Recorded requests of other programs' clients, and the answer fields that those clients read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

JSON = "application/json"
PLAIN = "Content-Type: text/plain; charset=utf-8"
DISPOSITION = "Content-Disposition: form-data; name="


def multipart(boundary: str, *parts: tuple[str, str]) -> str:
    """The body of a form: the header of each part, and its content."""
    bodies = "".join(f"--{boundary}\n{header}\n\n{content}\n" for header, content in parts)
    return f"{bodies}--{boundary}--\n"


def named(**fields: str) -> list[tuple[str, str]]:
    """Parts whose header is their quoted name."""
    return [(f'{DISPOSITION}"{name}"', content) for name, content in fields.items()]


FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, byte for byte as its client encodes it, and what the client needs of the answer.

    ``{name}`` in ``path`` and ``body`` is replaced by a value of an earlier answer.
    """

    method: str
    path: str
    content_type: str | None = None
    body: str = ""
    """Sent in UTF-8; lines of a multipart body end in a line feed here, in CRLF when sent."""
    status: int = 200
    reads: Any = None
    """Types of the fields read, in the structure of the answer; or the text of its body."""
    keeps: dict[str, str] = field(default_factory=dict)
    """Names of kept values, by the answer's field."""
    until: tuple[str, str] | None = None
    """A field and its value: the client repeats the request until the field has the value."""
    accept: str = "*/*"

    def encoded(self, kept: dict[str, str]) -> bytes:
        body = _replaced(self.body, kept)
        if self.content_type is not None and self.content_type.startswith("multipart/"):
            body = body.replace("\n", "\r\n")
        return body.encode()

    def address(self, kept: dict[str, str]) -> str:
        return _replaced(self.path, kept)


def _replaced(text: str, kept: dict[str, str]) -> str:
    for name, value in kept.items():
        text = text.replace("{" + name + "}", value)
    return text


def assert_read(value: Any, expected: Any, at: str = "answer") -> None:
    """Fail unless ``value`` has every field of ``expected`` in its type."""
    if isinstance(expected, dict):
        for name, inner in expected.items():
            assert name in value, f"{at} has no {name}: {value}"
            assert_read(value[name], inner, f"{at}.{name}")
    elif isinstance(expected, list):
        assert isinstance(value, list), at
        assert value, f"{at} is empty"
        for number, each in enumerate(value):
            assert_read(each, expected[0], f"{at}[{number}]")
    elif expected is datetime:
        assert datetime.fromisoformat(value).tzinfo is not None, f"{at}: {value} has no time zone"
    elif isinstance(expected, type):
        assert type(value) is expected, f"{at} is {value!r}, not {expected.__name__}"
    else:
        assert value == expected, f"{at} is {value!r}, not {expected!r}"
