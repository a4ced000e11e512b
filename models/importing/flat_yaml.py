"""Reader of the flat YAML of Marian: a mapping of names to scalars or to lists of scalars.

Values remain text, because YAML would read the pieces ``no`` and ``1_000`` as a boolean and a
number. Events are read one by one, so neither aliases nor deep nesting cost memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from models.importing.refusals import NotACheckpoint
from models.importing.side_files import read_bytes

Value = str | list[str]


def read_flat(path: Path) -> dict[str, Value]:
    """Raises ``NotACheckpoint`` for a file that cannot be read, or that is not flat."""
    return parse_flat(read_bytes(path), str(path))


def parse_flat(content: bytes, name: str) -> dict[str, Value]:
    """The mapping in ``content``; ``name`` names it in errors, see ``read_flat``."""
    found: dict[str, Value] = {}
    try:
        events = yaml.parse(content.decode("utf-8"), Loader=yaml.CBaseLoader)
        events = (e for e in events if not isinstance(e, _FRAME))
        if not isinstance(next(events, None), yaml.MappingStartEvent):
            raise NotACheckpoint(f"{name} holds no mapping")
        for key in events:
            if isinstance(key, yaml.MappingEndEvent):
                break
            if not isinstance(key, yaml.ScalarEvent):
                raise NotACheckpoint(f"{name} has a key that is no text")
            if key.value in found:
                raise NotACheckpoint(f"{name} has {key.value!r} twice")
            found[key.value] = _value(events, name)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise NotACheckpoint(f"{name} cannot be read as YAML: {reason}") from error
    return found


_FRAME = (
    yaml.StreamStartEvent,
    yaml.StreamEndEvent,
    yaml.DocumentStartEvent,
    yaml.DocumentEndEvent,
)


def _value(events: Iterator[yaml.Event], name: str) -> Value:
    first = next(events)
    if isinstance(first, yaml.ScalarEvent):
        return str(first.value)
    values: list[str] = []
    if isinstance(first, yaml.SequenceStartEvent):
        for each in events:
            if isinstance(each, yaml.SequenceEndEvent):
                return values
            if not isinstance(each, yaml.ScalarEvent):
                break
            values.append(each.value)
    raise NotACheckpoint(f"{name} has a value that is neither a text nor a list of texts")
