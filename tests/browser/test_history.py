"""Tests of the page's history, and of reading texts aloud."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.support import TEXT, TWO_SENTENCES, VOICES, Visit, Visitor, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow
START = "#source=de&target=en&text="


def rest(visit: Visit) -> None:
    """Let the time pass after which a text is kept."""
    expect(visit.find("#target-text")).not_to_be_empty()
    expect(visit.find("#target-text")).to_have_attribute("aria-busy", "false")
    visit.page.clock.run_for(2000)


def stored(visit: Visit) -> list[dict[str, Any]]:
    found: str | None = visit.page.evaluate("localStorage.getItem('dragoman.history')")
    entries: list[dict[str, Any]] = visit.page.evaluate("JSON.parse", found) if found else []
    return entries


@pytest.mark.parametrize("width", [390, 1280])
def test_texts_are_kept_and_translated_again_by_keyboard_and_pointer(
    visitor: Visitor, width: int
) -> None:
    visit = visitor(viewport={"width": width, "height": 800})
    visit.pause_clock()
    visit.open(START)
    for text in ("Ein Hund", TEXT, TWO_SENTENCES):
        visit.find("#source-text").fill(text)
        visit.find("#source-text").press("Control+Enter")
        rest(visit)
    assert [entry["text"] for entry in stored(visit)] == [TWO_SENTENCES, "Ein Hund"]
    visit.find("#history-button").click()
    items = visit.find("#history-list li")
    expect(items).to_have_count(2)
    items.last.get_by_role("button").first.press("Enter")
    expect(visit.find("#source-text")).to_have_value("Ein Hund")
    expect(visit.find("#source-text")).to_be_focused()
    expect(visit.find("#target-text")).to_have_text("A dog")
    visit.page.get_by_label("Remove “Ein Hund” from the history").click()
    expect(items).to_have_count(1)
    items.first.get_by_role("button").first.click()
    expect(visit.find("#source-text")).to_have_value(TWO_SENTENCES)
    visit.find("#undo").click()
    expect(visit.find("#source-text")).to_have_value("Ein Hund")
    visit.find("#history-clear").click()
    expect(items).to_have_count(0)
    expect(visit.find("#history-empty")).to_be_visible()
    assert stored(visit) == []


def test_own_translation_is_kept_and_shown_again(visit: Visit) -> None:
    visit.pause_clock()
    visit.open(START + "Ein Hund.")
    rest(visit)
    visit.find("#target-text").fill("My words.")
    rest(visit)
    visit.page.reload()
    rest(visit)
    expect(visit.find("#target-text")).to_contain_text("dog")
    assert [each["translation"] for each in stored(visit)] == ["My words."]
    visit.find("#history-button").click()
    visit.find("#history-list button").first.click()
    expect(visit.find("#target-text")).to_have_text("My words.")
    # A text that begins like a former one is another text.
    for text in ("Eine Katze und ein Hund.", "", "Eine"):
        visit.find("#source-text").fill(text)
        if text:
            visit.find("#source-text").press("Control+Enter")
            rest(visit)
    visit.page.locator("#history-list button", has_text="Eine Katze").first.click()
    rest(visit)
    assert [each["text"] for each in stored(visit)] == [
        "Eine Katze und ein Hund.",
        "Eine",
        "Ein Hund.",
    ]


def test_history_that_is_switched_off_is_deleted_and_stays_off(visit: Visit) -> None:
    visit.pause_clock()
    visit.open(START + TEXT)
    rest(visit)
    assert len(stored(visit)) == 1
    other = Visit(visit.page.context.new_page(), visit.address)
    other.pause_clock()
    other.open(START + "Ein Hund.")
    visit.find("#history-button").click()
    visit.find("#settings-button").click()
    visit.find("#setting-keepHistory").uncheck()
    expect(visit.find("#history")).to_be_hidden()
    expect(visit.find("#history-button")).to_be_hidden()
    assert stored(visit) == []
    expect(other.find("#history-button")).to_be_hidden()
    rest(other)
    assert stored(visit) == []
    visit.page.reload()
    rest(visit)
    assert stored(visit) == []


def test_texts_are_read_aloud_by_voices_of_the_device_only(visit: Visit) -> None:
    visit.page.add_init_script(VOICES)
    visit.open(START)
    source, target = visit.find("#speak-source"), visit.find("#speak-target")
    expect(source).to_be_hidden()
    visit.find("#source-text").fill(TWO_SENTENCES)
    expect(target).to_be_visible()
    source.click()
    expect(source).to_have_attribute("aria-pressed", "true")
    spoken = "spoken.map(({ text, lang }) => [text, lang])"
    assert visit.page.evaluate(spoken) == [
        [TEXT, "de-AT"],
        [TWO_SENTENCES.removeprefix(f"{TEXT} "), "de-AT"],
    ]
    target.press("Enter")
    expect(source).to_have_attribute("aria-pressed", "false")
    said = visit.page.evaluate(spoken)
    assert " ".join(text for text, _ in said) == visit.find("#target-text").inner_text()
    assert {lang for _, lang in said} == {"en_US"}
    visit.page.evaluate("spoken.at(-1).dispatchEvent(new Event('end'))")
    expect(target).to_have_attribute("aria-pressed", "false")
    source.click()
    visit.find("#source-text").fill("Etwas anderes.")
    expect(source).to_have_attribute("aria-pressed", "false")
    assert visit.page.evaluate(spoken) == []


def test_without_a_voice_of_the_language_nothing_is_read_aloud(visit: Visit) -> None:
    visit.page.add_init_script(VOICES.replace('"de-AT", true', '"de-AT", false'))
    visit.open(START + TEXT)
    expect(visit.find("#speak-target")).to_be_visible()
    expect(visit.find("#speak-source")).to_be_hidden()
