"""Tests of translation on the page: typing, languages, alternatives, files, copying, sharing."""

from __future__ import annotations

import re

import pytest

from tests.browser.support import LAYOUTS, TEXT, Visit, Visitor, laid_out, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow


def translation_of(visit: Visit, text: str) -> str:
    response = visit.page.request.post(
        f"{visit.address}translate", data={"q": text, "source": "de", "target": "en"}
    )
    return response.json()["translatedText"]


def test_text_is_translated_while_typing_and_older_answers_are_dropped(
    visit: Visit,
) -> None:
    visit.open("#source=de&target=en&text=")
    visit.find("#source-text").press_sequentially("Ein Hund läuft")
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, "Ein Hund läuft"))
    visit.find("#source-text").press_sequentially(" am Strand.")
    expect(visit.find("#target-text")).to_have_text(
        translation_of(visit, "Ein Hund läuft am Strand.")
    )
    expect(visit.find("#target-text")).to_have_attribute("lang", "en")
    assert len(visit.requests_to("translate")) < len("Ein Hund läuft am Strand.")

    held = []
    visit.page.route("**/translate", lambda route: held.append(route), times=1)
    visit.find("#source-text").fill("Ein Mann")
    with visit.page.expect_event("requestfailed") as failed:
        expect(visit.find("#state")).to_have_text("Translating…")
        visit.find("#source-text").fill("Eine Frau")
    assert failed.value.post_data_json["q"] == "Ein Mann"
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, "Eine Frau"))
    assert len(held) == 1


def test_control_and_enter_translate_at_once(visit: Visit) -> None:
    visit.pause_clock()
    visit.open("?source=de&target=en&text=Ein+Hund.")
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, "Ein Hund."))
    visit.find("#source-text").press_sequentially("!")
    assert visit.page.url == visit.address, "the text of the query leaves the address"
    before = len(visit.requests_to("translate"))
    visit.find("#source-text").fill(TEXT)
    assert len(visit.requests_to("translate")) == before
    visit.find("#source-text").press("Control+Enter")
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, TEXT))


def test_buttons_keep_their_places_when_a_translation_arrives(visit: Visit) -> None:
    held = []
    visit.page.route("**/translate", lambda route: held.append(route), times=1)
    with visit.page.expect_request("**/translate"):
        visit.open("#source=de&target=en&text=" + TEXT)
    place = visit.find("#why").bounding_box()
    held[0].continue_()
    expect(visit.find("#target-text")).not_to_be_empty()
    assert visit.find("#why").bounding_box() == place


def test_the_language_of_the_text_is_detected(visit: Visit) -> None:
    visit.open("#source=auto&target=en&text=")
    expect(visit.find("#source-language option:checked")).to_have_text("Detect language")
    visit.find("#source-text").fill(TEXT)
    expect(visit.find("#source-language option:checked")).to_have_text("German, detected")
    sure = re.compile(r"^German, \d+ % sure$")
    expect(visit.find("#source-language")).to_have_attribute("title", sure)
    visit.find("#swap").click()
    expect(visit.find("#source-language")).to_have_value("en")
    expect(visit.find("#target-language")).to_have_value("de")
    expect(visit.find("#source-text")).to_have_value(translation_of(visit, TEXT))
    expect(visit.find("#target-text")).to_have_attribute("lang", "de")


def test_text_in_the_target_language_offers_the_other_target(visit: Visit) -> None:
    visit.open("#source=auto&target=de&text=" + TEXT)
    expect(visit.find("#hint")).to_contain_text("This seems to be German already.")
    visit.find("#hint button").click()
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, TEXT))
    expect(visit.find("#hint")).to_be_hidden()


def test_alternative_is_swapped_with_the_translation(visit: Visit) -> None:
    visit.open("#source=de&target=en&text=" + TEXT)
    expect(visit.find("#target-text")).not_to_be_empty()
    assert "alternatives" not in visit.requests_to("translate")[-1].post_data_json
    visit.find("#alternatives summary").click()
    alternative = visit.find("#alternative-list button").first
    expect(alternative).to_be_visible()
    first, other = visit.find("#target-text").inner_text(), alternative.inner_text()
    assert first != other
    alternative.click()
    expect(visit.find("#target-text")).to_have_text(other)
    expect(alternative).to_have_text(first)


def test_translation_is_copied_and_a_shared_link_restores_the_page(
    visitor: Visitor,
) -> None:
    visit = visitor(permissions=["clipboard-read", "clipboard-write"])
    visit.pause_clock()
    visit.open("#source=auto&target=en&text=" + TEXT)
    expect(visit.find("#target-text")).not_to_be_empty()
    visit.find("#share").click()
    expect(visit.find("#share")).to_have_text("Copied")
    link = visit.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{visit.address}#")
    visit.find("#copy").click()
    expect(visit.find("#copy")).to_have_text("Copied")
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied == visit.find("#target-text").inner_text()

    other = visitor()
    other.open(link.removeprefix(other.address))
    expect(other.find("#source-text")).to_have_value(TEXT)
    expect(other.find("#source-language")).to_have_value("auto")
    expect(other.find("#target-text")).to_have_text(visit.find("#target-text").inner_text())
    assert not any("Zwei" in request.url.split("#")[0] for request in other.requests)
    other.find("#source-text").press_sequentially("!")
    assert "#" not in other.page.url


def test_blanks_and_lines_of_a_long_text_are_kept(visit: Visit) -> None:
    text = "Ein Mann schläft.\n\n  Eine Frau liest ein Buch.\n" * 6
    visit.open("#source=de&target=en&text=")
    visit.find("#source-text").fill(text)
    expected = translation_of(visit, text)
    assert expected.count("\n") == text.count("\n")
    expect(visit.find("#target-text")).to_have_js_property("textContent", expected)


def test_long_text_is_streamed_sentence_by_sentence(visit: Visit) -> None:
    part = 'event: part\ndata: {"text":0,"translatedText":"One."}\n\n'
    done = 'event: done\ndata: {"translatedText":["One.","Two."],"truncated":[false,false]}\n\n'
    for body, expected in ((part, "One. "), (part + ": patience\n\n" + done, "One. Two.")):
        visit.refuse("translate", body=body, content_type="text/event-stream")
        visit.open("#source=de&target=en&text=" + "Ein Hund" + " und ein Hund" * 30 + ". Zwei.")
        expect(visit.find("#target-text")).to_have_js_property("textContent", expected)
        assert visit.requests_to("/translate")[-1].post_data_json["stream"] is True
        visit.open()


def test_clear_and_swap_can_be_undone_and_redone(visit: Visit) -> None:
    visit.open("#source=de&target=en&text=" + TEXT)
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, TEXT))
    source = visit.find("#source-text")
    visit.find("#clear").click()
    expect(source).to_have_value("")
    visit.page.keyboard.type("x")
    for left in ("", TEXT):
        visit.page.keyboard.press("Control+z")
        expect(source).to_have_value(left)
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, TEXT))
    visit.find("#swap").click()
    expect(source).to_have_value(translation_of(visit, TEXT))
    visit.find("#undo").click()
    expect(source).to_have_value(TEXT)
    expect(visit.find("#source-language")).to_have_value("de")
    visit.find("#redo").click()
    expect(visit.find("#source-language")).to_have_value("en")
    expect(source).to_have_value(translation_of(visit, TEXT))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_html_tags_are_noticed_and_translated_and_copied_as_html(
    visitor: Visitor, layout: tuple[str, str, int]
) -> None:
    visit = laid_out(visitor, layout, permissions=["clipboard-read", "clipboard-write"])
    html = "<b>Ein Hund</b> läuft."
    visit.pause_clock()
    visit.open("#source=de&target=en&text=")
    visit.find("#source-text").fill(html)
    expect(visit.find("#hint")).to_contain_text("This text contains HTML tags.")
    visit.find("#hint button").click()
    expect(visit.find("#target-text")).to_contain_text("<b>")
    sent = visit.requests_to("/translate")[-1].post_data_json
    assert sent["format"] == "html"
    # The service refuses the confidence of HTML.
    assert "confidence" not in sent
    expect(visit.find("#hint")).to_be_hidden()
    visit.find("#copy").click()
    expect(visit.find("#copy")).to_have_text("Copied")
    types = visit.page.evaluate("navigator.clipboard.read().then(([item]) => item.types)")
    assert set(types) == {"text/html", "text/plain"}
    visit.find("#format").click()
    expect(visit.find("#hint")).to_be_visible()


def test_draft_and_languages_survive_a_reload_and_the_draft_not_the_tab(visitor: Visitor) -> None:
    visit = visitor()
    visit.open()
    expect(visit.find("#source-search")).to_be_hidden()
    visit.find("#source-language").select_option("de")
    visit.find("#target-language").select_option("en")
    visit.find("#source-text").fill(TEXT)
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, TEXT))
    visit.open()
    expect(visit.find("#source-language")).to_have_value("de")
    expect(visit.find("#target-language")).to_have_value("en")
    expect(visit.find("#source-text")).to_have_value(TEXT)
    expect(visit.find("#target-text")).to_have_text(translation_of(visit, TEXT))
    tab = Visit(visit.page.context.new_page(), visit.address)
    tab.open()
    expect(tab.find("#source-text")).to_have_value("")


@pytest.mark.parametrize(
    ("locale", "clear", "german"),
    [
        ("de-AT", "Löschen", "Deutsch"),
        ("fr-FR", "Effacer", "Allemand · Deutsch"),
        ("es-ES", "Borrar", "Alemán · Deutsch"),
        ("ja-JP", "Clear", "German · Deutsch"),
    ],
)
def test_page_speaks_the_language_of_the_browser_until_one_is_chosen(
    visitor: Visitor, locale: str, clear: str, german: str
) -> None:
    visit = visitor(locale=locale)
    visit.open("#source=de&target=en&text=" + TEXT)
    expect(visit.find("#clear")).to_have_text(clear)
    expect(visit.find("#source-language option[value=de]")).to_have_text(german)
    visit.find("#page-language").select_option("es")
    expect(visit.find("html")).to_have_attribute("lang", "es")
    expect(visit.find("#source-text")).to_have_value(TEXT)
    visit.open()
    expect(visit.find("#clear")).to_have_text("Borrar")


def test_languages_of_the_page_have_the_same_strings_with_the_same_values(visit: Visit) -> None:
    visit.open()
    tables = visit.page.evaluate("import('./static/strings.js').then(({ TABLES }) => TABLES)")
    assert set(tables) == {"en", "de", "fr", "es"}

    def values(text: str | dict[str, str]) -> set[str]:
        forms = [text] if isinstance(text, str) else [text["one"], text["other"]]
        return {value for form in forms for value in re.findall(r"\{\w+\}", form)}

    for language, table in tables.items():
        assert list(table) == sorted(tables["en"]), language
        for key, text in table.items():
            assert values(text) == values(tables["en"][key]), (language, key)
            assert text, (language, key)


def test_models_are_shown_with_their_scores_and_licences(visit: Visit) -> None:
    visit.open()
    visit.find("#models-button").click()
    (model,) = visit.answer("models")["models"]
    expect(visit.find(".model h3")).to_have_text(model["name"])
    expect(visit.find(".model")).to_contain_text(f"Version {model['version']}, int8.")
    expect(visit.find(".model")).to_contain_text("German → English, English → German")
    scores, data = visit.find(".model tbody").all()
    expect(scores.locator("tr")).to_have_count(len(model["scores"]))
    expect(data.locator("tr td:nth-child(2)")).to_have_text(
        [corpus["licence"] for corpus in model["data"]]
    )
    visit.find("#models-button").click()
    expect(visit.find("#models")).to_be_hidden()


def test_page_loads_each_file_once(visit: Visit) -> None:
    visit.open()
    loaded = [each for each in visit.requests if each.resource_type in ("script", "stylesheet")]
    files = [request.url for request in loaded]
    assert len(files) == len(set(files)) > 20


MANY = ["de", "en", "fr", "es", "pt", "it", "nl", "pl", "cs", "el", "tr", "uk", "ja", "zh"]


def test_many_languages_are_searched_by_either_name_and_the_last_chosen_is_first(
    visit: Visit,
) -> None:
    offered = [{"code": code, "name": code, "targets": MANY} for code in MANY]
    visit.page.route("**/languages", lambda route: route.fulfill(json=offered))
    visit.open()
    options = visit.find("#source-language option")
    expect(options).to_have_count(len(MANY) + 1)
    for words, found in (("polski", "pl"), ("czech", "cs"), ("francais", "fr"), ("uk", "uk")):
        visit.find("#source-search").fill(words)
        expect(options).to_have_count(2)
        expect(options.last).to_have_attribute("value", found)
        expect(visit.find("#source-language")).to_have_value("auto")
    visit.find("#source-search").press("Enter")
    expect(visit.find("#source-language")).to_have_value("uk")
    expect(visit.find("#source-search")).to_have_value("")
    expect(options.nth(1)).to_have_attribute("value", "uk")
    visit.open()
    expect(options.nth(1)).to_have_attribute("value", "uk")

    private = {"code": "x-digits", "name": "digits", "targets": ["x-reversed"]}
    visit.page.route("**/languages", lambda route: route.fulfill(json=[*offered, private]))
    visit.page.goto("about:blank")
    visit.open("#source=x-digits&target=x-reversed&text=")
    expect(visit.find("#source-language option:checked")).to_have_text("Digits")
    expect(visit.find("#target-language option:checked")).to_have_text("Reversed")


def test_a_model_can_be_chosen_where_the_pair_has_several(visit: Visit) -> None:
    visit.offer_two_models()
    visit.open()
    menu = visit.find("#model")
    expect(menu).to_be_visible()
    menu.select_option("general-de-en")
    with visit.page.expect_request("**/translate") as asked:
        visit.find("#source-text").fill(TEXT)
    assert asked.value.post_data_json["model"] == "general-de-en"
    expect(visit.find("#target-text")).not_to_be_empty()
    visit.open()
    expect(menu).to_have_value("general-de-en")
    visit.page.goto("about:blank")
    with visit.page.expect_request("**/translate") as asked:
        visit.open("#source=auto&target=en&why=1&text=" + TEXT)
    assert asked.value.post_data_json["model"] == "general-de-en"


def test_a_chosen_model_leaves_other_languages_that_are_detected_alone(visit: Visit) -> None:
    visit.offer_two_models(directions=[{"source": "nl", "target": "en"}])
    visit.page.add_init_script("localStorage.setItem('dragoman.model', '\"other\"')")
    visit.open("#source=auto&target=en&text=" + TEXT)
    expect(visit.find("#target-text")).to_contain_text("men")
    assert "model" not in visit.requests_to("/sentences")[-1].post_data_json
    assert visit.requests_to("/translate")[-1].post_data_json["model"] == "general-de-en"


def test_link_to_a_language_that_is_only_a_target_is_understood(visit: Visit) -> None:
    visit.refuse("languages", json=[{"code": "de", "name": "German", "targets": ["en", "de"]}])
    visit.open("#source=de&target=en&text=" + TEXT)
    expect(visit.find("#target-text")).to_contain_text("men")
    expect(visit.find("#hint")).to_be_hidden()


def test_sentences_are_translated_by_the_model_that_their_text_gets(visit: Visit) -> None:
    with visit.page.expect_request("**/translate") as asked:
        visit.translated()
    assert asked.value.post_data_json["model"] == visit.answer("models")["models"][0]["name"]


def test_without_a_choice_there_is_no_menu_of_models(visit: Visit) -> None:
    visit.open()
    expect(visit.find("#model")).to_be_hidden()


def test_a_text_in_the_target_language_switches_the_target_until_one_is_chosen(
    visit: Visit,
) -> None:
    visit.open()
    expect(visit.find("#target-language")).to_have_value("en")
    visit.find("#source-text").fill("The two dogs are running through the snow together.")
    expect(visit.find("#target-language")).to_have_value("de")
    expect(visit.find("#target-text")).to_contain_text("Hunde")
    visit.find("#target-language").select_option("en")
    expect(visit.find("#hint")).to_contain_text("This seems to be English already.")
    expect(visit.find("#target-language")).to_have_value("en")


def test_a_language_that_is_not_on_offer_is_named_with_its_command(visit: Visit) -> None:
    visit.open()
    visit.find("#source-text").fill("Deux jeunes hommes jouent au football sur la pelouse du parc.")
    expect(visit.find("#hint")).to_contain_text("French")
    expect(visit.find("#hint")).to_contain_text("dragoman models add fr-")
    expect(visit.find("#source-language option:checked")).to_have_text("Detect language")
    visit.forgive("400")
    visit.find("#source-text").fill("人工智能正在改变世界")
    expect(visit.find("#problem")).to_contain_text("Chinese")
