"""Tests of the page's glossary: editing, keeping, and what translations and files have of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.support import Visit, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow

TEXT = "Mein Hund ist alt."


def begin(visit: Visit, text: str = TEXT) -> None:
    visit.open()
    visit.find("#source-language").select_option("de")
    visit.find("#target-language").select_option("en")
    visit.find("#source-text").fill(text)
    expect(visit.find("#target-text")).not_to_be_empty()


def edit_terms(visit: Visit, text: str = TEXT) -> None:
    begin(visit, text)
    visit.find("#glossary-button").click()


def field(visit: Visit, row: int, side: str) -> Any:
    return visit.find("#glossary-rows tr").nth(row).locator(f"input[data-side={side}]")


def write(visit: Visit, row: int, source: str, target: str) -> None:
    field(visit, row, "source").fill(source)
    field(visit, row, "target").fill(target)


def test_term_is_written_at_once_and_after_a_reload_until_it_is_removed(visit: Visit) -> None:
    begin(visit)
    target = visit.find("#target-text")
    expect(target).to_contain_text("dog")
    visit.find("#glossary-button").click()
    write(visit, 0, "Hund", "puppy")
    expect(target).to_contain_text("puppy")
    visit.find("#glossary-done").click()
    expect(visit.find("#glossary-button")).to_have_text("Glossary: 1")

    visit.open()
    expect(target).to_contain_text("puppy")
    visit.find("#glossary-button").click()
    expect(field(visit, 0, "source")).to_have_value("Hund")
    visit.page.get_by_label("Remove Hund").click()
    expect(target).to_contain_text("dog")
    visit.refuse("sentences", status=400, json={"error": "a glossary needs another model"})
    write(visit, 0, "Hund", "puppy")
    expect(visit.find("#glossary-problem")).to_contain_text("a glossary needs another model")


def test_terms_are_of_one_pair_and_of_the_language_that_is_detected(visit: Visit) -> None:
    edit_terms(visit)
    write(visit, 0, "Hund", "puppy")
    write(visit, 1, "Hund", "hound")
    field(visit, 2, "source").fill("alt")
    expect(visit.find("#glossary-problem")).to_contain_text("Hund")
    expect(field(visit, 1, "source")).to_have_attribute("aria-invalid", "true")
    expect(visit.find("#target-text")).to_contain_text("puppy is old")
    visit.page.get_by_label("Remove alt").click()
    visit.page.get_by_label("Remove Hund").last.click()
    visit.find("#glossary-close").click()
    visit.find("#source-language").select_option("auto")
    expect(visit.find("#target-text")).to_contain_text("puppy")
    visit.find("#swap").click()
    expect(visit.find("#glossary-button")).to_have_text("Glossary")


def test_tabs_keep_the_terms_of_each_other_and_requests_have_no_more_than_they_may(
    visit: Visit,
) -> None:
    edit_terms(visit)
    other = Visit(visit.page.context.new_page(), visit.address)
    other.open("#source=en&target=de&text=My+cat.")
    write(visit, 0, "Hund", "puppy")
    expect(visit.find("#target-text")).to_contain_text("puppy")
    visit.find("#glossary-done").click()
    visit.find("#target-text").fill("My words.")
    other.find("#glossary-button").click()
    write(other, 0, "cat", "Mieze")
    expect(other.find("#target-text")).to_contain_text("Mieze")
    stored = other.page.evaluate("JSON.parse(localStorage.getItem('dragoman.glossaries'))")
    assert stored == {"de>en": [["Hund", "puppy"]], "en>de": [["cat", "Mieze"]]}
    lines = "".join(f"{number:030}\t{number:030}\n" for number in range(1_000))
    file = {"name": "a.tsv", "mimeType": "text/plain", "buffer": lines.encode()}
    expect(visit.find("#target-text")).to_contain_text("My words.")
    visit.find("#glossary-button").click()
    visit.find("#glossary-file").set_input_files(file)
    expect(visit.find("#glossary-problem")).to_have_text("A glossary has at most 834 terms here.")
    expect(visit.find("#target-text")).to_contain_text("puppy")


def test_keyboard_edits_terms_and_escape_closes(visit: Visit) -> None:
    begin(visit)
    visit.find("#glossary-button").focus()
    keyboard = visit.page.keyboard
    keyboard.press("Enter")
    keyboard.type("Hund")
    keyboard.press("Enter")
    keyboard.type("puppy")
    keyboard.press("Enter")
    expect(field(visit, 1, "source")).to_be_focused()
    keyboard.press("Escape")
    expect(visit.find("#glossary")).to_be_hidden()
    expect(visit.find("#glossary-button")).to_be_focused()
    expect(visit.find("#target-text")).to_contain_text("puppy")


def test_files_and_pasted_tables_become_terms_and_terms_become_a_file(
    visit: Visit, tmp_path: Path
) -> None:
    edit_terms(visit)
    for name, content in (
        ("terms.tsv", b"Hund\tpuppy\r\nalt\tvery old\r\nohne"),
        ("terms.csv", '\ufeffHund,puppy\nalt,"very old"\nohne'.encode()),
        # Excel in Germany.
        ("excel.csv", "Hund;puppy\r\nalt;very old\r\nGrüße\r\n".encode("windows-1252")),
    ):
        given = tmp_path / name
        given.write_bytes(content)
        visit.find("#glossary-file").set_input_files(given)
        expect(visit.find("#target-text")).to_contain_text("puppy is very old")
        expect(visit.find("#glossary-problem")).to_contain_text("3")
        with visit.page.expect_download() as download:
            visit.find("#glossary-save").click()
        assert download.value.suggested_filename == "glossary.de-en.tsv"
        assert download.value.path().read_text(encoding="utf-8") == "Hund\tpuppy\nalt\tvery old\n"
        visit.find("#glossary-clear").click()
        expect(visit.find("#target-text")).to_contain_text("dog")
    field(visit, 0, "source").evaluate(
        """(field) => {
            const data = new DataTransfer();
            data.setData("text/plain", "Hund\\tpuppy\\nalt\\tvery old\\n");
            const pasted = { clipboardData: data, bubbles: true, cancelable: true };
            field.dispatchEvent(new ClipboardEvent("paste", pasted));
        }"""
    )
    expect(visit.find("#target-text")).to_contain_text("puppy is very old")
    expect(visit.find("#glossary-rows tr")).to_have_count(3)


def test_typing_into_the_translation_keeps_the_terms_of_what_follows(visit: Visit) -> None:
    edit_terms(visit, "Ein Mann geht mit seinem Hund durch den Schnee.")
    write(visit, 0, "Schnee", "powder")
    visit.find("#glossary-done").click()
    target = visit.find("#target-text")
    expect(target).to_contain_text("powder")
    target.focus()
    target.evaluate("box => getSelection().collapse(box.firstChild, 1)")
    with visit.page.expect_request(lambda asked: "prefix" in (asked.post_data or "")) as asked:
        visit.page.keyboard.insert_text(" tall")
    assert asked.value.post_data_json["prefix"].startswith("A tall")
    assert asked.value.post_data_json["glossary"] == {"Schnee": "powder"}
    expect(target).to_contain_text("A tall")
    expect(target).to_contain_text("powder")
