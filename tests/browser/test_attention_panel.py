"""Tests of the attention panel: word highlighting, heat maps, and their numbers."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.support import TEXT, TWO_SENTENCES, Visit, Visitor, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow


def choose(visit: Visit, menu: str, value: str) -> None:
    """Choose by value alone: the page counts layers and heads from 1, the service from 0."""
    index = visit.find(f"{menu} option").evaluate_all(
        "(all, value) => all.findIndex((each) => each.value === value)", value
    )
    visit.find(menu).select_option(index=index)


def shown_map(visit: Visit) -> dict[str, Any]:
    """The map on the page, in the format of the endpoint."""
    return visit.answer(visit.find("#download-json").get_attribute("href"))


def shown_alignment(visit: Visit, sentence: int = 0) -> dict[str, Any]:
    translation = urlsplit(visit.find("#download-json").get_attribute("href")).path.split("/")[1]
    return visit.answer(f"translations/{translation}/alignment?sentence={sentence}")


def look_at(visit: Visit, kind: str, layer: str, head: str) -> None:
    visit.find(f"input[name=kind][value={kind}]").locator("..").click()
    choose(visit, "#layer", layer)
    choose(visit, "#head", head)
    plot = visit.find("#heat-map")
    for name, value in (("kind", kind), ("layer", layer), ("head", head)):
        expect(plot).to_have_attribute(f"data-{name}", value)
    expect(plot).to_have_attribute("aria-busy", "false")


def test_attention_is_requested_only_while_the_panel_is_open(visit: Visit) -> None:
    visit.open("#source=de&target=en&text=" + TEXT)
    expect(visit.find("#target-text")).not_to_be_empty()
    assert not visit.requests_to("translations/")
    assert "attention" not in visit.requests_to("translate")[-1].post_data_json
    visit.find("#why").click()
    expect(visit.find("#heat-map")).to_be_visible()
    assert visit.requests_to("translate")[-1].post_data_json["attention"] is True
    expect(visit.find("#heads .head").first).to_be_visible()
    visit.find("#why").click()
    expect(visit.find("#attention")).to_be_hidden()
    count = len(visit.requests_to("translations/"))
    translation = visit.find("#target-text").inner_text()
    visit.find("#source-text").fill("Ein Hund.")
    expect(visit.find("#target-text")).not_to_have_text(translation)
    assert len(visit.requests_to("translations/")) == count


def test_labels_of_columns_stay_below_the_sentences(visitor: Visitor) -> None:
    visit = visitor(viewport={"width": 1280, "height": 800})
    visit.explain()
    label = visit.find("#heat-map .heat-columns span").first
    for rows in (2, 6):
        visit.page.evaluate(
            "rows => scrollBy(0, document.querySelector('.heat-scroll').getBoundingClientRect().top"
            " - document.querySelector('.sentences').getBoundingClientRect().height + 24 * rows)",
            rows,
        )
        seen = "e => { const box = e.getBoundingClientRect();"
        seen += " return document.elementFromPoint(box.x + 2, box.y + box.height / 2) === e; }"
        visit.page.wait_for_function(seen, arg=label.element_handle())


def test_heat_map_is_downloaded_and_shows_the_numbers_of_the_endpoint(visit: Visit) -> None:
    visit.explain()
    expect(visit.find("#heat-map")).to_have_accessible_name(
        "Translation to source, layer 2, mean of all heads"
    )
    expect(visit.find("#heat-map .heat-columns span").first).to_have_text("→ en")
    beginnings = {"png": b"\x89PNG", "sheet": b"\x89PNG", "npy": b"\x93NUMPY", "json": b"{"}
    for name, beginning in beginnings.items():
        with visit.page.expect_download() as download:
            visit.find(f"#download-{name}").click()
        place = "layer-all-head-all.png" if name == "sheet" else f"layer-1-head-mean.{name}"
        assert download.value.suggested_filename == f"attention-cross-{place}"
        assert download.value.path().read_bytes().startswith(beginning)
    visit.find("#numbers-button").click()
    for kind in ("cross", "encoder", "decoder"):
        look_at(visit, kind, "1", "2")
        answer = shown_map(visit)
        query = parse_qs(urlsplit(visit.find("#download-json").get_attribute("href")).query)
        assert (query["kind"], query["layer"], query["head"]) == ([kind], ["1"], ["2"])
        weights = answer["maps"][0]["weights"]
        rows = visit.find("#numbers tbody tr")
        expect(rows).to_have_count(len(weights))
        table = [row.locator("td").all_inner_texts() for row in rows.all()]
        assert table == [[f"{weight:.3f}" for weight in row] for row in weights]

    plot = visit.find("#heat-map")
    plot.focus()
    for step in ("Control+Home", "ArrowDown", "ArrowRight", "ArrowRight", "End", "Control+End"):
        plot.press(step)
        row, column = (int(plot.get_attribute(f"data-{name}")) for name in ("row", "column"))
        assert float(plot.get_attribute("data-value")) == weights[row][column]
        expect(visit.find("#heat-value")).to_contain_text(f"{weights[row][column]:.3f}")
    assert (row, column) == (len(weights) - 1, len(weights[0]) - 1)


@pytest.mark.parametrize("colour_scheme", ["light", "dark"])
def test_higher_weight_has_stronger_colour(visitor: Any, colour_scheme: str) -> None:
    visit = visitor(color_scheme=colour_scheme)
    visit.explain()
    look_at(visit, "cross", "0", "3")
    weights = shown_map(visit)["maps"][0]["weights"]
    pixels = visit.page.evaluate(
        """() => {
            const canvas = document.querySelector("#heat-map canvas");
            const { width, height } = canvas;
            return [width, ...canvas.getContext("2d").getImageData(0, 0, width, height).data];
        }"""
    )
    width, data = pixels[0], pixels[1:]
    assert width == len(weights[0])
    brightness = [sum(data[i : i + 3]) for i in range(0, len(data), 4)]
    flat = [weight for row in weights for weight in row]
    ordered = [shade for _, shade in sorted(zip(flat, brightness, strict=True))]
    assert ordered[0] != ordered[-1]
    away_from_ground = ordered if colour_scheme == "dark" else ordered[::-1]
    assert all(one <= other for one, other in pairwise(away_from_ground))


def test_words_highlight_the_words_they_are_aligned_with_whatever_the_map(visit: Visit) -> None:
    visit.explain()
    expect(visit.find(".sentences h3")).to_contain_text("Word alignment")
    alignment = shown_alignment(visit)
    weights = {(link["target"], link["source"]): link["weight"] for link in alignment["links"]}
    assert any(weight >= 0.05 for weight in weights.values())
    source, targets = visit.find("#source-words .word"), visit.find("#target-words .word")
    expect(source).to_have_text([word["text"] for word in alignment["source_words"]])
    for kind, layer, head in (("cross", "0", "2"), ("encoder", "1", "0")):
        look_at(visit, kind, layer, head)
        for target, word in enumerate(alignment["target_words"]):
            targets.nth(target).hover()
            expect(visit.find("#word-caption")).to_contain_text(f"“{word['text']}”")
            lit = source.evaluate_all(
                "all => all.map((word) => [word.matches('.lit'), Number(word.dataset.weight)])"
            )
            expected = [weights.get((target, i), 0) for i in range(source.count())]
            assert lit == [[weight >= 0.05, weight] for weight in expected]
    expect(visit.find("#word-caption")).to_contain_text("is aligned with")

    look_at(visit, "cross", "1", "1")
    answer = shown_map(visit)
    word = targets.nth(1)
    word.hover()
    expect(visit.find("#heat-map .heat-rows .strong").first).to_have_text(word.inner_text())
    visit.find("#heat-map .heat-rows span").nth(1).hover()
    expect(word).to_have_class("word from")
    strongest = max(answer["maps"][0]["weights"][1])
    assert float(visit.find("#heat-map").get_attribute("data-value")) == strongest
    lit = source.evaluate_all("all => all.map((word) => Number(word.dataset.weight))")
    # Neither the tag of the target language nor eos is a word.
    to_words = sum(answer["maps"][0]["weights"][1][1:-1])
    assert sum(lit) == pytest.approx(to_words, abs=1e-6)


def test_grid_shows_all_layers_and_heads_and_each_can_be_enlarged(visit: Visit) -> None:
    visit.explain()
    count = [visit.find(f"#{name} option").count() - 1 for name in ("layer", "head")]
    heads = visit.find("#heads .head")
    expect(heads).to_have_count(count[0] * count[1])
    chosen = visit.find("#heads [data-layer='0'][data-head='3']")
    chosen.click()
    expect(visit.find("#heat-map")).to_have_attribute("data-layer", "0")
    expect(visit.find("#heat-map")).to_have_attribute("data-head", "3")
    expect(chosen).to_have_attribute("aria-pressed", "true")
    expect(visit.find("#head")).to_have_value("3")
    expect(chosen).to_have_accessible_name("Layer 1, head 4")
    chosen.click()
    expect(visit.find("#head")).to_have_value("mean")


def test_lines_lead_from_each_piece_to_others_and_are_walked_by_keys(
    visit: Visit,
) -> None:
    visit.explain()
    look_at(visit, "cross", "1", "1")
    weights = shown_map(visit)["maps"][0]["weights"]
    visit.show("lines")
    expect(visit.find("#heat-map")).to_be_hidden()
    lines = visit.find("#lines line")
    expect(lines).to_have_count(sum(weight >= 0.02 for row in weights for weight in row))
    drawn = lines.evaluate_all(
        "all => all.map((e) => [e.dataset.row, e.dataset.column, e.getAttribute('stroke-opacity')])"
    )
    for row, column, opacity in drawn:
        assert float(opacity) == pytest.approx(weights[int(row)][int(column)], abs=1e-3)
    visit.find("#lines .pieces").first.locator("button").nth(1).hover()
    strongest = max(weights[1])
    expect(visit.find("#heat-value")).to_contain_text(f"{strongest:.3f}")
    lit = visit.find("#lines line.lit").evaluate_all("all => all.map((e) => e.dataset.row)")
    assert lit
    assert set(lit) == {"1"}
    expect(visit.find("#lines line:not(.lit)").first).to_be_hidden()

    rows, columns = (side.locator("button") for side in visit.find("#lines .pieces").all())
    rows.first.focus()
    for key, focused in (
        ("ArrowDown", rows.nth(1)),
        ("ArrowRight", columns.nth(1)),
        ("End", columns.last),
        ("ArrowLeft", rows.nth(columns.count() - 1)),
        ("Home", rows.first),
    ):
        visit.page.keyboard.press(key)
        expect(focused).to_be_focused()
    assert "→" in (rows.first.get_attribute("aria-label") or "")


def test_alternative_has_its_own_attention(visit: Visit) -> None:
    visit.explain()
    visit.find("#alternatives summary").click()
    alternative = visit.find("#alternative-list button").last
    text = alternative.inner_text()
    alternative.click()
    expect(visit.find("#target-words")).to_have_text(text)
    expect(visit.find("#attention-body")).to_have_attribute("aria-busy", "false")
    visit.find("#heat-map").focus()
    visit.find("#heat-map").press("End")
    fields = visit.requests_to("/attention")[-1].post_data_json
    assert fields["target_text"] == text
    selection = {"kind": "cross", "layer": "1", "head": "mean"}
    response = visit.page.request.post(f"{visit.address}attention", data=fields | selection)
    value = response.json()["maps"][0]["weights"][0][-1]
    assert float(visit.find("#heat-map").get_attribute("data-value")) == value
    with visit.page.expect_download() as download:
        visit.find("#download-json").click()
    assert json.loads(download.value.path().read_bytes())["maps"][0]["weights"][0][-1] == value


def test_panel_never_says_that_there_is_no_text_and_shows_loading_maps(visit: Visit) -> None:
    held = []
    visit.page.route("**/languages", lambda route: held.append(route), times=1)
    visit.page.goto(f"{visit.address}#source=de&target=en&text={TEXT}")
    visit.find("#source-text").fill(TEXT)
    visit.find("#why").click()
    expect(visit.find("#attention")).to_be_visible()
    expect(visit.find("#attention-note")).not_to_contain_text("Type something")
    held[0].continue_()
    expect(visit.find("#heat-map")).to_be_visible()
    expect(visit.find("#attention-body")).to_have_attribute("aria-busy", "false")
    visit.page.route("**/attention?*", lambda route: held.append(route), times=1)
    choose(visit, "#layer", "0")
    expect(visit.find("#heat-value")).to_have_text("Loading…")
    expect(visit.find("#heat-map")).to_have_attribute("aria-busy", "true")
    held[1].continue_()
    expect(visit.find("#heat-map")).to_have_attribute("data-layer", "0")
    expect(visit.find("#heat-value")).to_be_empty()


def test_why_pressed_while_the_same_text_is_translated_again_shows_its_maps(visit: Visit) -> None:
    visit.translated()
    held: list[Any] = []
    visit.page.route("**/translate", lambda route: held.append(route), times=1)
    visit.find("#doubts").click()
    expect(visit.find("#state")).to_have_text("Translating…")
    visit.find("#why").click()
    expect(visit.find("#attention")).to_be_visible()
    assert "attention" not in held[0].request.post_data_json
    held[0].continue_()
    expect(visit.find("#heat-map")).to_be_visible()
    expect(visit.find("#attention-body")).to_have_attribute("aria-busy", "false")


def test_maps_are_current_again_when_the_next_translation_is_undone(visit: Visit) -> None:
    visit.explain()
    body = visit.find("#attention-body")
    visit.page.route("**/translate", lambda route: None, times=1)
    visit.find("#swap").click()
    expect(body).to_have_attribute("aria-busy", "true")
    visit.find("#undo").click()
    expect(visit.find("#source-text")).to_have_value(TEXT)
    expect(body).to_have_attribute("aria-busy", "false")


def test_evicted_translation_is_reported(visit: Visit) -> None:
    visit.open("#source=de&target=en&text=" + TEXT)
    visit.refuse("translations/*", status=404, json={"error": "no such translation"})
    visit.find("#why").click()
    expect(visit.find("#attention-note")).to_contain_text("The server has forgotten")
    visit.find("#attention-note button").click()
    expect(visit.find("#heat-map")).to_be_visible()


def test_all_heads_are_drawn_on_one_scale(visit: Visit) -> None:
    visit.explain()
    look_at(visit, "cross", "1", "mean")
    query = urlsplit(visit.find("#download-json").get_attribute("href"))
    maps = visit.answer(f"{query.path}?kind=cross&layer=all&head=all")["maps"]
    expect(visit.find("#heads .head")).to_have_count(len(maps))
    visit.forgive("willReadFrequently")
    shades = visit.page.evaluate(
        """() => [...document.querySelectorAll("#heads canvas")].map((canvas) => {
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            return Math.min(...data.filter((_, i) => i % 4 === 1));
        })"""
    )
    strongest = [max(max(row) for row in each["weights"]) for each in maps]
    assert len(set(strongest)) > 1
    ordered = [shade for _, shade in sorted(zip(strongest, shades, strict=True))]
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[0] > ordered[-1]


def test_each_sentence_can_be_selected_and_its_words_stay_in_sight(visitor: Any) -> None:
    visit = visitor(viewport={"width": 1280, "height": 720})
    visit.explain(TWO_SENTENCES)
    expect(visit.find("#sentence option")).to_have_count(2)
    first = visit.find("#source-words").inner_text()
    visit.find("#sentence").select_option("1")
    expect(visit.find("#source-words")).not_to_have_text(first)
    expect(visit.find("#source-words .word")).to_have_text(
        [word["text"] for word in shown_alignment(visit, 1)["source_words"]]
    )
    visit.find("#heat-map .heat-rows span").last.scroll_into_view_if_needed()
    visit.find("#heat-map .heat-rows span").last.hover()
    for words in ("#source-words", "#target-words"):
        expect(visit.find(words)).to_be_in_viewport(ratio=1)


def test_cells_stay_below_the_labels_on_a_phone(visitor: Any) -> None:
    visit = visitor(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    visit.explain(TEXT.replace(".", " und lachen dabei sehr laut mit ihren vielen Freunden."))
    visit.find("#heat-map .heat-field").tap(position={"x": 5, "y": 5})
    covering = visit.page.evaluate(
        """() => {
            const scroller = document.querySelector(".heat-scroll");
            scroller.scrollLeft = 40;
            const boxOf = (selector) => document.querySelector(selector).getBoundingClientRect();
            // The pointer is below the words, which stay at the top.
            window.scrollBy(0, boxOf(".heat-field").top - 600);
            const [box, label] = [boxOf(".heat-scroll"), boxOf(".heat-rows")];
            const y = boxOf(".heat-field").top + 5;
            return [box.left + 1, (label.left + label.right) / 2, label.right - 3]
                .map((x) => Boolean(document.elementFromPoint(x, y).closest(".heat-rows")));
        }"""
    )
    assert covering == [True, True, True]
    assert "arrow keys" not in visit.find(".attention-head").inner_text()


def test_pieces_are_mapped_to_words_for_any_tokenization(visit: Visit) -> None:
    visit.open()
    owners = visit.page.evaluate(
        """async () => {
            const { wordsOfPieces } = await import("./static/pieces.js");
            const text = "😀 \ufb01ne caf\u00e9, Stra\u00dfe?";
            const words = [[0, 1], [2, 5], [6, 10], [10, 11], [12, 18], [18, 19]]
                .map(([start, end]) => ({ start, end }));
            const pieces = ["\u2581", "😀", "\u2581fi", "ne", "\u2581", "caf", "\u00e9", ",",
                "\u2581Str", "lost", "a\u00dfe", "?", "</s>"];
            return wordsOfPieces(pieces, text, words);
        }"""
    )
    assert owners == [-1, 0, 1, 1, -1, 2, 2, 3, 4, -1, 4, 5, -1]
