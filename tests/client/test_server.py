"""Both clients against a real server with a slow model that returns upper case."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dragoman import AccessDenied, AsyncClient, Client, QuotaSpent, Retries
from tests.support.books import read_books, series
from tests.support.keys import add_key
from tests.support.server import Server, running
from tests.support.toy import put_bundle
from tests.support.waiting import cancelled, wait_until

pytestmark = pytest.mark.slow

FRUITS = ["Birnen", "Feigen", "Kirschen", "Mandeln", "Orangen", "Pflaumen", "Quitten", "Trauben"]
VERBS = ["liegen", "fehlen", "reifen", "wachsen", "fallen", "schimmeln"]
SENTENCES = [f"Hier {verb} {fruit}." for verb in VERBS for fruit in FRUITS]
"""A long request: twelve batches of four sentences."""


def bundles_in(directory: Path) -> Path:
    put_bundle(directory / "bundles", "shout-de-en", "de", "en")
    put_bundle(directory / "bundles", "shout-en-de", "en", "de")
    return directory / "bundles"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with four slots that takes more than half a second for a sentence."""
    bundles = bundles_in(tmp_path_factory.mktemp("slow"))
    with running(bundles, "--step-seconds", "0.03", slots=4) as server:
        yield server


def hung_up(server: Server) -> float:
    books = read_books(httpx.get(server.address + "/metrics").text)
    # The series exists only after its first event.
    return series(books, "nmt_request_failures_total").get(("disconnect",), 0.0)


def running_sentences(server: Server) -> float:
    books = read_books(httpx.get(server.address + "/metrics").text)
    return series(books, "nmt_sentences_running")["cpu", "shout-de-en"]


def test_first_parts_arrive_before_all_sentences_are_translated(slow: Server) -> None:
    text = " ".join(SENTENCES[:6])
    with Client(slow.address) as client:
        with client.stream(text, source="de", target="en", attention=True) as parts:
            received = [next(parts)]
            # With four slots, the remaining sentences are not translated yet.
            assert running_sentences(slow) > 0
            received += parts
        assert "".join(part.text for part in received) == text.upper() == parts.result.text
        assert len(received) > 1
        kept = client.attention(parts.result, layer="all", sentence=5)
        assert kept.rows[-2] == "."
        pair: Any = {"source": "de", "target": "en"}
        texts = SENTENCES[5], SENTENCES[5].upper()
        given = client.attention_of(*texts, layer="all", **pair)
        assert np.allclose(given.weights, kept.weights, atol=1e-5) and given.rows == kept.rows
        assert client.alignment_of(*texts, **pair) == client.alignment(parts.result, sentence=5)
        [leg] = client.legs(parts.result)
        assert [each.target for each in leg.sentences] == [each.upper() for each in SENTENCES[:6]]


def close_a_stream(client: Client) -> None:
    with client.stream(SENTENCES, source="de", target="en") as parts:
        assert next(parts).text == SENTENCES[0].upper()


def drop_a_stream(client: Client) -> None:
    for part in client.stream(SENTENCES, source="de", target="en"):
        assert part.text == SENTENCES[0].upper()
        break


@pytest.mark.parametrize("leave", [close_a_stream, drop_a_stream])
def test_leaving_a_stream_frees_its_rows(slow: Server, leave: Callable[[Client], None]) -> None:
    before = hung_up(slow)
    with Client(slow.address) as client:
        leave(client)
        wait_until(lambda: hung_up(slow) == before + 1)
        wait_until(lambda: running_sentences(slow) == 0)


async def test_cancelled_calls_free_their_rows(slow: Server) -> None:
    def left(before: float) -> bool:
        return hung_up(slow) > before

    pair: Any = {"source": "de", "target": "en"}
    async with AsyncClient(slow.address) as client:
        calls: list[Awaitable[Any]] = [
            client.translate(SENTENCES, **pair),
            anext(client.translate_many(SENTENCES, **pair, texts_per_request=24)),
            anext(aiter(client.stream(SENTENCES * 2, **pair))),
        ]
        for begun in calls:
            before = hung_up(slow)
            call = asyncio.ensure_future(begun)
            await asyncio.to_thread(wait_until, lambda: running_sentences(slow) > 0)
            await cancelled(call)
            await asyncio.to_thread(wait_until, partial(left, before))
            await asyncio.to_thread(wait_until, lambda: running_sentences(slow) == 0)
        assert (await client.translate("Noch da?", **pair)).text == "NOCH DA?"


def test_valid_key_is_accepted_and_missing_key_is_named(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    asyncio.run(add_key(state, "tester", "a-key"))
    asyncio.run(add_key(state, "poor", "poor", characters_per_month=10))
    with running(bundles_in(tmp_path), api_keys="required", state=state) as server:

        def ask(key: str | None) -> str:
            with Client(server.address, key, retries=0) as client:
                return client.translate("Drei Worte hier.", source="de", target="en").text

        assert ask("a-key") == "DREI WORTE HIER."
        for key in (None, "wrong"):
            with pytest.raises(AccessDenied):
                ask(key)
        with pytest.raises(QuotaSpent, match="this month"):
            ask("poor")
        with Client(server.address, "poor") as client:
            assert client.usage().limit == 10


def test_call_during_server_restart_is_retried_and_succeeds(tmp_path: Path) -> None:
    first_bundles, second_bundles = (bundles_in(tmp_path / name) for name in ("first", "second"))
    proverb = "Wer zuerst kommt, der mahlt zuerst, sagt man hier bei uns."
    pauses: list[float] = []
    with ExitStack() as servers, ThreadPoolExecutor(1) as pool:
        first = servers.enter_context(running(first_bundles, "--step-seconds", "0.06"))

        def take_over(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 1:
                assert early.result().text == proverb.upper()
                first.process.wait()
                servers.enter_context(running(second_bundles, "--port", str(first.port)))

        with (
            Client(first.address) as waiting,
            Client(first.address, sleep=take_over, retries=Retries(draw=lambda: 0.0)) as late,
        ):
            early = pool.submit(waiting.translate, proverb, source="de", target="en")
            wait_until(lambda: running_sentences(first) == 1)
            first.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not late.ready().ready)
            translation = late.translate("Wer spät kommt.", source="de", target="en")
        assert translation.text == "WER SPäT KOMMT."
        assert first.process.returncode == 0
    assert pauses[0] == 5.0, "Retry-After of a draining service"
