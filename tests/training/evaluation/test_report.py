from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.training.evaluation.texts import BAD, BITEXT, GOOD, REFERENCES, SOURCES
from training.evaluation.bitext import Bitext
from training.evaluation.charts import columns
from training.evaluation.document import Facts, Report, make_section
from training.evaluation.examples import choose, marked
from training.evaluation.report import render, write

pytestmark = pytest.mark.usefixtures("few_samples")


def report_of(*named: tuple[str, Sequence[str]], bitext: Bitext = BITEXT) -> Report:
    facts = tuple(Facts(name, (("file", f"{name}.txt"),)) for name, _ in named)
    return Report("A & B", "2026-11-22", facts, (make_section(bitext, named),))


def numbers(document: Any) -> Iterator[float]:
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        for each in document:
            yield from numbers(each)
    elif isinstance(document, int | float):
        yield abs(float(document))


def test_every_number_of_the_json_is_on_the_page(tmp_path: Path) -> None:
    report = report_of(("good", GOOD), ("bad", BAD), ("same", REFERENCES))
    document = write(report, tmp_path / "deep" / "report.html")
    assert document == tmp_path / "deep" / "report.json"
    page = (tmp_path / "deep" / "report.html").read_text(encoding="utf-8")
    shown = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", page)}
    numbers_in_json = list(numbers(json.loads(document.read_text(encoding="utf-8"))))
    assert len(numbers_in_json) > 200
    assert [number for number in numbers_in_json if number not in shown] == []
    assert sorted(path.name for path in document.parent.iterdir()) == ["report.html", "report.json"]


def test_page_escapes_texts_and_makes_no_requests() -> None:
    page = render(report_of(("<i>good</i>", GOOD), ("bad", BAD)))
    assert "<script" not in page
    assert "<i>" not in page and "&lt;i&gt;good&lt;/i&gt;" in page
    assert "<b>" not in page
    assert "&lt;b&gt;ein&lt;/b&gt; Buch &amp; lacht" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)|url\(|@import""", page)


def test_report_of_one_system_has_no_comparison() -> None:
    report = report_of(("good", GOOD), bitext=replace(BITEXT, sources=None))
    assert report.sections[0].comparisons == ()
    page = render(report)
    assert "Significance" not in page
    assert "words of the reference" in page


def test_identical_translations_make_a_page() -> None:
    report = report_of(("one", REFERENCES), ("other", REFERENCES))
    (comparison,) = report.sections[0].comparisons
    assert comparison.differing == 0
    assert {each.verdict for each in comparison.metrics} == {"not significant"}
    kinds = [kind.title.partition(" by ")[0] for kind in report.sections[0].examples]
    assert kinds == ["Translated best", "Translated worst"]
    assert "0 sentences differ" in render(report)


def test_examples_are_the_best_the_worst_and_where_systems_differ_most() -> None:
    best, worst, by_bad, by_good = choose([("good", GOOD), ("bad", BAD)], BITEXT)
    assert best.title == "Translated best by all systems"
    assert best.examples[0].outputs[0].chrf > worst.examples[0].outputs[0].chrf - 1e-9
    assert by_bad.title == "Better by bad than by good"
    assert [example.line for example in by_bad.examples] == [6]
    assert by_good.title == "Better by good than by bad"
    assert 6 not in [example.line for example in by_good.examples]
    first = by_good.examples[0]
    assert (first.source, first.reference) == (SOURCES[first.line - 1], REFERENCES[first.line - 1])


@pytest.mark.parametrize(
    ("text", "stretches"),
    [
        ("A red house.", [("A ", False), ("red", True), (" house.", False)]),
        ("A blue house.", [("A blue house.", False)]),
        (
            "A blue little house.",
            [("A blue ", False), ("little", True), (" ", False), ("house.", False)],
        ),
        ("", []),
    ],
)
def test_differences_from_the_reference_are_marked(
    text: str, stretches: list[tuple[str, bool]]
) -> None:
    assert marked(text, "A blue house.") == stretches
    for translation, reference in zip(BAD, REFERENCES, strict=True):
        assert "".join(each for each, _ in marked(translation, reference)) == translation


def test_chart_has_a_column_for_each_value_and_the_same_bytes_every_time() -> None:
    values = [[10.5, 20], [3, 40.25]]
    drawn = columns(["1 – 5", "6+"], values)
    root = ElementTree.fromstring(drawn)
    ids = [each.get("id", "") for each in root.iter() if "series" in each.get("id", "")]
    assert ids == ["series-0", "series-0", "series-1", "series-1"]
    texts = {(each.text or "").strip() for each in root.iter() if each.tag.endswith("text")}
    assert {"10.5", "20", "3", "40.25", "1 – 5", "6+"} <= texts
    assert columns(["1 – 5", "6+"], values) == drawn
