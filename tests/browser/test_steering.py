"""Tests of steering the translation on the page: likely words, editing, undo, sentence marks."""

from __future__ import annotations

import json

import pytest

from tests.browser.support import TEXT, TWO_SENTENCES, Visit, Visitor, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow


def open_words(visit: Visit, word: str) -> None:
    visit.click_at(word)
    expect(visit.find(".likely").first).to_be_visible()


def test_word_chosen_by_mouse_is_marked_and_the_rest_follows(visit: Visit) -> None:
    before = visit.translated()
    open_words(visit, "playing")
    query = visit.requests_to("/alternatives")[-1].post_data_json
    assert query["position"] == before.index("playing")
    response = visit.page.request.post(f"{visit.address}alternatives", data=query)
    alternatives = response.json()["alternatives"]
    options = visit.find(".likely")
    assert [option.get_attribute("data-word") for option in options.all()] == [
        each["word"] for each in alternatives
    ]
    shares = [each["probability"] for each in alternatives]
    widths = options.evaluate_all(
        "all => all.map((e) => e.querySelector('.bar').offsetWidth / e.offsetWidth)"
    )
    assert widths == pytest.approx(shares, abs=0.02)
    # Below, words are often fragments.
    assert min(shares) >= 0.02
    assert options.locator(".quiet").all_inner_texts() == [
        f"{round(share * 100)} %" for share in shares
    ]
    other = next(i for i, each in enumerate(alternatives) if each["word"] != "playing")
    options.nth(other).click()
    expect(visit.find("#target-text")).to_have_text(alternatives[other]["translation"])
    assert visit.marked("chosen") == [alternatives[other]["word"]]
    expect(visit.find("#likely-words")).to_be_hidden()

    visit.find("#undo").click()
    expect(visit.find("#target-text")).to_have_text(before)
    assert visit.marked("chosen") == []
    visit.find("#redo").click()
    expect(visit.find("#target-text")).to_have_text(alternatives[other]["translation"])
    assert visit.marked("chosen") == [alternatives[other]["word"]]


def test_word_without_another_likely_one_is_said_to_be_so(visit: Visit) -> None:
    before = visit.translated()
    only = {"word": "playing", "probability": 0.99, "translation": before}
    visit.page.route("**/alternatives", lambda route: route.fulfill(json={"alternatives": [only]}))
    visit.click_at("playing")
    expect(visit.find("#likely-words")).to_have_text("No other word is likely here.")


def test_word_is_chosen_undone_and_redone_by_keyboard(visit: Visit) -> None:
    before = visit.translated()
    keyboard = visit.page.keyboard
    visit.find("#target-text").press("Control+Home")
    for _ in before[: before.index("men") + 3].split():
        keyboard.press("Control+ArrowRight")
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
    assert visit.marked("chosen") == [word]
    expect(visit.find("#target-text")).to_be_focused()
    keyboard.press("Control+z")
    expect(visit.find("#target-text")).to_have_text(before)
    keyboard.press("Control+Shift+z")
    expect(visit.find("#target-text")).not_to_have_text(before)
    keyboard.press("Alt+ArrowDown")
    expect(visit.find(".likely").first).to_be_visible()
    keyboard.press("Escape")
    expect(visit.find("#likely-words")).to_be_hidden()


def test_own_words_stay_until_something_replaces_them(visit: Visit) -> None:
    visit.translated()
    target = visit.find("#target-text")
    target.press("End")
    target.press_sequentially(" So!")
    expect(target).to_contain_text("So!")
    target.press("Control+y")
    visit.page.evaluate("location.hash = 'source-text'")
    # AltGr and S type ś.
    visit.find("#source-text").dispatch_event(
        "keydown", {"key": "ś", "code": "KeyS", "altKey": True, "ctrlKey": True}
    )
    expect(target).to_contain_text("So!")
    expect(visit.find("#source-language")).to_have_value("de")
    visit.page.evaluate("location.hash = 'source=de&target=en&text=Ein+Hund.'")
    expect(target).to_contain_text("dog")
    visit.find("#undo").click()
    expect(target).to_contain_text("So!")


def test_leaving_the_translation_right_after_typing_is_no_error(visit: Visit) -> None:
    visit.pause_clock()
    visit.translated()
    visit.find("#target-text").press("End")
    visit.page.keyboard.type(" So")
    visit.page.evaluate("getSelection().removeAllRanges()")
    visit.page.clock.run_for(400)
    expect(visit.find("#target-text")).to_contain_text("So")


def test_edited_translation_is_copied_and_undone_and_refusals_are_shown(visitor: Visitor) -> None:
    visit = visitor(permissions=["clipboard-read", "clipboard-write"])
    visit.pause_clock()
    before = visit.translated()
    target = visit.find("#target-text")
    visit.refuse("translate", status=400, json={"error": "the prefix is too long"})
    target.press("Control+Home")
    visit.page.keyboard.type("Yes: ")
    visit.page.clock.run_for(400)
    expect(visit.find("#hint")).to_contain_text("not continued: the prefix is too long")
    expect(target).to_have_js_property("textContent", f"Yes: {before}")
    visit.find("#copy").click()
    expect(visit.find("#copy")).to_have_text("Copied")
    assert visit.page.evaluate("navigator.clipboard.readText()") == f"Yes: {before}"
    target.press("Control+z")
    expect(target).to_have_js_property("textContent", before)
    visit.find("#copy").click()
    visit.page.wait_for_function(
        "before => navigator.clipboard.readText().then((text) => text === before)", arg=before
    )
    visit.refuse("alternatives", status=503, json={"error": "the server is full"})
    target.press("Alt+ArrowDown")
    expect(visit.find("#likely-words")).to_contain_text("the server is full")


def test_typing_into_the_translation_continues_its_sentence(visit: Visit) -> None:
    visit.pause_clock()
    before = visit.translated(TWO_SENTENCES)
    second = before.split(". ")[1]
    visit.find("#target-text").press("Control+Home")
    expect(visit.find("#alternatives-place")).to_have_text("sentence 1 of 2")
    with visit.page.expect_request(lambda r: "prefix" in (r.post_data or "")) as sent:
        visit.page.keyboard.type("Several ")
        visit.page.clock.run_for(400)
    fields = sent.value.post_data_json
    assert fields["prefix"] == "Several "
    assert fields["q"] == TEXT
    answer = visit.page.request.post(f"{visit.address}translate", data=fields).json()
    expected = f"{answer['translatedText']} {second}"
    expect(visit.find("#target-text")).to_have_js_property("textContent", expected)
    assert visit.marked("chosen") == ["Several "]
    visit.page.keyboard.press("Control+z")
    expect(visit.find("#target-text")).to_have_js_property("textContent", before)


def test_deletion_in_the_translation_is_not_written_again(visit: Visit) -> None:
    visit.pause_clock()
    before = visit.translated()
    visit.find("#target-text").press("Control+End")
    visit.page.keyboard.press("Backspace")
    visit.page.clock.run_for(800)
    expect(visit.find("#target-text")).to_have_js_property("textContent", before[:-1])


def test_doubtful_words_are_underlined_once_switched_on(visit: Visit) -> None:
    translation = "Two 😀 young men."
    spans = {"Two": (0, 3, 0.1), "😀": (4, 5, 0.9), "young": (6, 11, 0.19), "men": (12, 15, 0.2)}
    words = [
        {"start": start, "end": end, "probability": probability, "entropy": 1.0}
        for start, end, probability in spans.values()
    ]
    answer = {"translatedText": translation, "model": "m", "truncated": False}
    body = json.dumps(answer | {"confidence": {"words": words}})
    visit.page.route(
        "**/translate", lambda route: route.fulfill(body=body, content_type="application/json")
    )
    visit.translated("Zwei junge Männer.")
    assert "confidence" not in visit.requests_to("/translate")[-1].post_data_json
    assert visit.marked("doubtful") == []
    switch = visit.find("#doubts")
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    assert visit.marked("doubtful") == ["Two", "young"]
    visit.page.reload()
    expect(visit.find("#doubts")).to_have_attribute("aria-pressed", "true")


def test_words_of_low_probability_in_the_services_answer_are_underlined(visit: Visit) -> None:
    text = "Zwei junge Männer spielen Fußball auf einer Wiese mit einem struppigen Geräteschuppen."
    translation = visit.translated(text)
    with visit.page.expect_response("**/translate"):
        visit.find("#doubts").click()
    expect(visit.find("#doubts")).to_be_enabled()
    found = visit.requests_to("/translate")[-1].response().json()["confidence"]["words"]
    low = [word for word in found if word["probability"] < 0.2]
    assert visit.marked("doubtful") == [translation[w["start"] : w["end"]] for w in low]
    assert 0 < len(low) < len(found)
