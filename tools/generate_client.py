"""Generates the synchronous client from the asynchronous: ``python -m tools.generate_client``.

Removes ``async`` and ``await``, renames types and functions to their synchronous twins, and
replaces the sentences of docstrings that hold for one client only.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).parents[1] / "dragoman"
SOURCE = _CLIENT / "async_client.py"
GENERATED = _CLIENT / "client.py"

HEADER = '''"""Synchronous HTTP client.

Generated from ``async_client.py``. Change that module, and run
``python -m tools.generate_client``.
"""

'''
PATTERNS = (
    (r"AsyncGenerator\[(.+?), None\]", r"Generator[\1, None, None]"),
    (r"Coroutine\[Any, Any, (T|list\[Translation\])\]", r"\1"),
    (r"Iterable\[str\] \| AsyncIterable\[str\]", "Iterable[str]"),
    (r"Awaitable\[object\]", "object"),
    (r"\b(async|await) ", ""),
    (r"\basync_", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\ba(close|iter_bytes|next|read)\b", r"\1"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"Async(Client|Generator|Iterator|Stream)\b", r"\1"),
)
SENTENCES = {
    "Tasks may share one;": "Threads may share one;",
    "with all attempts and pauses; a\n    stream has to begin within it.": (
        "with all attempts and pauses; but\n"
        "    each network wait may take the time that was left when its attempt began. A stream\n"
        "    has to begin within it."
    ),
    " Cancelling a\n    call closes its connection, which cancels the request on the service.": "",
    "Stopping early, by ``aclose``, sends no more requests and cancels those under\n        way.": (
        "Stopping early sends no more texts and waits for the requests under way."
    ),
}


def synchronous() -> str:
    """The text of ``dragoman/client.py``.

    Raises ``ValueError`` if the asynchronous client lacks a sentence of ``SENTENCES``.
    """
    text = SOURCE.read_text(encoding="utf-8")
    for old, new in SENTENCES.items():
        if old not in text:
            raise ValueError(f"{SOURCE.name} lacks {old!r}")
        text = text.replace(old, new)
    for pattern, replacement in PATTERNS:
        text = re.sub(pattern, replacement, text)
    text = HEADER + text[text.index("from __future__") :]
    for arguments in (["check", "--fix", "--select", "F401,I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--quiet"]
        ruff += [f"--stdin-filename={GENERATED}", "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    GENERATED.write_text(synchronous(), encoding="utf-8")
