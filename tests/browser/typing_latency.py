"""Measures translation while a text is typed: ``python -m tests.browser.typing_latency [ROUNDS]``.

Not a test: times differ between machines. Types a paragraph at 70 ms a key into the page of a
service that keeps no results. Prints the milliseconds from the end of the first sentence to its
first words, and from the last key of each sentence to its translation. Needs Playwright and a
browser.
"""

from __future__ import annotations

import re
import statistics
import sys

from benchmarks.server import serving
from tests.browser.support import ARGUMENTS, Visit, browser_path, sync_api
from tests.support.programs import ROOT

TEXT = (
    "Wir danken für Ihre Nachricht von gestern. Der Termin ist am Montag um neun Uhr. "
    "Bitte bringen Sie alle Unterlagen mit. Bis bald!"
)
KEY_MILLISECONDS = 70
ROUNDS = 5
WATCH = """() => {
    const source = document.getElementById("source-text");
    const target = document.getElementById("target-text");
    window.keys = [];
    window.shown = [];
    source.addEventListener("input", () => keys.push([performance.now(), source.value]));
    const note = () => shown.push([performance.now(), target.textContent]);
    const watched = { childList: true, characterData: true, subtree: true };
    new MutationObserver(note).observe(target, watched);
}"""
Noted = list[tuple[float, str]]


def typed(browser: sync_api.Browser, url: str) -> tuple[float, list[float]]:
    """Milliseconds to the first words of the first sentence, and to each whole sentence."""
    context = browser.new_context()
    visit = Visit(context.new_page(), f"{url}/")
    visit.open("#source=de&target=en&text=")
    visit.page.evaluate(WATCH)
    for letter in TEXT:
        visit.page.keyboard.type(letter)
        visit.page.wait_for_timeout(KEY_MILLISECONDS)
    sync_api.expect(visit.find("#target-text")).to_have_attribute("aria-busy", "false")
    keys, shown = visit.page.evaluate("[keys, shown]")
    context.close()
    ends = [match.end() for match in re.finditer(r"[.!]", TEXT)]
    pressed = [at for at, text in keys if len(text) in ends]
    sentences = shown[-1][1].split(". ")
    first = next(at for at, text in shown if at > pressed[0] and text)
    return first - pressed[0], [
        _when(shown, at, ". ".join(sentences[: number + 1])) - at
        for number, at in enumerate(pressed)
    ]


def _when(shown: Noted, after: float, beginning: str) -> float:
    """The time from which the translation begins with this, or ``after`` if it did before."""
    since = after
    for at, text in reversed(shown):
        if not text.startswith(beginning):
            break
        since = at
    return max(since, after)


def main(rounds: int = ROUNDS) -> None:
    with serving(ROOT / "bundles") as (url, _), sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=ARGUMENTS)
        found = [typed(browser, url) for _ in range(rounds)]
        browser.close()
    first = [one for one, _ in found]
    sentences = sorted(each for _, times in found for each in times)
    print(f"{len(TEXT)} characters, {rounds} rounds, {len(sentences)} sentences")
    print(f"first words: median {statistics.median(first):.0f} ms, most {max(first):.0f} ms")
    p95 = statistics.quantiles(sentences, n=20, method="inclusive")[-1]
    print(f"sentences: median {statistics.median(sentences):.0f} ms, p95 {p95:.0f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
