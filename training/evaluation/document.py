"""The content of a report as plain values, rendered as JSON and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from training.evaluation.bitext import Bitext
from training.evaluation.comparison import Compared, compare
from training.evaluation.diagnostics import Diagnostics, diagnose
from training.evaluation.examples import Kind, choose
from training.evaluation.scores import Measured, score

DECIMALS = 2
"""Decimals of published scores."""
_FINER = {"bootstrap": 4, "randomisation": 4, "length_ratio": 3}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a system, each with its name."""

    system: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Result:
    system: str
    scores: tuple[Measured, ...]
    diagnostics: Diagnostics


@dataclass(frozen=True, slots=True)
class Comparison:
    baseline: str
    system: str
    differing: int
    """Sentences that the two systems translate differently."""
    metrics: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One test set in one direction."""

    title: str
    test_set: str
    source: str
    target: str
    sentences: int
    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...]
    """Every system except the first, compared with the first."""
    examples: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    created: str
    """ISO date."""
    systems: tuple[Facts, ...]
    sections: tuple[Section, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values, with numbers rounded."""
        document: dict[str, Any] = _plain(self)
        return document


def make_section(bitext: Bitext, named: Sequence[tuple[str, Sequence[str]]]) -> Section:
    """Score, diagnose and compare; every system has as many hypotheses as there are references."""
    first, *others = named
    return Section(
        title=bitext.title,
        test_set=bitext.name,
        source=bitext.source,
        target=bitext.target,
        sentences=len(bitext.references),
        results=tuple(
            Result(name, tuple(score(hypotheses, bitext)), diagnose(hypotheses, bitext))
            for name, hypotheses in named
        ),
        comparisons=tuple(
            Comparison(
                first[0],
                name,
                sum(a != b for a, b in zip(first[1], hypotheses, strict=True)),
                tuple(compare(first[1], hypotheses, bitext)),
            )
            for name, hypotheses in others
        ),
        examples=tuple(choose(named, bitext)),
    )


def summary(report: Report) -> str:
    """Scores and comparisons as text for a terminal."""
    lines = []
    for section in report.sections:
        lines.append(f"{section.title}: {section.sentences} sentences")
        for result in section.results:
            lines.append(f"  {result.system}")
            for each in result.scores:
                lines.append(
                    f"    {each.metric:<33} {each.score:6.2f}   95 % in {each.mean:.2f} "
                    f"± {each.margin:.2f}   {each.signature}"
                )
        for comparison in section.comparisons:
            lines.append(f"  {comparison.system} beside {comparison.baseline}")
            for metric in comparison.metrics:
                lines.append(
                    f"    {metric.metric:<33} {metric.difference:+6.2f}   bootstrap p = "
                    f"{metric.bootstrap:.4f}, randomisation p = {metric.randomisation:.4f}: "
                    f"{metric.verdict}"
                )
    return "\n".join(lines)


def _plain(value: Any, name: str = "") -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        members = {f.name: _plain(getattr(value, f.name), f.name) for f in fields(value)}
        return members | ({"verdict": value.verdict} if isinstance(value, Compared) else {})
    if isinstance(value, tuple | list):
        return [_plain(each, name) for each in value]
    if isinstance(value, float):
        return round(value, _FINER.get(name, DECIMALS))
    return value
