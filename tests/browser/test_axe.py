"""Tests of the page with axe-core, an accessibility checker from npm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser.support import LAYOUTS, TWO_SENTENCES, VOICES, Visit, Visitor, laid_out, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow
VERSION = "4.14.1"
RULES = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
        .map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
}"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core; skips the test without npm or its registry."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("axe-core comes from npm, which is not installed")
    directory = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--prefix", str(directory), "--no-audit", "--no-fund"]
    done = subprocess.run(
        [*command, f"axe-core@{VERSION}"], check=False, capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        pytest.skip(f"npm cannot install axe-core: {done.stderr.strip().splitlines()[-1]}")
    return Path(directory, "node_modules", "axe-core", "axe.min.js").read_text(encoding="utf-8")


def serious(visit: Visit, axe: str) -> list[Any]:
    visit.page.evaluate(f"() => {{ {axe} }}")
    found: list[Any] = visit.page.evaluate(RULES)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark"},
        {"forced_colors": "active"},
        {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
    ],
    ids=["light", "dark", "forced colours", "phone"],
)
def test_axe_finds_nothing_serious(visitor: Visitor, axe: str, options: dict[str, Any]) -> None:
    visit = visitor(reduced_motion="reduce", **options)
    visit.open()
    assert serious(visit, axe) == []
    visit.explain(TWO_SENTENCES)
    visit.list_alternatives()
    visit.find("#numbers-button").click()
    expect(visit.find("#heads .head").first).to_be_visible()
    expect(visit.find("#attention-body")).to_have_attribute("aria-busy", "false")
    visit.find("#target-words .word").nth(1).hover()
    assert serious(visit, axe) == []
    visit.show("lines")
    expect(visit.find("#lines")).to_be_visible()
    assert serious(visit, axe) == []
    visit.show("search")
    expect(visit.find("#tree .node").first).to_be_visible()
    assert serious(visit, axe) == []
    words = [
        {"word": word, "probability": 0.4, "translation": TWO_SENTENCES}
        for word in ("playing", "enjoying")
    ]
    visit.page.route("**/alternatives", lambda route: route.fulfill(json={"alternatives": words}))
    visit.find("#target-text").press("Alt+ArrowDown")
    expect(visit.find(".likely").first).to_be_visible()
    assert serious(visit, axe) == []
    visit.page.keyboard.press("Escape")
    visit.find("#glossary-button").click()
    visit.find("#glossary-rows input").first.fill("Wiese")
    assert serious(visit, axe) == []
    assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_axe_finds_nothing_serious_in_what_surrounds_the_translation(
    visitor: Visitor, axe: str, layout: tuple[str, str, int]
) -> None:
    _, direction, width = layout
    visit = laid_out(visitor, layout, reduced_motion="reduce")
    visit.page.add_init_script(VOICES)
    visit.page.route("**/translate_file", lambda route: None)
    visit.offer_two_models()
    visit.open("#source=de&target=en&text=" + TWO_SENTENCES)
    expect(visit.find("#speak-target")).to_be_visible()
    expect(visit.find("#model")).to_be_visible()
    visit.list_alternatives()
    visit.find("#doubts").click()
    visit.find("#history-button").click()
    # Texts are kept after a rest.
    expect(visit.find("#history-list li")).to_have_count(1)
    visit.find("#settings-button").click()
    visit.find("#setting-live").uncheck()
    assert serious(visit, axe) == []
    visit.page.keyboard.press("Escape")
    files = [{"name": f"{n}.txt", "mimeType": "text/plain", "buffer": b"Ein Hund."} for n in "ab"]
    visit.find("#file-input").set_input_files(files)
    expect(visit.find("#files-progress")).to_be_visible()
    visit.refuse("sentences", status=429, json={"error": "slow"}, headers={"retry-after": "60"})
    visit.find("#source-text").fill("Ein Hund schläft.")
    visit.find("#translate").click()
    expect(visit.find("#problem")).to_be_visible()
    assert serious(visit, axe) == []
    assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    texts = [visit.find(f"#{side}-text").bounding_box()["x"] for side in ("source", "target")]
    if width > 700:
        assert (texts[0] < texts[1]) == (direction == "ltr")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_documentation_of_the_api(
    visitor: Visitor, axe: str, scheme: str
) -> None:
    visit = visitor(color_scheme=scheme, reduced_motion="reduce")
    visit.page.goto(f"{visit.address}docs")
    expect(visit.find("#operations-translation-translate_translate_post")).to_be_visible()
    assert visit.find("html").get_attribute("lang") == "en"
    assert visit.find("html.dark-mode").count() == (scheme == "dark")
    assert serious(visit, axe) == []
    operation = visit.find("#operations-translation-translate_translate_post")
    operation.locator(".opblock-summary-control").click()
    operation.locator(".try-out__btn").click()
    operation.locator(".execute").click()
    expect(operation.locator(".live-responses-table")).to_contain_text("translatedText")
    assert serious(visit, axe) == []


def test_a_narrow_page_does_not_scroll_sideways(visitor: Visitor) -> None:
    visit = visitor(viewport={"width": 320, "height": 640})
    visit.open()
    visit.find("#source-text").fill(TWO_SENTENCES)
    expect(visit.find("#target-text")).not_to_be_empty()
    width = visit.page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= 320
