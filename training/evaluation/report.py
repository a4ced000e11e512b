"""Writes an evaluation report: one self-contained HTML page, and the same content as JSON."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from training.evaluation import charts
from training.evaluation.document import Facts, Report, Section, summary
from training.evaluation.examples import marked

TEMPLATE = "report.html.jinja"

DIAGNOSES = (
    (
        "length_ratio",
        "Length",
        "words of all translations over words of all references",
    ),
    (
        "too_short",
        "Too short",
        "less than half the reference's words, and at least three fewer",
    ),
    (
        "too_long",
        "Too long",
        "more than twice the reference's words, and at least three more",
    ),
    ("empty", "Empty", "nothing but blanks"),
    (
        "loops",
        "Loops",
        "one to four words three times in succession, and nothing like it in the reference",
    ),
    (
        "repetitions",
        "Repetitions",
        "four words in succession that stand twice, and nothing like it in the reference",
    ),
    (
        "copied",
        "Left untranslated",
        "four fifths of the words stand in the source, and less than half of the reference's do",
    ),
    ("unknown", "Unknown pieces", "a character that the vocabulary lacks was written as ⁇"),
    ("exact", "Exact", "equal to the reference"),
)
"""Field of ``Diagnostics``, its name and its meaning. All but the first count sentences."""


def render(report: Report) -> str:
    """The HTML page. Texts from outside are escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"marked": marked, "fixed": fixed}
    return environment.get_template(TEMPLATE).render(
        report=report.to_dict(), charts=charts, diagnoses=DIAGNOSES
    )


def fixed(value: float, decimals: int) -> str:
    """The number with a fixed number of decimals and a typographic minus sign."""
    return f"{value:.{decimals}f}".replace("-", "−")


def publish(kind: str, systems: Sequence[Facts], sections: Sequence[Section], page: Path) -> None:
    """Write a report of systems of a kind, in the plural, and print its summary."""
    names = [each.system for each in systems]
    report = Report(
        title=" and ".join(names) if len(names) < 3 else f"{len(names)} {kind}",
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        systems=tuple(systems),
        sections=tuple(sections),
    )
    document = write(report, page)
    print(summary(report))
    print(f"wrote {page} and {document}")


def write(report: Report, page: Path) -> Path:
    """Write the page and its JSON, each atomically; returns the path of the JSON."""
    document = page.with_suffix(".json")
    page.parent.mkdir(parents=True, exist_ok=True)
    _replace(document, json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n")
    _replace(page, render(report))
    return document


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
