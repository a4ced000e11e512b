"""Tests of file translation on the page: choosing, dropping, names, queue, failures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.support import LAYOUTS, Visit, Visitor, laid_out, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow


def text_file(name: str) -> dict[str, Any]:
    return {"name": name, "mimeType": "text/plain", "buffer": b"Ein Hund.\n"}


def test_chosen_file_is_tried_again_and_named_after_its_language(visit: Visit) -> None:
    visit.page.add_init_script(
        """window.sources = [];
        const { append } = FormData.prototype;
        FormData.prototype.append = function (name, ...value) {
            if (name === "source") window.sources.push(...value);
            append.call(this, name, ...value);
        };"""
    )
    visit.open("#source=de&target=en&text=")
    visit.refuse("translate_file", status=503, json={"error": "the server is full"})
    visit.find("#file-input").set_input_files(text_file("hund.v2.txt"))
    expect(visit.find("#files .problem")).to_contain_text("the server is full")
    expect(visit.find("#files-status")).to_contain_text("the server is full")
    visit.find("#source-language").select_option("auto")
    visit.find("#files .problem button").first.focus()
    visit.page.keyboard.press("Enter")
    link = visit.find("#files button").first
    expect(link).to_have_text("Download the translation")
    expect(link).to_be_focused()
    expect(visit.find("#files-status")).to_contain_text("is translated")
    # The choice at the time of the second try counts.
    assert visit.page.evaluate("window.sources") == ["de", "auto"]
    with visit.page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "hund.v2.en.txt"
    response = visit.page.request.post(
        f"{visit.address}translate", data={"q": "Ein Hund.\n", "source": "de", "target": "en"}
    )
    content = download.value.path().read_text(encoding="utf-8")
    assert content == response.json()["translatedText"]
    visit.find("#files button").last.click()
    expect(visit.find("#files")).to_be_hidden()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_several_dropped_files_are_translated_in_turn(
    visitor: Visitor, layout: tuple[str, str, int]
) -> None:
    visit = laid_out(visitor, layout)
    visit.open("#source=de&target=en&text=")
    files = visit.page.evaluate_handle(
        """() => {
            const files = new DataTransfer();
            files.items.add(new File(["Ein Hund."], "hund.txt"));
            files.items.add(new File(["Eine Katze."], "katze.txt"));
            files.items.add(new File(['{"key": "Ein Hund."}'], "app.json"));
            files.items.add(new File(["?"], "bild.xyz"));
            return files;
        }"""
    )
    visit.find("footer").dispatch_event("dragover", {"dataTransfer": files})
    expect(visit.find("#drop")).to_be_visible()
    visit.find("footer").dispatch_event("drop", {"dataTransfer": files})
    expect(visit.find("#drop")).to_be_hidden()
    expect(visit.find("#files [title]")).to_have_count(3)
    expect(visit.find("#files li")).to_have_count(4)
    assert [link.get_attribute("title") for link in visit.find("#files [title]").all()] == [
        "hund.en.txt",
        "katze.en.txt",
        "app.en.json",
    ]
    expect(visit.find("#files .problem")).to_contain_text("bild.xyz cannot be translated")


def test_cancelled_file_leaves_the_queue(visit: Visit) -> None:
    visit.open("#source=de&target=en&text=")
    visit.page.route("**/translate_file", lambda route: None, times=1)
    visit.find("#file-input").set_input_files([text_file("a.txt"), text_file("b.txt")])
    expect(visit.find("#files li")).to_have_text(
        [r"Translating a.txt … Cancel", "b.txt waits. Cancel"]
    )
    visit.find("#files li").last.get_by_role("button").click()
    visit.find("#files li").first.get_by_role("button").click()
    expect(visit.find("#files")).to_be_hidden()
    assert len(visit.requests_to("translate_file")) == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_several_files_show_their_progress_and_are_cancelled_together(
    visitor: Visitor, width: int
) -> None:
    visit = visitor(viewport={"width": width, "height": 800})
    visit.open("#source=de&target=en&text=")
    held: list[Any] = []
    visit.page.route("**/translate_file", lambda route: held.append(route))
    visit.find("#file-input").set_input_files([text_file(f"{name}.txt") for name in "abc"])
    expect(visit.find("#files-done")).to_have_text("0 files of 3 are done.")
    expect(visit.find("#files-bar")).to_have_attribute("max", "3")
    held.pop().continue_()
    expect(visit.find("#files-done")).to_have_text("1 file of 3 is done.")
    expect(visit.find("#files li").nth(1)).to_contain_text("Translating b.txt")
    assert visit.find("#files-bar").evaluate("bar => bar.value") == 1
    visit.find("#files-cancel").press("Enter")
    expect(visit.find("#files li")).to_have_count(1)
    expect(visit.find("#files-progress")).to_be_hidden()
    expect(visit.find("#file-button")).to_be_focused()
    visit.page.unroute("**/translate_file")
    visit.find("#file-input").set_input_files(text_file("d.txt"))
    expect(visit.find("#files [title]")).to_have_count(2)
    expect(visit.find("#files-progress")).to_be_hidden()
