"""Meaning of the arguments of ``dragoman translate``: text, files of lines, or documents."""

from __future__ import annotations

import argparse
import glob
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from service.commands.command import CommandFailed

STANDARD = "-"
_LINES = ("", ".txt", ".tsv", ".jsonl", ".ndjson", ".gz")
"""Suffixes of files of lines. Others are of documents, or else of lines, too."""


@dataclass(frozen=True, slots=True)
class Phrase:
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """A file and the name of its translation."""

    source: str
    """A path, or ``-`` for standard input."""
    target: str
    """A path, or ``-`` for standard output."""
    document: bool
    in_folder: bool = False
    """Whether the target is in a folder of translations, which may have to be made."""


def found(options: argparse.Namespace) -> Phrase | list[Item]:
    """The work that the arguments name. Raises ``CommandFailed``, also if output would be lost."""
    given: list[str] = options.inputs
    if options.text:
        return _phrase(given, options)
    names = [STANDARD] if not given else _expanded(given, options)
    if not names:
        return _phrase(given, options)
    if STANDARD in names and len(names) > 1:
        raise CommandFailed("- is standard input; it cannot be beside files")
    items = list(_items(names, options))
    return _checked(items, options)


def replaceable(path: Path) -> Path | None:
    """The file that a rename replaces: the target of a symbolic link, not the link.

    ``None`` for a pipe or a device, which is written in sequence.
    """
    return None if path.exists() and not path.is_file() else path.resolve()


def standard_output() -> BinaryIO:
    """Standard output, for bytes; raises ``CommandFailed`` if it is closed."""
    if sys.stdout is None:
        raise CommandFailed("standard output is closed")
    return sys.stdout.buffer


def _phrase(given: list[str], options: argparse.Namespace) -> Phrase:
    if options.output is not None:
        raise CommandFailed(
            f"{' '.join(given)!r} is text, whose translation is printed, without -o"
        )
    return Phrase(" ".join(given))


def _expanded(given: list[str], options: argparse.Namespace) -> list[str]:
    """The names of files, with patterns expanded; empty if the arguments are text."""
    names: list[str] = []
    missing: list[str] = []
    for name in given:
        if name == STANDARD or os.path.exists(name):
            names.append(name)
        elif matches := sorted(glob.glob(name, recursive=True)):
            names += matches
        else:
            missing.append(name)
    if missing and (names or _meant_as_file(missing, options)):
        raise CommandFailed(f"{missing[0]}: No such file or directory; --text translates words")
    return names


def _meant_as_file(missing: list[str], options: argparse.Namespace) -> bool:
    """Whether a missing name stands for a file: with ``-o``, a separator or a suffix."""
    if options.output is not None or options.format is not None:
        return True
    return all(" " not in name and (os.sep in name or _has_suffix(name)) for name in missing)


def _has_suffix(name: str) -> bool:
    """Whether a name ends like a file that can be translated."""
    suffix = Path(name).suffix.lower()
    if suffix in _LINES:
        return suffix != ""
    try:
        return suffix in _documents()
    except ModuleNotFoundError:
        # An installation that has the client only translates phrases, and no documents.
        return False


def _documents() -> tuple[str, ...]:
    # The formats take a while to import.
    from service.documents import SUPPORTED

    return SUPPORTED


def _items(names: list[str], options: argparse.Namespace) -> Iterator[Item]:
    folders = [name for name in names if os.path.isdir(name)]
    output: str | None = options.output
    if folders and output is None:
        raise CommandFailed(
            f"{folders[0]} is a folder; -o names the folder of its translations, --text translates "
            "the word"
        )
    several = bool(folders) or len(names) > 1
    into_folder = output is not None and (
        several or output.endswith(os.sep) or (os.path.isdir(output) and names != [STANDARD])
    )
    if into_folder and (
        output == STANDARD or (os.path.exists(str(output)) and not os.path.isdir(str(output)))
    ):
        raise CommandFailed(f"{output} is no folder, which several translations need")
    for name in names:
        if os.path.isdir(name):
            for path in _inside(Path(name), Path(str(output))):
                relative = path.relative_to(name)
                target = str(Path(str(output)) / relative)
                yield Item(str(path), target, _is_document(path, options), in_folder=True)
            continue
        document = name != STANDARD and _is_document(Path(name), options)
        if output is not None:
            target = str(Path(output) / Path(name).name) if into_folder else output
        elif document or several:
            target = _beside(Path(name), options.target)
        else:
            target = STANDARD
        yield Item(name, target, document, into_folder)


def _inside(folder: Path, output: Path) -> Iterator[Path]:
    """The files that can be translated in a folder, except hidden ones and those of ``output``."""
    suffixes = {*_LINES[1:-1], *_documents()}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        own = (
            path.resolve().is_relative_to(output.resolve()) and output.resolve() != folder.resolve()
        )
        if path.is_file() and not hidden and not own and path.suffix.lower() in suffixes:
            yield path


def _is_document(path: Path, options: argparse.Namespace) -> bool:
    if options.format is not None or options.column is not None or options.field is not None:
        return bool(options.format == "document")
    suffix = path.suffix.lower()
    return suffix not in _LINES and suffix in _documents()


def _beside(path: Path, target: str) -> str:
    """The path with the language before its suffix: ``letter.docx`` gives ``letter.en.docx``."""
    if os.sep in target:
        raise CommandFailed(f"{target!r} is no language code, such as de")
    return str(path.with_name(f"{path.stem}.{target}{path.suffix}"))


def _checked(items: list[Item], options: argparse.Namespace) -> list[Item]:
    """Raises ``CommandFailed`` for output that would replace a file."""
    if not items:
        raise CommandFailed("there is no file to translate")
    by_target: dict[Path, Item] = {}
    for item in items:
        target = Path(item.target).resolve()
        other = by_target.setdefault(target, item)
        if other is not item and item.target != STANDARD:
            raise CommandFailed(
                f"{other.source} and {item.source} would both be {item.target}; translate them "
                "into folders of their own"
            )
        if item.source != STANDARD and Path(item.source).resolve() == target:
            raise CommandFailed(
                f"{item.target} would be replaced by its translation; --output names another file"
            )
    # A pattern finds what an earlier run has made of the other files.
    items = [
        item
        for item in items
        if item.source == STANDARD or Path(item.source).resolve() not in by_target
    ]
    if options.force:
        return items
    taken = [item for item in items if item.target != STANDARD and os.path.isfile(item.target)]
    if not options.skip_existing:
        if taken:
            more = f" and {len(taken) - 1} more exist" if taken[1:] else " exists"
            raise CommandFailed(f"{taken[0].target}{more}; --force replaces what is there")
        return items
    return [item for item in items if item not in taken]
