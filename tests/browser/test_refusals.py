"""Tests of the page when the server refuses a request or does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.support import TEXT, Visit, sync_api

expect = sync_api.expect
pytestmark = pytest.mark.slow
START = "#source=de&target=en&text="


def error(message: str, **headers: str) -> dict[str, Any]:
    return {"json": {"error": message}, "headers": headers}


@pytest.mark.parametrize(
    ("status", "message"), [(429, "heard a lot from you"), (503, "The server is busy")]
)
def test_busy_server_shows_a_countdown_and_is_retried(
    visit: Visit, status: int, message: str
) -> None:
    visit.pause_clock()
    visit.open(START)
    refusal = error("come back later", **{"retry-after": "7"})
    visit.refuse("translate", status=status, **refusal)
    visit.find("#source-text").fill(TEXT)
    visit.page.clock.run_for(250)
    expect(visit.find("#problem")).to_contain_text(message)
    expect(visit.find("#problem")).to_contain_text("Come back later.")
    expect(visit.find("#problem [data-left]")).to_have_attribute("data-left", "7")
    visit.page.clock.run_for(3000)
    expect(visit.find("#problem [data-left]")).to_have_text("Trying again in 4 seconds.")
    visit.page.clock.run_for(4000)
    expect(visit.find("#problem")).to_be_hidden()
    expect(visit.find("#target-text")).not_to_be_empty()


def test_refusal_is_shown_and_can_be_retried_where_that_helps(visit: Visit) -> None:
    refusals: list[tuple[dict[str, Any] | None, str, str]] = [
        ({"status": 503, **error("full", **{"retry-after": "3600"})}, "server is busy", "Full."),
        (
            {"status": 413, **error("sentence has 900 tokens")},
            "more text than this server takes",
            "Sentence has 900 tokens.",
        ),
        (None, "The server cannot be reached.", ""),
    ]
    for number, (answer, message, reason) in enumerate(refusals):
        visit.open(START)
        if answer is None:
            visit.page.route("**/translate", lambda route: route.abort(), times=1)
            visit.forgive("ERR_FAILED")
        else:
            visit.refuse("translate", **answer)
        visit.find("#source-text").fill(f"{TEXT} {number} Hunde.")
        expect(visit.find("#problem")).to_contain_text(message)
        expect(visit.find("#problem")).to_contain_text(reason)
        expect(visit.find("#why")).to_be_hidden()
        if answer is not None and answer["status"] == 413:
            expect(visit.find("#problem button")).to_have_count(0)
        else:
            visit.find("#problem button").click()
            expect(visit.find("#target-text")).not_to_be_empty()
        visit.find("#source-text").fill("")


def test_page_opened_before_the_server_is_ready_recovers_and_cuts_are_noticed(
    visit: Visit,
) -> None:
    visit.refuse("languages", status=503, **error("no model yet", **{"retry-after": "1"}))
    visit.open(START + TEXT)
    expect(visit.find("#target-text")).not_to_be_empty()
    visit.refuse("translate", json={"translatedText": "A", "model": "m", "truncated": True})
    visit.find("#source-text").fill("Ein Hund.")
    expect(visit.find("#hint")).to_contain_text("its translation was cut")


def test_text_beyond_the_limit_is_reported_while_typing(visit: Visit) -> None:
    settings = visit.answer("frontend/settings") | {"charLimit": 10}
    visit.refuse("frontend/settings", json=settings)
    visit.open(START)
    visit.find("#source-text").fill(TEXT)
    expect(visit.find("#problem")).to_contain_text("At most 10 characters")
    expect(visit.find("#count")).to_have_text(f"{len(TEXT)} characters of 10")
    assert not visit.requests_to("/translate")


def test_wrong_key_is_reported_and_can_be_corrected(visit: Visit) -> None:
    visit.open(START)
    expect(visit.find("#key-button")).to_be_hidden()
    visit.refuse("translate", status=403, **error("Quota exceeded"))
    visit.find("#source-text").fill("Ein Hund.")
    expect(visit.find("#problem")).to_have_text("Quota exceeded.")
    expect(visit.find("#key")).to_be_hidden()
    visit.refuse("translate", status=403, **error("Invalid access token: it has expired"))
    visit.find("#source-text").fill(TEXT)
    expect(visit.find("#problem")).to_contain_text("This API key was not accepted.")
    expect(visit.find("#source-text")).to_be_focused()
    visit.find("#key-value").fill("right")
    offered = visit.answer("languages")
    visit.refuse("languages", json=[{**each, "targets": ["en"]} for each in offered])
    visit.find("#key-value").press("Enter")
    expect(visit.find("#target-text")).not_to_be_empty()
    # The languages are those of this key.
    expect(visit.find("#source-language option")).to_have_count(2)
    expect(visit.find("#problem")).to_be_hidden()
    expect(visit.find("#key")).to_be_hidden()
    expect(visit.find("#source-text")).to_be_focused()


def test_required_key_is_requested_and_stored_in_the_browser(visit: Visit) -> None:
    settings = visit.answer("frontend/settings") | {"apiKeys": True, "keyRequired": True}
    visit.refuse("frontend/settings", times=2, json=settings)
    visit.open(START + TEXT)
    expect(visit.find("#key-value")).to_be_visible()
    # A key that was copied from a message has such characters around it.
    visit.find("#key-value").fill("\N{ZERO WIDTH SPACE}“secret…”")
    visit.find("#key-value").press("Enter")
    visit.open()
    expect(visit.find("#key-button")).to_be_visible()
    expect(visit.find("#key")).to_be_hidden()
    visit.find("#source-text").fill("Ein Hund.")
    expect(visit.find("#target-text")).not_to_be_empty()
    request = visit.requests_to("/translate")[-1]
    assert request.headers["authorization"] == "Bearer secret"
    assert request.post_data_json["api_key"] == "secret"
    assert not any("secret" in each.url for each in visit.requests)


def test_stream_that_breaks_is_tried_again_and_its_part_stays(visit: Visit) -> None:
    visit.page.add_init_script(
        r"""const { fetch } = window;
        window.fetch = async (address, options) => {
            const streamed = options.body?.includes('"stream":true');
            if (window.whole || !streamed) return fetch(address, options);
            const part = 'event: part\ndata: {"translatedText": "A part", "text": 0}\n\n';
            const parts = [new TextEncoder().encode(part)];
            const body = new ReadableStream({
                pull(controller) {
                    if (parts.length) controller.enqueue(parts.pop());
                    else controller.error(new TypeError("network error"));
                },
            });
            return new Response(body, { headers: { "content-type": "text/event-stream" } });
        };"""
    )
    visit.open(START + "".join(f"Wir haben {n} Hunde und eine Katze gesehen. " for n in range(12)))
    expect(visit.find("#problem")).to_contain_text("The server cannot be reached.")
    expect(visit.find("#target-text")).to_contain_text("A part")
    visit.page.evaluate("window.whole = true")
    expect(visit.find("#target-text")).to_contain_text("11 dogs")


def test_key_prompt_leaves_the_focus_in_a_text_that_is_being_written(visit: Visit) -> None:
    settings = visit.answer("frontend/settings") | {"apiKeys": True, "keyRequired": True}
    visit.refuse("frontend/settings", json=settings)
    visit.open(START)
    expect(visit.find("#key-value")).to_be_focused()
    visit.refuse("translate", times=9, status=401, **error("Please send an API key"))
    visit.find("#source-text").click()
    visit.page.keyboard.type("Ein")
    expect(visit.find("#problem")).to_be_visible()
    visit.page.keyboard.type(" Hund")
    expect(visit.find("#source-text")).to_have_value("Ein Hund")
    expect(visit.find("#key-value")).to_have_value("")


def test_undetectable_texts_and_unknown_languages_are_said_to_be_so(visit: Visit) -> None:
    visit.open("#source=auto&target=en&text=" + TEXT)
    expect(visit.find("#source-language option:checked")).to_contain_text("detected")
    visit.find("#source-text").fill("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ")
    problem = "The language of this text cannot be detected. Choose it in the menu."
    expect(visit.find("#problem")).to_have_text(problem)
    expect(visit.find("#target-text")).to_be_empty()
    expect(visit.find("#source-language option:checked")).to_have_text("Detect language")
    expect(visit.find("#copy")).to_be_hidden()
    expect(visit.find("#alternatives")).to_be_hidden()
    visit.forgive("400")
    for text in ("12345", "https://example.org/a"):
        visit.find("#source-text").fill(text)
        expect(visit.find("#target-text")).to_have_text(text)
        expect(visit.find("#hint")).to_be_hidden()
        expect(visit.find("#source-language option:checked")).to_have_text("Detect language")
    visit.open("#source=tlh&target=en&text=" + TEXT)
    expect(visit.find("#hint")).to_contain_text("does not translate: tlh")
    visit.find("#source-text").press_sequentially("!")
    expect(visit.find("#hint")).to_be_hidden()
