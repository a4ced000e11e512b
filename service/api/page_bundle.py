"""Joins the modules and the style sheets of the translation page into one file each.

A browser opens six connections to a server, so thirty small files cost several round trips.
The modules stay plain: they are joined when the service starts, not by a build.
"""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import \{ (.+) \} from "\./([a-z]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$|\bimport\(", re.MULTILINE)


def joined_modules(directory: Path, entry: str) -> str:
    """``entry`` and all modules that it imports, joined into one module that runs each once.

    Imports and exports must be written on one line as ``import { a, b } from "./c.js";`` and
    ``export const a``, ``export function a`` or ``export class A``. Raises ``ValueError`` for
    another form, and for modules that import each other.
    """
    parts: dict[str, str] = {}
    begun: list[str] = []

    def add(name: str) -> None:
        if name in begun:
            raise ValueError(f"{' imports '.join([*begun, name])}: modules import each other")
        if name in parts:
            return
        text = (directory / name).read_text("utf-8")
        begun.append(name)
        for _, imported in _IMPORT.findall(text):
            add(imported)
        begun.pop()
        parts[name] = _scoped(name, text)

    add(entry)
    return "const modules = {};\n" + "".join(parts.values())


def _scoped(name: str, text: str) -> str:
    """The module as a function, so that its private names are its own."""
    exported = [declared for _, declared in _EXPORT.findall(text)]
    text = _IMPORT.sub(
        lambda found: f'const {{ {found[1].replace(" as ", ": ")} }} = modules["{found[2]}"];', text
    )
    text = _EXPORT.sub(r"\1 \2", text)
    if other := _OTHER.search(text):
        raise ValueError(f"{name}: {other[0]!r} is no import or export that can be joined")
    return f'modules["{name}"] = (() => {{\n{text}\nreturn {{ {", ".join(exported)} }};\n}})();\n'


def joined_styles(directory: Path, names: list[str]) -> str:
    return "\n".join((directory / name).read_text("utf-8") for name in names)
