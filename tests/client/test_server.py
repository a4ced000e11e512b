"""Both clients against a real server with a slow model that returns upper case."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from dragoman import AccessDenied, AsyncClient, Client, Overloaded, QuotaSpent, Retries, TooLarge
from tests.support.keys import add_key
from tests.support.server import Server, running
from tests.support.shouting import put_bundle
from tests.support.waiting import wait_until

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


def metrics(server: Server) -> dict[str, float]:
    lines = httpx.get(server.address + "/metrics").text.splitlines()
    values = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in values}


def hung_up(server: Server) -> float:
    # The series exists only after its first event.
    return metrics(server).get('nmt_request_failures_total{reason="disconnect"}', 0.0)


def running_sentences(server: Server) -> float:
    return metrics(server)['nmt_sentences_running{device="cpu",model="shout-de-en"}']


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
        assert client.attention(parts.result, sentence=5).rows[-2] == "."


def test_closing_a_stream_frees_its_rows(slow: Server) -> None:
    before = hung_up(slow)
    with Client(slow.address) as client:
        with client.stream(SENTENCES, source="de", target="en") as parts:
            assert next(parts).text == SENTENCES[0].upper()
        wait_until(lambda: hung_up(slow) == before + 1)
        wait_until(lambda: running_sentences(slow) == 0)


def test_garbage_collecting_a_stream_frees_its_rows(slow: Server) -> None:
    before = hung_up(slow)
    with Client(slow.address) as client:
        for part in client.stream(SENTENCES, source="de", target="en"):
            assert part.text == SENTENCES[0].upper()
            break
        wait_until(lambda: hung_up(slow) == before + 1)
        wait_until(lambda: running_sentences(slow) == 0)


async def leaving(client: AsyncClient, server: Server) -> None:
    async with client.stream(SENTENCES, source="de", target="en") as parts:
        assert (await anext(parts)).text == SENTENCES[0].upper()


async def cancelling(client: AsyncClient, server: Server) -> None:
    call = asyncio.create_task(client.translate(SENTENCES, source="de", target="en"))
    await asyncio.to_thread(wait_until, lambda: running_sentences(server) > 0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def stopping_many(client: AsyncClient, server: Server) -> None:
    many = client.translate_many(SENTENCES, source="de", target="en", texts_per_request=24)
    first = asyncio.ensure_future(anext(many))
    await asyncio.to_thread(wait_until, lambda: running_sentences(server) > 0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.parametrize("leave", [leaving, cancelling, stopping_many])
async def test_cancelling_requests_frees_their_rows(
    slow: Server, leave: Callable[[AsyncClient, Server], Awaitable[None]]
) -> None:
    before = hung_up(slow)
    async with AsyncClient(slow.address) as client:
        await leave(client, slow)
        await asyncio.to_thread(wait_until, lambda: hung_up(slow) > before)
        await asyncio.to_thread(wait_until, lambda: running_sentences(slow) == 0)
        again = await client.translate("Noch da?", source="de", target="en")
        assert again.text == "NOCH DA?"


def test_too_large_text_raises_too_large(slow: Server) -> None:
    with Client(slow.address) as client, pytest.raises(TooLarge, match="tokens"):
        client.translate("a" * 2000, source="de", target="en")


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
        with pytest.raises(AccessDenied, match="to get an API key"):
            ask(None)
        with pytest.raises(AccessDenied, match="Invalid API key"):
            ask("wrong")
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


def test_server_without_models_raises_overloaded_without_retries(tmp_path: Path) -> None:
    with (
        running(bundles_in(tmp_path), "--load-seconds", "600", ready=False) as server,
        Client(server.address, retries=0) as client,
    ):
        assert not client.ready().ready
        with pytest.raises(Overloaded):
            client.translate("Hund", source="de", target="en")
