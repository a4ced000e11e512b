"""Support of the web page tests: service, browser, and a page whose requests are recorded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the page is tested with playwright, which is not installed"
)

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first needs a third of the time for a page: it has no interface of its own."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
ANSWERS_WITHIN = 60
sync_api.expect.set_options(timeout=1000 * ANSWERS_WITHIN)
TEXT = "Zwei junge Männer spielen Fußball auf einer Wiese."
TWO_SENTENCES = TEXT + " Eine Frau in einem roten Mantel fotografiert ihren Hund."

LAYOUTS = [
    ("light", "ltr", 390),
    ("dark", "ltr", 1280),
    ("light", "rtl", 1280),
    ("dark", "rtl", 390),
]
"""Colour schemes, directions of the page, and widths."""

VOICES = """
    const voice = (lang, localService) => ({ lang, localService, default: false, name: lang });
    const voices = [voice("de-AT", true), voice("en_US", true), voice("en-GB", false)];
    speechSynthesis.getVoices = () => voices;
    window.SpeechSynthesisUtterance = class extends EventTarget {
        constructor(text) { super(); this.text = text; }
    };
    window.spoken = [];
    speechSynthesis.speak = (utterance) => { spoken.push(utterance); };
    speechSynthesis.cancel = () => { spoken.length = 0; };
"""
"""Script of a page with two voices of its device and one of a service. They record texts."""


def browser_path() -> str:
    """Path of a Chromium; skips the test if there is none."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"the page is tested in a browser, and there is none of {', '.join(BROWSERS)}")


@dataclass
class Visit:
    """A page and its requests. The test fails on requests to other hosts and on console errors."""

    page: Any
    address: str
    requests: list[Any] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    forgiven: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._record_message)

    def _record_message(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, fragment: str = "") -> None:
        self.page.goto(f"{self.address}{fragment}")
        sync_api.expect(self.find("#target-language")).to_be_enabled()

    def pause_clock(self) -> None:
        """Stop the page's timers before it is opened; ``page.clock.run_for`` lets time pass."""
        self.page.clock.install()
        self.page.clock.pause_at("2100-01-01")

    def find(self, selector: str) -> Any:
        return self.page.locator(selector)

    def offer_two_models(self, **other: Any) -> None:
        """Answer with two models, one of which exists; ``other`` are facts that the second has."""

        def more(route: Any) -> None:
            answer = route.fetch().json()
            answer["models"] += [{**answer["models"][0], "name": "other", **other}]
            route.fulfill(json=answer)

        self.page.route("**/models", more)

    def list_alternatives(self) -> None:
        """Open the list of alternatives, and wait for them."""
        self.find("#alternatives summary").click()
        sync_api.expect(self.find("#alternative-list button").first).to_be_visible()

    def requests_to(self, path: str) -> list[Any]:
        """The requests whose address contains ``path``."""
        return [request for request in self.requests if path in request.url]

    def answer(self, path: str, **options: Any) -> Any:
        """The server's answer to a request of the test itself."""
        response = self.page.request.get(f"{self.address}{path}", **options)
        assert response.ok, response.text()
        return response.json()

    def refuse(self, path: str, times: int = 1, **answer: Any) -> None:
        """Replace the answers to the page's next requests to ``path``."""
        self.page.route(f"**/{path}", lambda route: route.fulfill(**answer), times=times)
        if (status := answer.get("status", 200)) >= 400:
            self.forgive(str(status))

    def forgive(self, words: str) -> None:
        """Accept console errors that contain ``words``: browsers report each error answer."""
        self.forgiven.append(words)

    def explain(self, text: str = TEXT) -> None:
        """Translate from German to English, open the panel, and wait for its maps."""
        self.open(f"#source=de&target=en&text={text}")
        sync_api.expect(self.find("#target-text")).not_to_be_empty()
        self.find("#why").click()
        sync_api.expect(self.find("#attention-body")).to_be_visible()
        sync_api.expect(self.find("#attention-body")).to_have_attribute("aria-busy", "false")

    def show(self, view: str) -> None:
        """Choose a view of the panel: ``map``, ``lines`` or ``search``."""
        self.find(f"input[name=view][value={view}]").locator("..").click()

    def show_search(self, text: str = TEXT) -> dict[str, Any]:
        """Open the view of the search of the first sentence, and return the tree it shows."""
        self.explain(text)
        self.show("search")
        sync_api.expect(self.find("#attention-body")).to_have_attribute("aria-busy", "false")
        asked = self.requests_to("/search?")[-1].url
        search: dict[str, Any] = self.answer(asked.removeprefix(self.address))
        count = sum(len(step["candidates"]) for step in search["steps"])
        sync_api.expect(self.find("#tree .node")).to_have_count(count)
        return search

    def translated(self, text: str = TEXT) -> str:
        """Open the page with a translation that can be steered, and return it."""
        self.open(f"#source=de&target=en&text={text}")
        sync_api.expect(self.find("#target-text")).to_have_attribute(
            "contenteditable", "plaintext-only"
        )
        translation: str = self.find("#target-text").inner_text()
        return translation

    def marked(self, name: str) -> list[str]:
        """The texts that the highlight ``name`` marks."""
        texts: list[str] = self.page.evaluate("n => [...CSS.highlights.get(n)].map(String)", name)
        return texts

    def click_at(self, words: str) -> None:
        """Click in the middle of ``words`` of the translation."""
        x, y = self.find("#target-text").evaluate(
            """(e, words) => {
                const start = e.firstChild.data.indexOf(words);
                const range = document.createRange();
                range.setStart(e.firstChild, start);
                range.setEnd(e.firstChild, start + words.length);
                const { x, y, width, height } = range.getBoundingClientRect();
                return [x + width / 2, y + height / 2];
            }""",
            words,
        )
        self.page.mouse.click(x, y)

    def leave(self) -> None:
        elsewhere = [r.url for r in self.requests if not r.url.startswith((self.address, "blob:"))]
        assert not elsewhere, elsewhere
        complaints = [
            text for text in self.complaints if not any(words in text for words in self.forgiven)
        ]
        assert not complaints, complaints


Visitor = Callable[..., Visit]


def laid_out(visitor: Visitor, layout: tuple[str, str, int], **options: Any) -> Visit:
    """A visit in one of ``LAYOUTS``."""
    scheme, direction, width = layout
    size = {"width": width, "height": 800}
    visit = visitor(viewport=size, color_scheme=scheme, **options)
    visit.page.add_init_script(
        f"""addEventListener("DOMContentLoaded", () => {{
            document.documentElement.dir = "{direction}";
        }})"""
    )
    return visit
