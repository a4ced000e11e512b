"""Characters charged, compared with the letters that models were given and clients received.

``--hypothesis-profile=thorough`` checks 10,000 texts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

from service.bootstrap import Service
from service.engine.group import EngineGroup
from service.settings import Settings
from service.translation import translator
from service.translation.errors import Overloaded
from tests.support.fronts import owning, worker_of
from tests.support.toy import ByteTokenizer, put_bundle

SOUP = st.sampled_from(
    [
        *(
            "<",
            ">",
            "<ä ",
            "<_ ",
            "<: ",
            "<b>",
            "</b>",
            "<!",
            "<!--",
            "-->",
            "<?",
            "?>",
            "</",
            "/>",
        ),
        *("<![CDATA[", "]]>", "<script>", "</script>", "<p translate=no>", "<br>", '<a b="', "'"),
        *("&amp;", "&#65;", "&lt", "/>", "<x/>", "Ein Hund. ", "ä", "{name}", "\n", " "),
    ]
)
TAGS = st.tuples(
    st.sampled_from("äbE_:-/!?1 <") | st.characters(codec="utf-8"),
    st.sampled_from(["Ein Hund. ", "Der Mann sieht", " a='b", ""]),
).map(lambda parts: "<{}{}>".format(*parts))
ANYTHING = SOUP | TAGS | st.text(st.characters(codec="utf-8"), max_size=5)
TEXTS = st.lists(ANYTHING, max_size=12).map("".join)
ROOT = {"source": "de", "target": "en", "beam_size": 1}
DEEPL = {"source_lang": "DE", "target_lang": "EN", "beam_size": 1}
FORMATS: list[dict[str, Any]] = [{"format": kind} for kind in ("text", "html")]
TAGS_OF_DEEPL: list[dict[str, Any]] = [{}, {"tag_handling": "html"}, {"tag_handling": "xml"}]
Form = tuple[str, str, str, dict[str, Any]]
"""Method, path, the field of the text, and the other fields."""
FORMS: list[Form] = [
    *(
        ("POST", "/translate", "q", {**ROOT, **f, "stream": s})
        for f in FORMATS
        for s in (False, True)
    ),
    *(("POST", "/v2/translate", "text", {**DEEPL, **tags}) for tags in TAGS_OF_DEEPL),
    ("GET", "/translate", "q", {"langpair": "de|en"}),
    *(("POST", "/translate", "text", {**DEEPL, **tags}) for tags in TAGS_OF_DEEPL),
    ("POST", "/imme", "text_list", DEEPL),
    *(("POST", "/language/translate/v2", "q", {**ROOT, **each}) for each in FORMATS),
]
SENTENCES = [f"Satz {number} ist <b>lang</b>. " for number in range(6)]
PLAIN = [len(each) - len("<b></b>") for each in SENTENCES]
STREAM = {"source": "de", "target": "en", "format": "html", "stream": True}


class Charged:
    """A service with a worker in front, the letters its models were given, and its usage."""

    def __init__(self, service: Service, apps: dict[str, ASGIApp]) -> None:
        self.service = service
        self.apps = apps
        self.given: list[tuple[int, ...]] = []
        self.parts = 0
        """Parts of the last stream that its client has received."""

    async def used(self) -> int:
        while self.service.drain.running:
            await asyncio.sleep(0)
        async with client_of(self.service.app) as client:
            characters: int = (await client.get("/v2/usage")).json()["character_count"]
        return characters

    async def letters_and_charge(self, front: str, text: str, form: Form) -> list[int]:
        method, path, name, others = form
        listed = path == "/v2/translate" or name == "text_list"
        fields = {**others, name: [text] if listed else text}
        self.given.clear()
        before = await self.used()
        async with client_of(self.apps[front]) as client:
            sent: dict[str, Any] = {"params" if method == "GET" else "json": fields}
            response = await client.request(method, path, **sent)
        assert response.status_code in (200, 400, 413), response.text
        letters = "".join(map(ByteTokenizer().decode, self.given))
        return [sum(map(str.isalpha, letters)), await self.used() - before]

    async def stream(self, front: str, stop_after: int | None = None) -> tuple[int, str]:
        """Characters charged for a stream whose client hangs up after some parts, and its body."""
        before = await self.used()
        hung_up, body, self.parts = asyncio.Event(), "", 0
        request = json.dumps({**STREAM, "q": "".join(SENTENCES)}).encode()
        unread = [{"type": "http.request", "body": request}]

        async def receive() -> Message:
            if unread:
                return unread.pop()
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal body
            if not hung_up.is_set():
                body += message.get("body", b"").decode()
            self.parts = body.count("event: part")
            if self.parts == stop_after:
                hung_up.set()
                # The client's end of the connection is noticed in another turn.
                await asyncio.sleep(0.01)

        await self.apps[front](scope_of("/translate"), receive, send)
        return await self.used() - before, body


def scope_of(path: str) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"host", b"test")]
    named = {"path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
    return {"type": "http", "method": "POST", "scheme": "http", "client": ("a", 1), **named}


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Charged]]:
    path = tmp_path_factory.mktemp("charges")
    put_bundle(path / "bundles", "shout-de-en", "de", "en")
    settings = Settings(bundles=path / "bundles", state=path / "state", slots=8, result_megabytes=0)
    decode = EngineGroup.decode

    async def noting(engine: EngineGroup, source_ids: Any, *others: Any) -> Any:
        charged.given.append(source_ids)
        return await decode(engine, source_ids, *others)

    async def open(stack: AsyncExitStack) -> Charged:
        service = await stack.enter_async_context(owning(settings, path / "owner"))
        worker, _ = await stack.enter_async_context(worker_of(settings, path / "owner"))
        return Charged(service, {"one process": service.app, "worker": worker})

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(EngineGroup, "decode", noting)
        stack = AsyncExitStack()
        charged = runner.run(open(stack))
        yield runner, charged
        runner.run(stack.aclose())


@pytest.mark.parametrize("front", ["one process", "worker"])
@given(TEXTS, st.sampled_from(FORMS))
def test_every_letter_that_a_model_was_given_is_charged(
    opened: tuple[asyncio.Runner, Charged], front: str, text: str, form: Form
) -> None:
    runner, charged = opened
    letters, characters = runner.run(charged.letters_and_charge(front, text, form))
    assert letters <= characters <= len(text)


@pytest.mark.parametrize("form", FORMS)
def test_text_is_charged_in_every_dialect_and_its_tags_only_where_they_are_text(
    opened: tuple[asyncio.Runner, Charged], form: Form
) -> None:
    runner, charged = opened
    _, path, _, fields = form
    markup = path == "/imme" or "tag_handling" in fields or fields.get("format") == "html"
    letters, characters = runner.run(charged.letters_and_charge("worker", "<b>Hund</b> da", form))
    assert (letters, characters) == ((6, 7) if markup else (8, 14))


@pytest.mark.parametrize("front", ["one process", "worker"])
def test_stream_whose_client_hangs_up_is_charged_for_its_parts(
    opened: tuple[asyncio.Runner, Charged], front: str
) -> None:
    runner, charged = opened
    for stop_after in (1, 4):
        characters, _ = runner.run(charged.stream(front, stop_after))
        assert sum(PLAIN[:stop_after]) <= characters + 1 <= sum(PLAIN)
    whole, body = runner.run(charged.stream(front))
    assert "event: done" in body
    assert whole == sum(PLAIN)


@pytest.mark.parametrize("front", ["one process", "worker"])
def test_stream_that_fails_is_charged_for_its_parts(
    opened: tuple[asyncio.Runner, Charged], front: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, charged = opened
    passes = translator.forced_passes

    async def failing(directed: Any, sentence: Any, *others: Any) -> Any:
        if "Satz 3" not in sentence.text:
            return await passes(directed, sentence, *others)
        while charged.parts < 3:
            await asyncio.sleep(0)
        raise Overloaded

    monkeypatch.setattr(translator, "forced_passes", failing)
    characters, body = runner.run(charged.stream(front))
    assert (body.count("event: part"), body.count("event: error")) == (3, 1)
    assert sum(PLAIN[:3]) <= characters + 1 <= sum(PLAIN[:4])
