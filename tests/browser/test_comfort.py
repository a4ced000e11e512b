"""Tests of the page's accessibility: keyboard, touch, small screens, colour schemes, motion."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from PIL import Image

from tests.browser.support import (
    LAYOUTS,
    TEXT,
    TWO_SENTENCES,
    VOICES,
    Visit,
    Visitor,
    laid_out,
    sync_api,
)

expect = sync_api.expect
pytestmark = pytest.mark.slow


def tab_to(visit: Visit, selector: str) -> None:
    """Press Tab until the focus is on ``selector``; the focus must be visible on the way."""
    for _ in range(60):
        if visit.page.evaluate("s => document.activeElement.matches(s)", selector):
            return
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate(
            """() => {
                const element = document.activeElement;
                const { outlineWidth, outlineStyle } = getComputedStyle(element);
                // These two show it on something around or beside them.
                return element === document.body || element.closest("textarea, .segments")
                    || parseFloat(outlineWidth) >= 2 && outlineStyle !== "none";
            }"""
        ), "the focus cannot be seen"
    raise AssertionError(f"nothing led to {selector}")


def test_keyboard_alone_reaches_the_heat_map_from_the_text(visit: Visit) -> None:
    keyboard = visit.page.keyboard
    visit.open()
    tab_to(visit, "#source-language")
    keyboard.type("Germ")
    tab_to(visit, "#target-language")
    keyboard.type("Eng")
    tab_to(visit, "#source-text")
    keyboard.type(TEXT)
    keyboard.press("Control+Enter")
    expect(visit.find("#target-text")).not_to_be_empty()
    tab_to(visit, "#why")
    keyboard.press("Enter")
    expect(visit.find("#heads .head").first).to_be_visible()

    tab_to(visit, "#source-words .word")
    keyboard.press("ArrowDown")
    keyboard.press("End")
    expect(visit.find("#target-words .word").last).to_be_focused()
    keyboard.press("ArrowLeft")
    expect(visit.find("#word-caption")).to_contain_text("is aligned with")

    tab_to(visit, "input[name=kind]")
    keyboard.press("ArrowRight")
    expect(visit.find("#heat-map")).to_have_attribute("data-kind", "encoder")
    tab_to(visit, "#layer")
    keyboard.press("ArrowDown")
    expect(visit.find("#heat-map")).to_have_attribute("data-layer", "2")
    tab_to(visit, "#heat-map")
    assert visit.find("#heat-map").get_attribute("data-value"), "focus selects a cell at once"
    keyboard.press("h")
    expect(visit.find("#heat-map")).to_have_attribute("data-head", "0")
    keyboard.press("Shift+L")
    expect(visit.find("#heat-map")).to_have_attribute("data-layer", "1")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowRight")
    expect(visit.find("#heat-map")).to_have_attribute("data-row", "1")
    expect(visit.find("#heat-map")).to_have_attribute("data-column", "1")


@pytest.mark.parametrize("by", ["keyboard", "pointer"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_around_the_translation_work_in_every_layout(
    visitor: Visitor, layout: tuple[str, str, int], by: str
) -> None:
    visit = laid_out(visitor, layout, permissions=["clipboard-read", "clipboard-write"])

    def use(selector: str) -> Any:
        control = visit.find(selector).first
        if by == "keyboard":
            control.press("Enter")
        else:
            control.click()
        return control

    visit.page.add_init_script(VOICES)
    visit.offer_two_models()
    visit.open("#source=de&target=en&text=")
    menu = visit.find("#model")
    if by == "keyboard":
        menu.press("g")
    else:
        menu.select_option("general-de-en")
    expect(menu).to_have_value("general-de-en")
    target = visit.find("#target-text")
    visit.find("#source-text").press_sequentially(TWO_SENTENCES, delay=10)
    expect(target).to_contain_text("red")
    expect(target).to_have_attribute("aria-busy", "false")
    assert visit.requests_to("/translate")[-1].post_data_json["model"] == "general-de-en"
    expect(use("#speak-target")).to_have_attribute("aria-pressed", "true")
    expect(use("#doubts")).to_have_attribute("aria-pressed", "true")
    expect(visit.find("#doubts")).to_be_enabled()
    use("#alternatives summary")
    other = visit.find("#alternative-list button").first.inner_text()
    use("#alternative-list button")
    expect(target).to_contain_text(other)
    expect(use("#copy")).to_have_text("Copied")
    assert visit.page.evaluate("navigator.clipboard.readText()") == target.inner_text()
    use("#history-button")
    # Texts are kept after a rest.
    expect(visit.find("#history-list li")).to_have_count(1)
    visit.find("#source-text").fill("")
    use("#history-list button")
    expect(visit.find("#source-text")).to_have_value(TWO_SENTENCES)
    use("#settings-button")
    switch = visit.find("#setting-keepHistory")
    if by == "keyboard":
        switch.press("Space")
    else:
        switch.click()
    expect(visit.find("#history")).to_be_hidden()
    assert visit.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_page_of_any_width_aligns_its_texts_and_needs_no_horizontal_scrolling(
    visitor: Visitor,
) -> None:
    wide = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    for text in (TEXT, TEXT * 12):
        visit = visitor()
        visit.open("#source=de&target=en&text=" + text)
        visit.list_alternatives()
        for width in (1280, 1000, 800):
            visit.page.set_viewport_size({"width": width, "height": 800})
            one, other = (foot.bounding_box()["y"] for foot in visit.find(".foot").all())
            assert one == other
    visit.explain(TWO_SENTENCES)
    visit.find("#numbers-button").click()
    for width in (360, 768, 1920):
        visit.page.set_viewport_size({"width": width, "height": 740})
        scroll, client = visit.page.evaluate(wide)
        assert scroll <= client == width


@pytest.mark.parametrize("locale", ["de-DE", "fr-FR", "es-ES"])
def test_feet_of_both_texts_have_one_line_with_all_their_buttons(
    visitor: Visitor, locale: str
) -> None:
    visit = visitor(viewport={"width": 1280, "height": 800}, locale=locale)
    visit.page.add_init_script(VOICES)
    visit.open("#source=de&target=en&text=" + TEXT)
    visit.find("#glossary-button").click()
    visit.find("#glossary-rows input").first.fill("Wiese")
    visit.find("#glossary-rows input").nth(1).fill("lawn")
    visit.page.keyboard.press("Escape")
    expect(visit.find("#target-text")).to_contain_text("lawn")
    visit.find("#clear").click()
    visit.find("#undo").click()
    expect(visit.find("#redo")).to_be_visible()
    expect(visit.find("#speak-target")).to_be_visible()
    buttons = visit.find(".foot button:visible").all()
    tops = {button.bounding_box()["y"] for button in buttons}
    assert len(buttons) >= 9
    assert len(tops) == 1


def test_touch_on_a_phone_shows_attention(visitor: Visitor) -> None:
    phone = {"width": 360, "height": 740}
    visit = visitor(viewport=phone, has_touch=True, is_mobile=True, device_scale_factor=2)
    visit.explain()
    visit.find("#target-words .word").nth(1).tap()
    expect(visit.find("#source-words .word.lit").first).to_be_visible()
    visit.find("#heat-map .heat-field").tap(position={"x": 40, "y": 40})
    expect(visit.find("#heat-value")).not_to_be_empty()
    for button in visit.find("button:visible:not(.word)").all():
        assert button.bounding_box()["height"] >= 32, button.inner_text()


def background(visit: Visit) -> list[int]:
    colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]


def test_colour_scheme_follows_the_system_until_one_is_chosen(visitor: Visitor) -> None:
    visit = visitor(color_scheme="dark")
    visit.open()
    assert max(background(visit)) < 60
    expect(visit.find("#theme")).to_have_attribute("aria-pressed", "true")
    visit.page.emulate_media(color_scheme="light")
    expect(visit.find("#theme")).to_have_attribute("aria-pressed", "false")
    assert min(background(visit)) > 200
    visit.find("#theme").click()
    assert max(background(visit)) < 60
    visit.open()
    assert max(background(visit)) < 60
    visit.find("#theme").click()
    assert min(background(visit)) > 200
    visit.page.emulate_media(color_scheme="dark")
    expect(visit.find("#theme")).to_have_attribute("aria-pressed", "true")
    assert max(background(visit)) < 60, "back at the system's choice, the page follows it again"
    tab = Visit(visit.page.context.new_page(), visit.address)
    tab.open()
    visit.find("#theme").click()
    expect(tab.find("html")).to_have_attribute("data-theme", "light")


def test_page_works_below_a_path_prefix_and_without_motion(visitor: Visitor) -> None:
    visit = visitor(reduced_motion="reduce")
    below = f"{visit.address}some/path/"

    def forward(route: Any) -> None:
        url = route.request.url.replace("some/path/", "")
        route.fulfill(response=route.fetch(url=url))

    visit.page.route(f"{below}**", forward)
    visit.address = below
    visit.explain()
    expect(visit.find("#heat-map")).to_be_visible()
    moving = """() => [...document.querySelectorAll("*")].filter((element) => {
        const { transitionDuration, animationName } = getComputedStyle(element);
        return transitionDuration !== "0s" || animationName !== "none";
    }).length"""
    assert visit.page.evaluate(moving) == 0


def test_forced_colours_show_lit_words_and_the_chosen_kind(visitor: Visitor) -> None:
    visit = visitor(forced_colors="active", reduced_motion="reduce")
    visit.explain()
    visit.find("#target-words .word").nth(1).hover()
    lit, dark = (visit.find(f"#source-words .word{kind}").first for kind in (".lit", ":not(.lit)"))
    assert painted(lit) != painted(dark)
    chosen, other = visit.find("#kind :checked + span"), visit.find("#kind span").last
    assert painted(chosen) != painted(other)


def painted(element: Any) -> tuple[int, ...]:
    """The commonest colour of an element on the screen, which styles do not tell when forced."""
    image = Image.open(io.BytesIO(element.screenshot())).convert("RGB")
    return max(image.getcolors(image.width * image.height))[1]


def test_typing_is_announced_once_after_a_rest(visit: Visit) -> None:
    visit.pause_clock()
    visit.open("#source=auto&target=en&text=")
    visit.page.evaluate(
        """() => {
            window.announced = [];
            const live = "[role=status], [role=alert], [aria-live]:not([aria-live=off])";
            for (const region of document.querySelectorAll(live)) {
                new MutationObserver(() => announced.push(region.id))
                    .observe(region, { childList: true, characterData: true, subtree: true });
            }
        }"""
    )
    for word in ["Ein", "großer", "Hund", "läuft", "schnell", "über", "die", "Straße."]:
        visit.find("#source-text").press_sequentially(f"{word} ")
        visit.page.clock.run_for(300)
    expect(visit.find("#target-text")).to_contain_text("street")
    visit.page.clock.run_for(700)
    expect(visit.find("#target-text")).not_to_have_class(re.compile("stale"))
    visit.page.clock.run_for(1000)
    expect(visit.find("#announcer")).to_contain_text("German")
    expect(visit.find("#announcer")).to_contain_text(visit.find("#target-text").inner_text())
    announced = visit.page.evaluate("announced")
    assert announced == ["announcer"]


# The texts are below each other in narrow windows.
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each[2] > 390])
def test_long_texts_scroll_together(visitor: Visitor, layout: tuple[str, str, int]) -> None:
    visit = laid_out(visitor, layout)
    visit.open("#source=de&target=en&text=" + "Ein Mann schläft. Eine Frau liest ein Buch. " * 40)
    expect(visit.find("#copy")).to_be_visible()
    expect(visit.find("#copy")).to_be_enabled()
    # Scrolls again in every frame, because the texts may still grow.
    follows = """([led, other, part]) => {
        const range = e => e.scrollHeight - e.clientHeight;
        led.scrollTop = part * range(led);
        return Math.abs(other.scrollTop / range(other) - part) <= 0.02;
    }"""
    source, target = visit.find("#source-text"), visit.find("#target-text")
    for led, other in ((source, target), (target, source)):
        for part in (1, 0.5):
            visit.page.wait_for_function(
                follows, arg=[led.element_handle(), other.element_handle(), part]
            )
    # Both are at half. The source, scrolled along to its start, is scrolled to its end at once.
    visit.page.evaluate(
        """([source, target]) => {
            const end = () => { source.scrollTop = source.scrollHeight; };
            target.addEventListener("scroll", end, { once: true });
            target.scrollTop = 0;
        }""",
        [source.element_handle(), target.element_handle()],
    )
    visit.page.wait_for_function(
        "e => e.scrollTop >= e.scrollHeight - e.clientHeight - 2", arg=target.element_handle()
    )
    # A translation that grows while its text is typed stays beside it.
    source.press("Control+End")
    source.press_sequentially("\nEin Hund läuft.\nEine Katze schläft.\nDas Haus ist rot.")
    visit.page.wait_for_function(
        """([source, target]) => {
            const part = e => e.scrollTop / (e.scrollHeight - e.clientHeight);
            return target.textContent.includes("red") && part(target) >= part(source) - 0.01;
        }""",
        arg=[source.element_handle(), target.element_handle()],
    )


def test_names_of_languages_are_whole_on_a_phone(visitor: Visitor) -> None:
    visit = visitor(viewport={"width": 320, "height": 640}, is_mobile=True, locale="fr-FR")
    visit.open("#source=de&target=en&text=" + TEXT)
    for menu in visit.find(".languages select").all():
        chosen = menu.evaluate("menu => menu.selectedOptions[0].text")
        assert chosen in ("Allemand", "Anglais")
        width = """(menu) => {
            const context = new OffscreenCanvas(1, 1).getContext("2d");
            const { font, paddingLeft, paddingRight } = getComputedStyle(menu);
            context.font = font;
            const text = context.measureText(menu.selectedOptions[0].text).width;
            return [text, menu.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)];
        }"""
        text, room = menu.evaluate(width)
        assert text <= room
