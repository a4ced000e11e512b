"""Tests of the page of a service with eighteen languages, by a model in the form of Firefox's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.server import serving
from models.bundle.manifest import Direction
from tests.browser.support import LAYOUTS, Visit, Visitor, laid_out, sync_api
from tests.support.networks import NETWORKS, random_network, write_bundle

expect = sync_api.expect
pytestmark = pytest.mark.slow

OTHERS = ("ar", "cs", "de", "es", "fa", "fr", "he", "hi", "it")
OTHERS += ("ja", "ko", "nl", "pl", "ru", "tr", "uk", "zh")
ARABIC = "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق."


@pytest.fixture(scope="module")
def address(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("bundles")
    pairs = [pair for other in OTHERS for pair in (("en", other), (other, "en"))]
    directions = tuple(Direction(source=source, target=target) for source, target in pairs)
    write_bundle(random_network(NETWORKS["ssru"]), folder / "many", directions=directions)
    with serving(folder) as (url, _):
        yield f"{url}/"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_languages_are_found_by_keyboard_and_fit_the_page(visitor: Visitor, layout: Any) -> None:
    visit = laid_out(visitor, layout)
    visit.open("#source=en&target=de&text=w1+w2")
    for typed, code in (("jap", "ja"), ("francais", "fr"), ("chin", "zh-Hans")):
        visit.find("#target-search").press_sequentially(typed)
        visit.page.keyboard.press("Enter")
        expect(visit.find("#target-language")).to_have_value(code)
        expect(visit.find("#target-text")).to_have_attribute("lang", code)
    expect(visit.find("#source-language")).to_have_value("en")
    names = visit.find("#target-language option").all_inner_texts()
    assert len(names) == len(OTHERS)
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_arabic_is_written_from_right_to_left(visit: Visit) -> None:
    visit.open("#source=ar&target=en&text=")
    visit.find("#source-text").fill(ARABIC)
    expect(visit.find("#target-text")).not_to_be_empty()
    visit.find("#swap").click()
    visit.find("#source-text").fill("w1 w2 w3")
    for side in ("source", "target"):
        expect(visit.find(f"#{side}-text")).to_have_css("direction", "ltr")
    visit.refuse("translate", status=200, json={"translatedText": ARABIC})
    visit.find("#source-text").fill("w4 w5")
    expect(visit.find("#target-text")).to_have_css("direction", "rtl")
    visit.find("#source-text").fill(ARABIC)
    expect(visit.find("#source-text")).to_have_css("direction", "rtl")
