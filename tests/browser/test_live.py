"""Tests of translation while a text is typed: what is decoded, what is shown, and the switch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.server import serving
from tests.browser.support import Visit, Visitor, sync_api
from tests.support.programs import ROOT

expect = sync_api.expect
pytestmark = pytest.mark.slow
START = "#source=de&target=en&text="
SENTENCES = ("Ein Hund schläft im Garten.", "Zwei Männer lesen ein Buch.", "Die Frau lacht.")
DECODED = re.compile(r"^nmt_finished_sentences_total\{.*\} (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def forgetful(browser: Any) -> Iterator[str]:
    """Address of a service that keeps no results, so that it decodes what it is asked for."""
    with serving(ROOT / "bundles", RESULT_MEGABYTES="0") as (url, _):
        yield f"{url}/"


def type_text(visit: Visit, text: str, milliseconds: int = 60) -> None:
    visit.find("#source-text").press_sequentially(text, delay=milliseconds)


def sent(visit: Visit) -> list[str]:
    """The texts that the page has sent to be translated."""
    found = []
    for request in visit.requests_to("/translate"):
        q = request.post_data_json["q"]
        found += [q] if isinstance(q, str) else q
    return found


def decoded(visit: Visit) -> int:
    metrics = visit.page.request.get(f"{visit.address}metrics").text()
    return sum(int(float(count)) for count in DECODED.findall(metrics))


def test_each_sentence_of_a_typed_text_is_decoded_once(visitor: Visitor, forgetful: str) -> None:
    visit = visitor(viewport={"width": 1280, "height": 900})
    visit.address = forgetful
    visit.open(START)
    before = decoded(visit)
    type_text(visit, " ".join(SENTENCES))
    expect(visit.find("#target-text")).to_contain_text("laughing")
    expect(visit.find("#target-text")).to_have_attribute("aria-busy", "false")
    texts = sent(visit)
    assert len(texts) == len(set(texts)), "a text is requested once"
    assert set(SENTENCES) <= set(texts)
    # A text that is typed on may be cancelled.
    at_first = decoded(visit)
    assert len(SENTENCES) <= at_first - before <= len(texts)
    # A change within the first sentence, and a new one before the last.
    first, second, last = SENTENCES
    changed = [first.replace("Hund", "Kater"), second, "Es regnet.", last]
    visit.find("#source-text").fill(" ".join(changed))
    expect(visit.find("#target-text")).to_contain_text("rain")
    assert sent(visit)[len(texts) :] == [changed[0], changed[2]]
    assert decoded(visit) == at_first + 2
    whole = visit.page.request.post(
        f"{visit.address}translate", data={"q": " ".join(changed), "source": "de", "target": "en"}
    )
    expect(visit.find("#target-text")).to_have_text(whole.json()["translatedText"])


def test_sentence_end_is_translated_at_once_and_other_text_after_an_interval(visit: Visit) -> None:
    visit.pause_clock()
    visit.open(START)
    clock = visit.page.clock
    type_text(visit, "Ein", 0)
    clock.run_for(250)
    expect(visit.find("#target-text")).not_to_be_empty()
    type_text(visit, " Hund schläft", 0)
    clock.run_for(600)
    assert sent(visit) == ["Ein"]
    type_text(visit, ".", 0)
    expect(visit.find("#target-text")).to_have_text(re.compile(r"\.$"))
    type_text(visit, " Ja..", 0)
    expect(visit.find("#target-text")).to_contain_text("Ye")
    clock.run_for(700)
    expect(visit.find("#target-text")).to_have_attribute("aria-busy", "false")
    assert sent(visit) == ["Ein", "Ein Hund schläft.", "Ja.", "Ja.."]


def test_translation_and_caret_stay_in_place_while_a_text_is_typed(visit: Visit) -> None:
    visit.open(START)
    type_text(visit, f"{SENTENCES[0]} ")
    expect(visit.find("#target-text")).to_contain_text(".")
    expect(visit.find("#target-text")).to_have_attribute("aria-busy", "false")
    visit.page.evaluate(
        """() => {
            window.seen = [];
            const box = document.getElementById("target-text");
            const watched = { childList: true, characterData: true, subtree: true };
            new MutationObserver(() => seen.push(box.textContent)).observe(box, watched);
        }"""
    )
    first = visit.find("#target-text").inner_text().strip()
    type_text(visit, SENTENCES[1])
    expect(visit.find("#target-text")).to_contain_text("book.")
    visit.find("#source-text").press("Control+Home")
    type_text(visit, "Ja")
    expect(visit.find("#target-text")).to_contain_text("Yes")
    caret = visit.find("#source-text").evaluate("e => [e.selectionStart, e.selectionEnd]")
    assert caret == [2, 2]
    seen = visit.page.evaluate("seen")
    assert all(text.strip() for text in seen), "the translation is never empty"
    assert all(text.startswith(first) for text in seen if "Yes" not in text and "book." not in text)


@pytest.mark.parametrize("by", ["keyboard", "pointer"])
def test_typing_translates_nothing_when_switched_off_and_the_choice_is_kept(
    visit: Visit, by: str
) -> None:
    visit.open(START)
    if by == "pointer":
        visit.find("#settings-button").click()
        visit.find("label:has(#setting-live)").click()
        visit.find("#settings-button").click()
    else:
        visit.find("#settings-button").press("Enter")
        visit.find("#setting-live").press("Space")
        visit.page.keyboard.press("Escape")
    expect(visit.find("#settings")).to_be_hidden()
    visit.page.reload()
    expect(visit.find("#target-language")).to_be_enabled()
    expect(visit.find("#setting-live")).not_to_be_checked()
    type_text(visit, SENTENCES[0], 0)
    visit.page.wait_for_timeout(1000)
    assert not visit.requests_to("/translate")
    if by == "pointer":
        visit.find("#translate").click()
    else:
        visit.find("#translate").press("Enter")
    expect(visit.find("#target-text")).not_to_be_empty()
    visit.find("#settings-button").click()
    visit.find("#setting-live").check()
    expect(visit.find("#translate")).to_be_hidden()
    type_text(visit, " Nein.", 0)
    expect(visit.find("#target-text")).to_contain_text("No")


def test_page_waits_after_a_rate_limit_and_keeps_the_translation_meanwhile(visit: Visit) -> None:
    visit.pause_clock()
    visit.open(START)
    type_text(visit, SENTENCES[0], 0)
    expect(visit.find("#target-text")).to_have_attribute("aria-busy", "false")
    shown = visit.find("#target-text").inner_text()
    assert shown
    headers = {"retry-after": "7"}
    visit.refuse("sentences", status=429, json={"error": "slow down"}, headers=headers)
    type_text(visit, f" {SENTENCES[1]}", 0)
    expect(visit.find("#problem [data-left]")).to_have_attribute("data-left", "7")
    before = len(visit.requests_to("/sentences"))
    type_text(visit, f" {SENTENCES[2]}", 0)
    visit.page.clock.run_for(3000)
    expect(visit.find("#target-text")).to_have_text(shown)
    assert len(visit.requests_to("/sentences")) == before
    visit.page.clock.run_for(4000)
    expect(visit.find("#target-text")).to_contain_text("laughing")
    expect(visit.find("#problem")).to_be_hidden()
