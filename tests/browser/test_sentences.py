"""Tests of sentences on the page: marks, the chosen one, its alternatives and its attention."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.support import TEXT, TWO_SENTENCES, Visit, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow
SECOND = TWO_SENTENCES.removeprefix(f"{TEXT} ")
LONG = " ".join([TEXT, SECOND, "Ein Hund schläft.", "Ein Mann trägt einen Hut."] * 8)


def alternatives_of(visit: Visit, text: str) -> list[str]:
    fields = {"q": text, "source": "de", "target": "en", "alternatives": 3}
    answer = visit.page.request.post(f"{visit.address}translate", data=fields).json()
    return [answer["translatedText"], *answer["alternatives"]]


def test_sentence_under_the_pointer_is_marked_in_both_texts(visit: Visit) -> None:
    translation = visit.translated(TWO_SENTENCES)
    first = TWO_SENTENCES.split(". ")[0]
    place: dict[str, Any] = {"x": 60, "y": 32}
    for step in range(50):
        visit.find("#target-text").hover(position={**place, "x": place["x"] + step % 2})
        if marks := visit.marked("sentence"):
            break
        visit.page.wait_for_timeout(100)
    assert marks == [f"{first}.", f"{translation.split('. ')[0]}."]
    visit.find("#why").click()
    expect(visit.find("#heat-map")).to_be_visible()
    visit.find("#source-text").click(position={"x": 300, "y": 65})
    expect(visit.find("#sentence")).to_have_value("1")


def test_sentence_at_the_caret_is_chosen_and_stays_so_when_edited(visit: Visit) -> None:
    visit.explain(TWO_SENTENCES)
    source = visit.find("#source-text")
    visit.find("#target-text").press("Control+End")
    expect(visit.find("#sentence")).to_have_value("1")
    source.press("Control+Home")
    expect(visit.find("#sentence")).to_have_value("0")
    source.focus()
    visit.page.keyboard.press("Control+Home")
    visit.page.keyboard.type("Ein Kind lacht. ")
    expect(visit.find("#sentence option")).to_have_count(3)
    visit.page.keyboard.press("Control+End")
    expect(visit.find("#sentence")).to_have_value("2")
    visit.page.keyboard.press("Backspace")
    visit.page.keyboard.type("!")
    expect(visit.find("#attention-body")).to_have_attribute("aria-busy", "false")
    expect(visit.find("#source-words")).to_contain_text("Hund!")
    expect(visit.find("#sentence")).to_have_value("2")


def test_alternatives_are_not_shown_for_another_sentence_while_its_own_are_awaited(
    visit: Visit,
) -> None:
    visit.translated(TWO_SENTENCES)
    visit.list_alternatives()
    visit.page.route("**/translate", lambda _: None)
    visit.click_at("woman")
    expect(visit.find("#alternatives-place")).to_have_text("sentence 2 of 2")
    assert visit.find("#alternative-list button").count() == 0


def test_alternatives_of_a_long_text_are_those_of_one_sentence(visit: Visit) -> None:
    before = visit.translated(LONG)
    visit.list_alternatives()
    second = alternatives_of(visit, SECOND)
    visit.click_at(second[0])
    expect(visit.find("#alternatives-place")).to_have_text("sentence 2 of 32")
    buttons = visit.find("#alternative-list button")
    expect(buttons).to_have_text(second[1:])
    marks = buttons.first.locator("mark")
    expect(marks).to_have_count(1)
    assert marks.inner_text() in second[1]
    assert marks.inner_text() not in second[0]

    buttons.first.click()
    after = before.replace(second[0], second[1], 1)
    expect(visit.find("#target-text")).to_have_js_property("textContent", after)
    expect(buttons.first).to_have_text(second[0])
    visit.find("#undo").click()
    expect(visit.find("#target-text")).to_have_js_property("textContent", before)


def test_changed_translation_has_a_map_of_each_sentence(visit: Visit) -> None:
    visit.explain(TWO_SENTENCES)
    visit.find("#alternatives summary").click()
    visit.find("#target-text").press("Control+End")
    expect(visit.find("#alternatives-place")).to_have_text("sentence 2 of 2")
    expected = alternatives_of(visit, SECOND)[1]
    visit.find("#alternative-list button").first.click()
    expect(visit.find("#target-words")).to_have_text(expected)
    expect(visit.find("#attention-body")).to_have_attribute("aria-busy", "false")
    fields = visit.requests_to("/attention")[-1].post_data_json
    assert (fields["source_text"], fields["target_text"]) == (SECOND, expected)
    expect(visit.find("#attention-note")).to_be_empty()
    visit.find("#sentence").select_option("0")
    expect(visit.find("#source-words")).to_have_text(TEXT)


def test_translation_changed_before_the_panel_opens_has_a_map_of_each(visit: Visit) -> None:
    before = visit.translated(TWO_SENTENCES)
    visit.find("#target-text").press("Control+End")
    visit.page.keyboard.press("Backspace")
    expect(visit.find("#target-text")).to_have_js_property("textContent", before[:-1])
    visit.find("#why").click()
    expect(visit.find("#sentence option")).to_have_count(2)
    # Sentences within which it is changed are read as one.
    visit.find("#target-text").fill(before.replace(". A ", ", and a "))
    expect(visit.find("#source-words")).to_have_text(TWO_SENTENCES)


def test_spans_of_sentences_follow_any_change(visit: Visit) -> None:
    """Whatever is replaced, the other sentences keep their texts, and the order is kept."""
    visit.open()
    broken = visit.page.evaluate(
        """async () => {
            const { carried } = await import("./static/spans.js");
            const before = "One two. Three four. Five six. Seven.";
            const sentences = [[0, 8], [9, 20], [21, 30], [31, 37]]
                .map(([start, end]) => ({ source: { start, end }, target: { start, end } }));
            const text = (of, { start, end }) => of.slice(start, end);
            const inOrder = (found, most) => found.every(({ target }, i) =>
                (found[i - 1]?.target.end ?? 0) <= target.start && target.end <= most);
            const broken = [];
            const check = (start, end, written) => {
                const after = before.slice(0, start) + written + before.slice(end);
                const found = carried(sentences, before, after);
                const apart = ({ target }) => target.end < start || target.start > end;
                const kept = sentences.filter(apart)
                    .every(({ source, target }) => found.some((each) =>
                        each.source.start === source.start && each.source.end === source.end
                        && text(after, each.target) === text(before, target)));
                if (!kept || !inOrder(found, after.length)) broken.push([start, end, written]);
            };
            for (let start = 0; start <= before.length; start += 1) {
                for (let end = start; end <= before.length; end += 1) {
                    ["", "x", "One. Two", "Ten."].forEach((written) => check(start, end, written));
                }
            }
            return broken;
        }"""
    )
    assert broken == []
