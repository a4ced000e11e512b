"""Tests of steering the translation on the page: likely words, editing, undo, sentence marks."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.browser.support import TEXT, TWO_SENTENCES, Visit, Visitor, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow


def translated(visit: Visit, text: str = TEXT) -> str:
    """Open the page with a translation that can be steered, and return it."""
    visit.open(f"#source=de&target=en&text={text}")
    expect(visit.find("#target-text")).to_have_attribute("contenteditable", "plaintext-only")
    return visit.find("#target-text").inner_text()


def marked(visit: Visit, name: str) -> list[str]:
    return visit.page.evaluate("n => [...CSS.highlights.get(n)].map(String)", name)


def click_word(visit: Visit, word: str) -> None:
    box = visit.find("#target-text").evaluate(
        """(e, word) => {
            const start = e.firstChild.data.indexOf(word);
            const range = document.createRange();
            range.setStart(e.firstChild, start);
            range.setEnd(e.firstChild, start + word.length);
            const { x, y, width, height } = range.getBoundingClientRect();
            return [x + width / 2, y + height / 2];
        }""",
        word,
    )
    visit.page.mouse.click(*box)
    expect(visit.find(".likely").first).to_be_visible()


def test_word_chosen_by_mouse_is_marked_and_the_rest_follows(visit: Visit) -> None:
    before = translated(visit)
    click_word(visit, "men")
    query = visit.requests_to("/alternatives")[-1].post_data_json
    assert query["position"] == before.index("men")
    response = visit.page.request.post(f"{visit.address}alternatives", data=query)
    alternatives = response.json()["alternatives"]
    options = visit.find(".likely")
    assert [option.get_attribute("data-word") for option in options.all()] == [
        each["word"] for each in alternatives
    ]
    widths = options.evaluate_all(
        "all => all.map((e) => e.querySelector('.bar').offsetWidth / e.offsetWidth)"
    )
    assert widths == pytest.approx([each["probability"] for each in alternatives], abs=0.02)
    other = next(i for i, each in enumerate(alternatives) if each["word"] != "men")
    options.nth(other).click()
    expect(visit.find("#target-text")).to_have_text(alternatives[other]["translation"])
    assert marked(visit, "chosen") == [alternatives[other]["word"]]
    expect(visit.find("#likely-words")).to_be_hidden()

    visit.find("#undo").click()
    expect(visit.find("#target-text")).to_have_text(before)
    assert marked(visit, "chosen") == []
    visit.find("#redo").click()
    expect(visit.find("#target-text")).to_have_text(alternatives[other]["translation"])
    assert marked(visit, "chosen") == [alternatives[other]["word"]]


def test_word_is_chosen_undone_and_redone_by_keyboard(visit: Visit) -> None:
    before = translated(visit)
    keyboard = visit.page.keyboard
    visit.find("#target-text").focus()
    keyboard.press("Control+Home")
    keyboard.press("Alt+ArrowDown")
    expect(visit.find(".likely").first).to_be_visible()
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    chosen = visit.find(".likely.active")
    word = chosen.get_attribute("data-word")
    assert word
    expect(visit.find("#target-text")).to_have_attribute(
        "aria-activedescendant", chosen.get_attribute("id") or ""
    )
    keyboard.press("Enter")
    expect(visit.find("#target-text")).not_to_have_text(before)
    assert marked(visit, "chosen") == [word]
    expect(visit.find("#target-text")).to_be_focused()
    keyboard.press("Control+z")
    expect(visit.find("#target-text")).to_have_text(before)
    keyboard.press("Control+Shift+z")
    expect(visit.find("#target-text")).not_to_have_text(before)
    keyboard.press("Alt+ArrowDown")
    expect(visit.find(".likely").first).to_be_visible()
    keyboard.press("Escape")
    expect(visit.find("#likely-words")).to_be_hidden()


def test_translation_can_be_edited_and_typing_is_undone_at_once(visitor: Visitor) -> None:
    visit = visitor(permissions=["clipboard-read", "clipboard-write"])
    before = translated(visit)
    visit.find("#target-text").focus()
    visit.page.keyboard.press("Control+Home")
    visit.page.keyboard.type("Yes: ")
    expect(visit.find("#target-text")).to_have_js_property("textContent", f"Yes: {before}")
    visit.find("#copy").click()
    expect(visit.find("#copy")).to_have_text("Copied")
    assert visit.page.evaluate("navigator.clipboard.readText()") == f"Yes: {before}"
    visit.find("#target-text").focus()
    visit.page.keyboard.press("Control+z")
    expect(visit.find("#target-text")).to_have_js_property("textContent", before)


def test_refusal_of_likely_words_is_shown_in_their_place(visit: Visit) -> None:
    translated(visit)
    body = json.dumps({"error": "the server is full"})
    visit.refuse("alternatives", status=503, body=body, content_type="application/json")
    visit.find("#target-text").focus()
    visit.page.keyboard.press("Alt+ArrowDown")
    expect(visit.find("#likely-words")).to_contain_text("the server is full")
    visit.forgive("503")


def test_sentence_under_the_pointer_is_marked_in_both_texts(visit: Visit) -> None:
    translation = translated(visit, TWO_SENTENCES)
    first = TWO_SENTENCES.split(". ")[0]
    place: dict[str, Any] = {"x": 60, "y": 32}
    with visit.page.expect_response("**/translations/*"):
        visit.find("#target-text").hover(position=place)
    for step in range(50):
        visit.find("#target-text").hover(position={**place, "x": place["x"] + step % 2})
        if marks := marked(visit, "sentence"):
            break
        visit.page.wait_for_timeout(100)
    assert marks == [f"{first}.", f"{translation.split('. ')[0]}."]
    visit.find("#why").click()
    expect(visit.find("#heat-map")).to_be_visible()
    visit.find("#source-text").click(position={"x": 300, "y": 65})
    expect(visit.find("#sentence")).to_have_value("1")


def test_time_from_choice_to_new_sentence_is_reported(visit: Visit) -> None:
    before = translated(visit)
    started = time.perf_counter()
    click_word(visit, "men")
    listed = time.perf_counter()
    visit.find(".likely").last.click()
    expect(visit.find("#target-text")).not_to_have_text(before)
    print(
        f"words after {listed - started:.3f} s, new text {time.perf_counter() - listed:.3f} s later"
    )
