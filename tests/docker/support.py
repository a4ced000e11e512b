"""Parsers of Dockerfiles, .dockerignore and Compose files, as far as the tests need them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.programs import ROOT

DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
COMPOSE, COMPOSE_CPU = ROOT / "docker-compose.yml", ROOT / "docker-compose.cpu.yml"
COMPOSE_FLEET = ROOT / "docker" / "fleet" / "compose.yml"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile, continuation lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    @property
    def flags(self) -> dict[str, str]:
        flags = [word[2:].partition("=") for word in self.words if word.startswith("--")]
        return {name: value for name, _, value in flags}

    @property
    def assignments(self) -> dict[str, str]:
        """Assignments of ``ENV``, ``LABEL`` and ``ARG``; a bare name has an empty value."""
        return {name: value for name, _, value in (word.partition("=") for word in self.words)}

    @property
    def exec(self) -> list[str]:
        """Command of ``CMD``, ``ENTRYPOINT`` and ``HEALTHCHECK``, which must be in exec form."""
        command: list[str] = json.loads(self.text[self.text.index("[") :])
        return command


@dataclass(frozen=True, slots=True)
class Stage:
    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> list[Instruction]:
        return [each for each in self.instructions if each.name == name]

    def last(self, name: str) -> Instruction:
        return self.all(name)[-1]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    arguments: Mapping[str, str]
    """Arguments before the first stage, with their defaults."""
    stages: tuple[Stage, ...]

    @property
    def final(self) -> Stage:
        return self.stages[-1]

    def declares(self, argument: str) -> bool:
        declared = [each.assignments for stage in self.stages for each in stage.all("ARG")]
        return argument in self.arguments or any(argument in each for each in declared)

    @classmethod
    def read(cls, path: Path) -> Dockerfile:
        lines = [
            line
            for line in path.read_text(encoding="utf-8").splitlines()
            if not line.lstrip().startswith("#")
        ]
        joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
        instructions = [
            Instruction(name, text)
            for name, _, text in (line.partition(" ") for line in joined.splitlines() if line)
        ]
        starts = [i for i, each in enumerate(instructions) if each.name == "FROM"]
        arguments: dict[str, str] = {}
        for each in instructions[: starts[0]]:
            arguments |= each.assignments
        stages = []
        for start, end in zip(starts, [*starts[1:], len(instructions)], strict=True):
            base, _, name = instructions[start].text.partition(" AS ")
            stages.append(Stage(base, name, tuple(instructions[start + 1 : end])))
        return cls(arguments, tuple(stages))


class Ignored:
    """Files that ``.dockerignore`` excludes from a build: the last matching pattern decides."""

    def __init__(self, text: str) -> None:
        self._rules = [
            (not line.startswith("!"), _pattern(line.removeprefix("!")))
            for line in text.splitlines()
            if line and not line.startswith("#")
        ]

    def __contains__(self, path: str) -> bool:
        ignored = False
        for ignores, pattern in self._rules:
            if pattern.fullmatch(path):
                ignored = ignores
        return ignored


def _pattern(pattern: str) -> re.Pattern[str]:
    """Regular expression of a pattern; a matching directory includes its content."""
    translated = "".join(
        {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
        for part in re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    )
    return re.compile(translated + "(?:/.*)?")


@dataclass(frozen=True, slots=True)
class Reset:
    """Value tagged ``!reset``, which removes the value of an earlier file."""

    value: Any


class _Loader(yaml.SafeLoader):
    """YAML with the tags of Compose."""


def _reset(loader: yaml.SafeLoader, node: yaml.Node) -> Reset:
    assert isinstance(node, yaml.SequenceNode)
    return Reset(loader.construct_sequence(node))


_Loader.add_constructor("!reset", _reset)


def compose(*paths: Path) -> dict[str, Any]:
    """Compose files merged like Compose: mappings are merged, other values replaced."""
    merged: dict[str, Any] = {}
    for path in paths:
        merged = _merge(merged, yaml.load(path.read_text(encoding="utf-8"), _Loader))
    return merged


def _merge(earlier: Any, later: Any) -> Any:
    if isinstance(later, Reset):
        return later.value
    if isinstance(earlier, dict) and isinstance(later, dict):
        keys = [*earlier, *(key for key in later if key not in earlier)]
        return {
            key: _merge(earlier.get(key), later[key]) if key in later else earlier[key]
            for key in keys
        }
    if isinstance(later, dict):
        return {key: _merge(None, value) for key, value in later.items()}
    return later


_VARIABLE = re.compile(r"\$\{(\w+)(?:(:[-+?])([^}]*))?\}")


def variables(value: Any) -> set[str]:
    """Names of the host's variables that ``value`` refers to."""
    return {name for name, _, _ in _VARIABLE.findall(json.dumps(value))}


def filled_in(text: str) -> str:
    """The text with every variable replaced by its default."""

    def default(match: re.Match[str]) -> str:
        return match[3] if match[2] == ":-" else ""

    return _VARIABLE.sub(default, text)
