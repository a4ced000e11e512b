"""Tests of the view of the search: its tree step by step, and why a branch ended."""

from __future__ import annotations

import json

import pytest

from tests.browser.recorded_search import show_search
from tests.browser.support import Visit, Visitor, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow


def test_slider_shows_the_tree_step_by_step(visit: Visit) -> None:
    show_search(visit)
    expect(visit.find("#maps")).to_be_hidden()
    slider = visit.find("#search-step")
    expect(visit.find("#tree path")).to_have_count(6)
    slider.focus()
    for step, nodes in ((2, 6), (1, 3)):
        visit.page.keyboard.press("ArrowLeft")
        expect(visit.find("#tree .node")).to_have_count(nodes)
        expect(slider).to_have_js_property("ariaValueText", f"Step {step} of 3")
    visit.page.keyboard.press("End")
    expect(visit.find("#tree .node")).to_have_count(9)


def test_path_of_the_winner_is_marked(visit: Visit) -> None:
    show_search(visit)
    expect(visit.find("#tree .node.wins")).to_have_text(["Two", "men", "end"])
    expect(visit.find("#tree path.wins")).to_have_count(2)
    named = visit.find("#tree .node").evaluate_all(
        "all => all.filter((e) => e.ariaLabel.includes('way to the translation')).length"
    )
    assert named == 3


ENDS = {
    1: "Two: probability 61 %, sum −0.20, score −0.10. Kept, and continued",
    2: "Kept, but other candidates overtook all its continuations.",
    3: "Pruned: 2 candidates of this step are kept, the last of them with the score −0.70.",
    7: "Finished: the sentence ends here, with the score −0.25.",
    8: "Kept until the search ended.",
    9: "Dropped: the search ended without it.",
}


@pytest.mark.parametrize("identity", ENDS)
def test_end_of_a_branch_is_explained_on_hover_and_focus(visit: Visit, identity: int) -> None:
    show_search(visit)
    node = visit.find(f"#tree .node[data-id='{identity}']")
    caption = visit.find("#search-caption")
    node.hover()
    expect(caption).to_contain_text(ENDS[identity])
    visit.page.mouse.move(0, 0)
    expect(caption).to_be_empty()
    node.focus()
    expect(caption).to_contain_text(ENDS[identity])
    expect(node).to_have_accessible_name(caption.inner_text())


def test_arrow_keys_walk_through_the_tree(visit: Visit) -> None:
    show_search(visit)
    visit.find("#search-step").focus()
    visit.page.keyboard.press("Tab")
    while not visit.page.evaluate("document.activeElement.matches('.node')"):
        visit.page.keyboard.press("Tab")
    walk = {"ArrowRight": 4, "ArrowDown": 5, "ArrowLeft": 1, "End": 7, "Home": 1, "ArrowUp": 1}
    for key, identity in walk.items():
        visit.page.keyboard.press(key)
        expect(visit.find(f"#tree .node[data-id='{identity}']")).to_be_focused()


def test_refusal_of_the_search_is_shown_in_its_place(visit: Visit) -> None:
    body = json.dumps({"error": "the server is full"})
    visit.refuse("search?*", status=503, body=body, content_type="application/json")
    visit.forgive("503")
    visit.explain()
    visit.find("input[name=view][value=search]").locator("..").click()
    expect(visit.find("#search-caption")).to_have_text("the server is full")
    expect(visit.find("#tree")).to_be_hidden()
    visit.find("input[name=view][value=map]").locator("..").click()
    expect(visit.find("#heat-map")).to_be_visible()


def test_changed_translation_has_no_search(visit: Visit) -> None:
    show_search(visit)
    visit.find("#alternatives summary").click()
    visit.find("#alternative-list button").first.click()
    expect(visit.find("#search-caption")).to_contain_text("A changed translation has no search")
    expect(visit.find("#tree")).to_be_hidden()


def test_tree_fits_a_phone(visitor: Visitor) -> None:
    visit = visitor(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    show_search(visit)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 360
    visit.find("#tree .node").nth(1).tap()
    expect(visit.find("#search-caption")).to_contain_text("overtook")


@pytest.mark.parametrize("options", [{"forced_colors": "active"}, {"color_scheme": "dark"}])
def test_path_of_the_winner_stands_out_in_forced_and_dark_colours(
    visitor: Visitor, options: dict[str, str]
) -> None:
    visit = visitor(**options)
    show_search(visit)
    look = """e => {
        const { borderColor, outlineStyle, fontWeight } = getComputedStyle(e);
        return [borderColor, outlineStyle, fontWeight];
    }"""
    winner, other = visit.find(".node.wins").first, visit.find(".node:not(.wins)").first
    assert winner.evaluate(look) != other.evaluate(look)
    stroke = "e => getComputedStyle(e).stroke"
    winning, losing = visit.find("#tree path.wins").first, visit.find("#tree path:not(.wins)").first
    assert winning.evaluate(stroke) != losing.evaluate(stroke)
