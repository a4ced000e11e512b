"""``translate_many``: packing, order, concurrency, cancellation."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AsyncClient, Client, RequestRefused
from dragoman.sending import Packer
from tests.client.support import Kind, Service, ask, read_many, refused
from tests.support.waiting import until


def shout(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["q"]
    every = {"model": "m", "finish_reason": "complete", "truncated": False}
    answer = {name: [translation] * len(texts) for name, translation in every.items()}
    return httpx.Response(200, json={"translatedText": [t.upper() for t in texts], **answer})


@given(st.lists(st.text(max_size=9)), st.integers(1, 5), st.integers(1, 12))
def test_packs_keep_all_texts_in_order_within_limits(
    texts: list[str], most: int, characters: int
) -> None:
    packer = Packer(most, characters)
    packs = [pack for text in texts if (pack := packer.add(text))]
    if rest := packer.rest():
        packs.append(rest)
    assert [text for pack in packs for text in pack] == texts
    for pack in packs:
        assert 1 <= len(pack) <= most
        assert len(pack) == 1 or sum(map(len, pack)) <= characters


def test_translate_many_keeps_order_and_sends_bulk_priority(kind: Kind) -> None:
    bodies: list[dict[str, Any]] = []

    def service(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return shout(request)

    texts = [f"text {number}" for number in range(50)]
    found = ask(
        kind,
        service,
        lambda client: read_many(client, iter(texts), target="en", texts_per_request=3),
    )
    assert [each.text for each in found] == [text.upper() for text in texts]
    assert {body["priority"] for body in bodies} == {"bulk"}
    assert sorted(len(body["q"]) for body in bodies) == [2, *[3] * 16]


def test_texts_are_read_only_for_requests_under_way(kind: Kind) -> None:
    read: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(1000):
            read.append(number)
            yield str(number)

    def take_one(client: Any) -> Any:
        many = client.translate_many(
            texts(), target="en", texts_per_request=2, concurrency=3, priority="interactive"
        )
        if isinstance(client, Client):
            first = next(many)
            many.close()
            return first

        async def take() -> Any:
            first = await anext(many)
            await many.aclose()
            return first

        return take()

    assert ask(kind, shout, take_one).text == "0"
    assert len(read) <= 3 * 2 + 1


def test_async_iterable_of_texts_is_accepted() -> None:
    async def texts() -> AsyncIterator[str]:
        for number in range(5):
            await asyncio.sleep(0)
            yield str(number)

    found = ask("async", shout, lambda client: read_many(client, texts(), target="en"))
    assert [each.text for each in found] == ["0", "1", "2", "3", "4"]


def test_error_ends_translate_many(kind: Kind) -> None:
    service = Service([refused(400, "no such language")] * 9)
    many = {"target": "xx", "texts_per_request": 1}
    with pytest.raises(RequestRefused, match="no such language"):
        ask(kind, service, lambda client: read_many(client, ["a"] * 9, **many))


def test_requests_run_concurrently() -> None:
    # The barrier breaks, and fails the test, unless three requests wait at the same time.
    together = threading.Barrier(3, timeout=30)

    def service(request: httpx.Request) -> httpx.Response:
        together.wait()
        return shout(request)

    many = {"target": "en", "texts_per_request": 1, "concurrency": 3}
    found = ask("sync", service, lambda client: read_many(client, [*"abcdef"], **many))
    assert [each.text for each in found] == [*"ABCDEF"]


def test_stopping_early_cancels_requests_under_way() -> None:
    begun: list[str] = []
    cancelled: list[str] = []

    async def service(request: httpx.Request) -> httpx.Response:
        [text] = json.loads(request.content)["q"]
        begun.append(text)
        if text != "a":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(text)
                raise
        return shout(request)

    async def talk() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(service))
        async with http, AsyncClient(http_client=http) as client:
            many = client.translate_many(
                [*"abcdef"], target="en", texts_per_request=1, concurrency=3
            )
            assert (await anext(many)).text == "A"
            await until(lambda: {"b", "c"} <= {*begun})
            assert not cancelled
            await many.aclose()

    asyncio.run(talk())
    assert sorted(cancelled) == ["b", "c"]
