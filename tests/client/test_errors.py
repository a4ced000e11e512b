"""Mapping of error responses and connection failures to exceptions."""

from __future__ import annotations

import pickle

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import (
    AccessDenied,
    DeadlinePassed,
    DragomanError,
    NotFound,
    Overloaded,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    Retries,
    ServerFault,
    TooLarge,
    UnexpectedAnswer,
    Unreachable,
)
from dragoman.errors import error_of, retry_after
from service.api.errors import KeyMissing
from tests.client.support import TRANSLATED, Kind, Service, ask, ok, refused, translate

ONCE = Retries(limit=0)


@pytest.mark.parametrize(
    ("status", "sentence", "error"),
    [
        (400, "xx is not supported; on offer: de, en", RequestRefused),
        (400, str(KeyMissing()), AccessDenied),
        (400, str(KeyMissing("http://keys.example")), AccessDenied),
        (401, "who are you?", AccessDenied),
        (403, "Invalid API key", AccessDenied),
        (403, "Quota exceeded: 9 characters are more than the 0 left of 60", QuotaSpent),
        (404, "there is no model x", NotFound),
        (405, "no such method", RequestRefused),
        (408, "the body did not arrive in time", DeadlinePassed),
        (410, "what made it is no longer on offer", NotFound),
        (413, "the body is too large", TooLarge),
        (429, "Slowdown", RateLimited),
        (456, "Quota exceeded", QuotaSpent),
        (500, "the model failed on this batch", ServerFault),
        (502, "bad gateway", Unreachable),
        (503, "the service is shutting down", Overloaded),
        (504, "not done in time", DeadlinePassed),
        (302, "over there", UnexpectedAnswer),
    ],
)
def test_each_error_status_raises_its_class_with_service_message(
    kind: Kind, status: int, sentence: str, error: type[DragomanError]
) -> None:
    service = Service([refused(status, sentence, x_request_id="r-1", retry_after="7")])
    with pytest.raises(DragomanError) as caught:
        ask(kind, service, translate, retries=ONCE)
    assert type(caught.value) is error
    assert str(caught.value) == sentence
    assert caught.value.status == status
    assert caught.value.request_id == "r-1"
    assert caught.value.retry_after == 7.0
    # Statuses that pass are retried; see test_retrying.
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (httpx.ConnectError("refused"), Unreachable),
        (httpx.ConnectTimeout("silence"), Unreachable),
        (httpx.ReadError(""), Unreachable),
        (httpx.RemoteProtocolError("hung up"), Unreachable),
        (httpx.ReadTimeout("silence"), DeadlinePassed),
        (httpx.PoolTimeout("no connection is free"), DeadlinePassed),
        (httpx.DecodingError("no gzip"), UnexpectedAnswer),
    ],
)
def test_connection_failure_raises_dragoman_error_instead_of_httpx_error(
    kind: Kind, problem: Exception, error: type[DragomanError]
) -> None:
    with pytest.raises(DragomanError) as caught:
        url = "http://ann:secret@127.0.0.1:8000"
        ask(kind, Service([problem]), translate, retries=ONCE, url=url)
    assert type(caught.value) is error
    assert caught.value.status is None
    # The password is left out, because errors are logged.
    assert "http://127.0.0.1:8000" in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>It works!</html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"translatedText": "A dog."}),
        ok(translatedText=["A dog."]),
        httpx.Response(200, content=b"[" * 100_000),
        ok(detectedLanguage="de"),
    ],
)
def test_response_of_another_server_raises_unexpected_answer(
    kind: Kind, answer: httpx.Response
) -> None:
    with pytest.raises(UnexpectedAnswer, match="/translate cannot be read"):
        ask(kind, Service([answer]), translate)


def test_error_without_message_names_status() -> None:
    assert "418" in str(error_of(418, b"{}", {}))
    assert str(error_of(502, b"<h1>Bad\n  gateway</h1>", {})) == "<h1>Bad gateway</h1>"
    assert str(error_of(500, b"[" * 100_000, {})) == "[" * 200


def test_fewer_translations_than_texts_are_refused(kind: Kind) -> None:
    one = {name: [value] for name, value in TRANSLATED.items()}
    with pytest.raises(UnexpectedAnswer, match="2 texts were sent, and 1 came back"):
        ask(kind, Service([ok(**one)]), lambda client: client.translate(["a", "b"], target="en"))


def test_errors_survive_pickling() -> None:
    error = error_of(503, b'{"error": "full"}', {"retry-after": "3", "x-request-id": "r"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is Overloaded
    assert (str(again), again.status, again.retry_after, again.request_id) == ("full", 503, 3, "r")


@pytest.mark.parametrize(
    ("header", "date", "seconds"),
    [
        ("", "", None),
        ("5", "", 5.0),
        (" 0.5 ", "", 0.5),
        ("-5", "", None),
        ("soon", "", None),
        ("1e400", "", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "", None),
        ("Mon, 01 Jan 2030 00:00:00 +99999999999999", "", None),
        ("Sat, 21 Nov 2026 10:00:09 GMT", "Sat, 21 Nov 2026 10:00:00 GMT", 9.0),
        ("Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:00:09 GMT", 0.0),
        ("Sat, 21 Nov 1996 10:00:00 GMT", "", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, date: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": header, "date": date}) == seconds
    assert retry_after({}) is None


@given(st.text(), st.text())
def test_arbitrary_retry_after_never_raises(header: str, date: str) -> None:
    seconds = retry_after({"retry-after": header, "date": date})
    assert seconds is None or seconds >= 0
