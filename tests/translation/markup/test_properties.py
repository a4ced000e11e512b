from __future__ import annotations

import html
import re
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from service.text.markup import PLAIN, MarkedSentence, Markup, parse
from service.text.markup.placeholders import find
from tests.support.weaving import raw_runs, woven
from tests.translation.markup.making import Dice, dice, translated

POINTS = ["{name}", "%1$s", " https://a.example/b?c=1 ", " me@mail.example "]
INLINE = ["b", "i", "span", "x-y"]
ALL = [*INLINE, "p", "div", "li"]
TAG = re.compile(r"<[^<>]*>")
ANYTHING = st.text(st.sampled_from("ab <>/=\"'&;!-[]?{}%@.\n:") | st.characters(), max_size=60)

MARKUPS = [
    Markup("html"),
    Markup("html", splitting_tags=frozenset({"i"}), non_splitting_tags=frozenset({"p"})),
    Markup("html", ignore_tags=frozenset({"x-y"})),
    Markup("xml"),
    Markup("xml", splitting_tags=frozenset({"i"}), outline_detection=False),
    Markup("xml", ignore_tags=frozenset({"b", "p"}), outline_detection=False),
]


def tree(draw: Dice, names: list[str]) -> str:
    """Well-formed markup in which no two tags are alike."""
    count = 0

    def content(depth: int) -> str:
        nonlocal count
        parts = []
        for _ in range(draw.number(0, 5)):
            count += 1
            number = count
            match draw.pick(
                ["element", "element", "text", "text", "text", "point", "empty", "note"]
            ):
                case "text":
                    parts.append(html.escape(draw.text(3), quote=False))
                case "point":
                    parts.append(draw.pick(POINTS))
                case "empty":
                    parts.append(f'<img n="{number}"/>')
                case "note":
                    parts.append(f"<!-- {number} -->")
                case "element" if depth:
                    name = draw.pick(names)
                    parts.append(f'<{name} n="{number}">{content(depth - 1)}</{name}>')
        return "".join(parts)

    return content(4)


def parents(text: str) -> dict[str, str]:
    """Maps each start tag or empty tag to its parent tag. Fails if the tags are not nested."""
    found = {}
    path = [""]
    for tag in TAG.findall(text):
        if tag.startswith("</"):
            opened = path.pop()
            assert opened.startswith(f"<{tag[2:-1]} "), f"{tag} after {opened}"
        else:
            assert tag not in found
            found[tag] = path[-1]
            if not tag.endswith("/>") and not tag.startswith("<!"):
                path.append(tag)
    assert path == [""]
    return found


@pytest.mark.parametrize("markup", MARKUPS)
@settings(max_examples=150, deadline=None)
@given(draw=dice)
def test_any_translation_keeps_all_tags_and_their_parents(markup: Markup, draw: Dice) -> None:
    text = tree(draw, INLINE if draw.number(0, 1) else ALL)

    def render(sentence: MarkedSentence) -> str:
        target = draw.text()
        return sentence.render(target, draw.alignment(sentence.text, target))

    result = translated(text, markup, render, draw.spans)
    assert parents(result) == parents(text)
    assert Counter(TAG.findall(result)) == Counter(TAG.findall(text))
    for point in POINTS:
        assert result.count(point.strip()) == text.count(point.strip())


@pytest.mark.parametrize("markup", MARKUPS)
@settings(max_examples=150, deadline=None)
@given(draw=dice)
def test_rendering_without_its_marks_equals_the_model_output(markup: Markup, draw: Dice) -> None:
    def render(sentence: MarkedSentence) -> str:
        target = draw.text()
        result = sentence.render(target, draw.alignment(sentence.text, target))
        bare = result
        for mark in sorted(sentence.marks, key=lambda mark: -len(mark.raw)):
            bare = bare.replace(mark.raw, "", 1)
        own = html.escape(target, quote=False)
        if any(mark.solid for mark in sentence.marks):
            assert "".join(bare.split()) == "".join(own.split())
        else:
            assert bare == own
        return result

    translated(tree(draw, INLINE), markup, render, draw.spans)


@settings(max_examples=300, deadline=None)
@given(dice)
def test_placeholders_survive_any_translation_of_a_plain_text(draw: Dice) -> None:
    text = "".join(draw.pick([draw.text(4), draw.pick(POINTS)]) for _ in range(draw.number(0, 9)))

    def render(sentence: MarkedSentence) -> str:
        target = draw.text()
        return sentence.render(target, draw.alignment(sentence.text, target))

    result = translated(text, PLAIN, render, draw.spans)
    for point in POINTS:
        assert result.count(point.strip()) == text.count(point.strip())


@settings(max_examples=300, deadline=None)
@given(dice, ANYTHING, st.sampled_from(["text", "html"]))
def test_untranslated_text_is_reproduced_to_the_byte(draw, text, kind) -> None:
    parsed = parse(text, Markup(kind, ignore_tags=frozenset({"a"})))
    raws = raw_runs(parsed)
    assert woven(parsed.between, raws) == text
    for run, raw in zip(parsed.runs, raws, strict=True):
        cut = run.cut(draw.spans(run.text))
        assert woven(cut.separators, [sentence.raw for sentence in cut.sentences]) == raw


@settings(max_examples=300, deadline=None)
@given(dice, st.text("ab .,\n\t\u00a0\u3042", min_size=1))
def test_sentences_of_text_without_marks_are_its_parts(draw, text) -> None:
    assume(not find(text))
    parsed = parse(text)
    assert "".join([*parsed.between, *(run.text for run in parsed.runs)]) == text
    for run in parsed.runs:
        spans = draw.spans(run.text)
        assert run.cut(spans) == run._cut_marked(spans)
        for (start, end), sentence in zip(spans, run.cut(spans).sentences, strict=True):
            assert (sentence.text, sentence.raw, sentence.marks) == (text[start:end],) * 2 + ((),)


@settings(max_examples=300, deadline=None)
@given(dice, ANYTHING)
def test_no_tag_soup_loses_a_mark(draw, text) -> None:
    def render(sentence: MarkedSentence) -> str:
        target = draw.text()
        result = sentence.render(target, draw.alignment(sentence.text, target))
        for raw, count in Counter(mark.raw for mark in sentence.marks).items():
            assert result.count(raw) >= count
        return result

    translated(text, Markup("html"), render, draw.spans)
