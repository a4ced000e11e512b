"""Tests of the view of the search: its tree step by step, and why a branch ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.support import TEXT, Visit, Visitor, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow

Search = dict[str, Any]
Candidate = dict[str, Any]


def candidates_of(search: Search) -> list[Candidate]:
    return [each for step in search["steps"] for each in step["candidates"]]


def path_of(search: Search) -> list[Candidate]:
    """The candidates that make the translation, in order."""
    every = {each["id"]: each for each in candidates_of(search)}
    path, identity = [], search["winner"]
    while identity:
        path.insert(0, every[identity])
        identity = every[identity]["parent"]
    return path


def test_path_of_the_winner_is_marked_and_the_slider_shows_the_tree_by_steps(visit: Visit) -> None:
    search = visit.show_search()
    expect(visit.find("#maps")).to_be_hidden()
    path = path_of(search)
    ids = visit.find("#tree .node.wins").evaluate_all("all => all.map((e) => +e.dataset.id)")
    assert ids == [each["id"] for each in path]
    assert "".join(each["piece"] for each in path).replace("▁", " ").removesuffix("</s>") == (
        " " + visit.find("#target-text").inner_text()
    )
    assert visit.find("#tree .node").nth(0).inner_text() == path[0]["piece"].lstrip("▁")
    expect(visit.find("#tree path.wins")).to_have_count(len(path) - 1)
    named = visit.find("#tree .node").evaluate_all(
        "all => all.filter((e) => e.ariaLabel.includes('way to the translation')).length"
    )
    assert named == len(path)
    slider, sizes = (
        visit.find("#search-step"),
        [len(each["candidates"]) for each in search["steps"]],
    )
    # The candidates of the first step continue nothing.
    expect(visit.find("#tree path")).to_have_count(sum(sizes[1:]))
    slider.focus()
    for key, steps in (("ArrowLeft", len(sizes) - 1), ("Home", 1), ("ArrowRight", 2)):
        visit.page.keyboard.press(key)
        expect(visit.find("#tree .node:visible")).to_have_count(sum(sizes[:steps]))
        expect(visit.find("#tree g:not([hidden]) path")).to_have_count(sum(sizes[1:steps]))
        name = f"Step {steps} of {len(sizes)}"
        expect(slider).to_have_js_property("ariaValueText", name)
        expect(visit.find("#search-step-name")).to_have_text(name)
    # Tab reaches the tree although its last step is hidden.
    visit.page.keyboard.press("Tab")
    while not visit.page.evaluate("document.activeElement.matches('.node')"):
        visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("End")
    expect(visit.find("#tree .node:focus")).to_have_attribute("data-step", "2")
    slider.focus()
    visit.page.keyboard.press("End")
    expect(visit.find("#tree .node:visible")).to_have_count(sum(sizes))


def of_fate(fate: str) -> Callable[[Search], Candidate]:
    return lambda search: next(each for each in candidates_of(search) if each["fate"] == fate)


def overtaken(search: Search) -> Candidate:
    every = candidates_of(search)
    continued = {each["parent"] for each in every if each["fate"] in ("kept", "finished")}
    last = {each["id"] for each in search["steps"][-1]["candidates"]}
    return next(
        each
        for each in every
        if each["fate"] == "kept" and each["id"] not in continued and each["id"] not in last
    )


def kept_to_the_end(search: Search) -> Candidate:
    last = search["steps"][-1]["candidates"]
    return next(each for each in last if each["fate"] == "kept")


ENDS: list[tuple[Callable[[Search], Candidate], str]] = [
    (of_fate("kept"), "Kept, and continued in the next step. This is on the way"),
    (overtaken, "Kept, but other candidates overtook all its continuations."),
    (of_fate("pruned"), "Pruned: 4 candidates of this step are better, the last of them"),
    (of_fate("finished"), "Finished: the sentence ends here, with the score −"),
    (of_fate("dropped"), "Dropped: only the best candidates"),
    (kept_to_the_end, "Kept until the search ended."),
]


def test_end_of_a_branch_is_explained_on_hover_and_focus(visit: Visit) -> None:
    search = visit.show_search()
    caption = visit.find("#search-caption")
    for find, words in ENDS:
        candidate = find(search)
        node = visit.find(f"#tree .node[data-id='{candidate['id']}']")
        node.hover()
        expect(caption).to_contain_text(words)
        expect(caption).to_contain_text(f"score {candidate['score']:.2f}.".replace("-", "−"))
        visit.page.mouse.move(0, 0)
        expect(caption).to_be_empty()
        node.focus()
        expect(caption).to_contain_text(words)
        expect(node).to_have_accessible_name(caption.inner_text())
        node.blur()
    for format, beginning in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("json", b"{")):
        with visit.page.expect_download() as download:
            visit.find(f"#search-{format}").click()
        assert download.value.suggested_filename == f"search.{format}"
        assert Path(download.value.path()).read_bytes().startswith(beginning)


def test_arrow_keys_walk_through_the_tree(visit: Visit) -> None:
    search = visit.show_search()
    path = path_of(search)
    visit.find("#search-step").press("Tab")
    while not visit.page.evaluate("document.activeElement.matches('.node')"):
        visit.page.keyboard.press("Tab")
    below = search["steps"][1]["candidates"]
    child = next(place for place, each in enumerate(below) if each["parent"] == 1)
    walk = [
        ("ArrowRight", below[child]["id"]),
        ("ArrowDown", below[child + 1]["id"]),
        ("ArrowLeft", below[child + 1]["parent"]),
        ("End", path[-1]["id"]),
        ("Home", 1),
        ("ArrowUp", 1),
    ]
    for key, identity in walk:
        visit.page.keyboard.press(key)
        expect(visit.find(f"#tree .node[data-id='{identity}']")).to_be_focused()


def test_search_that_found_another_translation_is_marked(visit: Visit) -> None:
    def other(route: Any) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "reproduced": False})

    visit.page.route("**/search?*", other)
    visit.show_search()
    note = "Run again, the search found another translation."
    expect(visit.find("#search-caption")).to_have_text(note)
    visit.find("#tree .node").first.hover()
    expect(visit.find("#search-caption")).to_contain_text("probability")
    visit.page.mouse.move(0, 0)
    expect(visit.find("#search-caption")).to_have_text(note)


def test_search_of_another_sentence_and_reasons_for_none_are_shown(visit: Visit) -> None:
    visit.refuse("search?*", status=503, json={"error": "the server is full"})
    visit.explain(f"{TEXT} Zwei Hunde.")
    visit.show("search")
    expect(visit.find("#search-caption")).to_have_text("the server is full")
    expect(visit.find("#tree")).to_be_hidden()
    visit.show("map")
    expect(visit.find("#heat-map")).to_be_visible()
    visit.show("search")
    visit.find("#sentence").select_option("1")
    expect(visit.find("#tree .node").first).to_have_text("Two")
    expect(visit.find("#search-step-name")).to_have_text(re.compile(r"^Step (\d+) of \1$"))
    visit.find("#alternatives summary").click()
    visit.find("#alternative-list button").first.click()
    expect(visit.find("#search-caption")).to_contain_text("A changed translation has no search")
    expect(visit.find("#tree")).to_be_hidden()


def test_tree_fits_a_phone(visitor: Visitor) -> None:
    visit = visitor(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    visit.show_search()
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 360
    visit.find("#tree .node").nth(7).tap()
    expect(visit.find("#search-caption")).to_contain_text("Pruned")


@pytest.mark.parametrize("options", [{"forced_colors": "active"}, {"color_scheme": "dark"}])
def test_path_of_the_winner_stands_out_in_forced_and_dark_colours(
    visitor: Visitor, options: dict[str, str]
) -> None:
    visit = visitor(**options)
    visit.show_search()
    look = """e => {
        const { borderColor, outlineStyle, fontWeight } = getComputedStyle(e);
        return [borderColor, outlineStyle, fontWeight];
    }"""
    winner, other = visit.find(".node.wins").first, visit.find(".node:not(.wins)").first
    assert winner.evaluate(look) != other.evaluate(look)
    stroke = "e => getComputedStyle(e).stroke"
    winning, losing = visit.find("#tree path.wins").first, visit.find("#tree path:not(.wins)").first
    assert winning.evaluate(stroke) != losing.evaluate(stroke)
