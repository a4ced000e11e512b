"""Differential test: a service, one that remembers no readings, and a worker with its owner.

The three get the same generated requests. Their answers, their metrics and the usage of their
callers have to be the same.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from service import bootstrap
from service.bootstrap import Service
from service.settings import Settings
from service.state.database import FILE_NAME, Database
from service.state.keys import KeyStore, Limits
from tests.support.fronts import owning, worker_of
from tests.support.toy import put_bundle

pytestmark = pytest.mark.slow

KEY, SPENT, WRONG = "key-of-ann-0123456789", "key-of-bob-0123456789", "no-key-of-anyone-0123"
COUNTED = (
    *("nmt_requests_total", "nmt_requests_running", "nmt_request_failures_total"),
    *("nmt_characters_total", "nmt_tokenize_duration_seconds_count", "nmt_source_tokens_total"),
    *("nmt_target_tokens_total", "nmt_cache_lookups_total", "nmt_finished_sentences_total"),
)
VARYING = {"timings", "id"}
"""Fields of answers."""
VARYING_IN_EVENTS = re.compile(r',"(timings":{[^}]*}|id":"[^"]*")')
VARYING_HEADERS = {
    *("x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time"),
    *("x-translation-id", "content-length"),
}
USAGE = "/v2/usage"
WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sent:
    path: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """A service under test and its client."""

    service: Service
    client: httpx.AsyncClient

    async def answer(self, sent: Sent) -> tuple[object, ...]:
        """The parts of an answer that must be equal on both paths."""
        response = await self.client.post(sent.path, headers=sent.headers, content=sent.body)
        headers = {name: value for name, value in response.headers.items()}
        shown = {name: headers[name] for name in headers.keys() - VARYING_HEADERS}
        if response.headers["content-type"] == "application/json":
            body = response.json()
            content: object = {name: body[name] for name in body if name not in VARYING}
            order = list(body)
        else:
            content, order = VARYING_IN_EVENTS.sub("", response.text), []
        return response.status_code, content, order, headers.keys(), shown

    async def counts(self) -> Counter[tuple[str, ...]]:
        """Values of the metrics, and characters charged to each key and without a key."""
        found = Counter[tuple[str, ...]]()
        for family in self.service.metrics.registry.collect():
            for sample in family.samples:
                if sample.name in COUNTED and sample.labels.get("route") != USAGE:
                    found[sample.name, *sample.labels.values()] = int(sample.value)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.service.app), base_url="http://owner"
        ) as client:
            for key in (KEY, SPENT, ""):
                headers = {"authorization": f"Bearer {key}"} if key else {}
                usage = (await client.get(USAGE, headers=headers)).json()
                found[USAGE, key] = usage["character_count"]
        return found


JUNK = (None, "", 0, -1, 99, 1.5, True, [], {}, [1], ["a", 1], "x", [["a"]], float("nan"), 10**30)


def mostly(valid: st.SearchStrategy[Any], *invalid: Any) -> st.SearchStrategy[Any]:
    """A valid value, and in one case of six one of ``invalid`` or of any type."""
    other = st.sampled_from([*invalid, *JUNK])
    return st.integers(0, 5).flatmap(lambda drawn: valid if drawn else other)


texts = st.one_of(
    st.text(max_size=30),
    st.text("ab .!?\n\t12{}<br>&;\u2028\u200b\u0301", max_size=30),
    st.sampled_from(
        [
            "ein wort. noch eins.",
            "Das Wetter ist heute schön. Wir gehen spazieren.",
            "Il fait beau aujourd'hui à Paris. Nous sortons.",
            "zwei\n\nzeilen ",
            "12 und 7",
            "wort " * 70,
        ]
    ),
)
REFUSED_TEXTS = (
    "a\ud800",
    "\udfff",
    "x" * 70,
    "wort. " * 700,
    "wort " * 1200,
    ["a"] * 7,
    ["a", ""],
)
UNKNOWN = ("zz", "x" * 65, "not a code", "\ud800")
sources = mostly(st.one_of(texts, st.lists(texts, min_size=1, max_size=6)), *REFUSED_TEXTS)
from_languages = mostly(st.sampled_from(["de", "DE", "de-AT", "auto", "fr", "en"]), *UNKNOWN)
to_languages = mostly(st.sampled_from(["en", "EN", "en_GB", "de"]), "fr", "auto", *UNKNOWN)
number = mostly(st.integers(1, 4), "2", 2.0, 5, 6)
flag = mostly(st.booleans(), "true")
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "beam_size": number,
    "num_hypotheses": number,
    "length_penalty": mostly(st.floats(-10, 10), 11),
    "min_decoding_length": number,
    "max_decoding_length": number,
    "no_repeat_ngram_size": number,
    "return_scores": flag,
    "disable_unk": flag,
    "keep_figures": flag,
    "return_alternatives": flag,
    "suppress_sequences": mostly(st.lists(texts, max_size=3), "\ud800"),
    "target_prefix": mostly(texts, "\ud800"),
    "priority": mostly(st.sampled_from(["bulk", "interactive"])),
    "model": mostly(st.sampled_from(["shout-de-en", "twin-de-en"]), "shout-fr-de", "none"),
    "unknown": st.sampled_from(JUNK),
}
LIBRETRANSLATE: dict[str, st.SearchStrategy[Any]] = {
    **OPTIONS,
    "format": mostly(st.sampled_from(["text", "html"]), "pdf"),
    "alternatives": number,
    "glossary": mostly(st.sampled_from([{"ab": "XY"}, "ab\tXY"]), "ab"),
    "prefix": mostly(st.just("AB")),
    "confidence": flag,
    "attention": flag,
    "timings": flag,
    "stream": flag,
    "api_key": mostly(st.sampled_from([KEY, SPENT, ""]), WRONG),
}
DEEPL: dict[str, st.SearchStrategy[Any]] = {
    **OPTIONS,
    "split_sentences": mostly(st.sampled_from(["0", "1", "nonewlines", 0, 1])),
    "formality": mostly(st.just("more")),
    "tag_handling": mostly(st.sampled_from(["xml", "html"])),
    "glossary_id": st.sampled_from(["", "none", None]),
    "model_type": mostly(st.just("latency_optimized")),
    "auth_key": mostly(st.sampled_from([KEY, SPENT, ""]), WRONG),
    "show_billed_characters": flag,
}
FORMS = {
    "/translate": (
        {"q": sources, "source": from_languages, "target": to_languages},
        LIBRETRANSLATE,
    ),
    "/v2/translate": (
        {"text": sources, "source_lang": from_languages, "target_lang": to_languages},
        DEEPL,
    ),
}
PLAIN: dict[str, dict[str, Any]] = {
    "/translate": {"q": "ein wort", "source": "de", "target": "en"},
    "/v2/translate": {"text": ["ein wort"], "source_lang": "DE", "target_lang": "EN"},
}
content_types = st.sampled_from(
    ["application/json"] * 12
    + ["application/json; charset=utf-8", "Application/JSON", "application/problem+json", "text/x"]
)
other_headers = st.sampled_from(
    [
        ("authorization", f"Bearer {KEY}"),
        ("authorization", f"DeepL-Auth-Key {SPENT}"),
        ("authorization", f"Bearer {WRONG}"),
        ("authorization", "Basic abc"),
        ("x-api-key", KEY),
        ("x-request-timeout", "30"),
        ("x-request-timeout", "0"),
        ("x-request-timeout", "soon"),
        ("content-type", "text/plain"),
        ("content-type", "application/json"),
        ("content-encoding", "identity"),
        ("content-encoding", "gzip"),
    ]
)


@st.composite
def objects(draw: st.DrawFn, path: str) -> list[tuple[str, Any]]:
    """Fields of a request: those of a plain one, some of them changed, missing or repeated."""
    required, optional = FORMS[path]
    given = dict(PLAIN[path])
    for name in draw(st.lists(st.sampled_from(sorted(required)), max_size=3)):
        given[name] = draw(required[name])
    for name in draw(st.lists(st.sampled_from(sorted(optional)), max_size=3)):
        given[name] = draw(optional[name])
    fields = list(given.items())
    match draw(st.integers(0, 19)):
        case 1:
            del fields[draw(st.integers(0, len(fields) - 1))]
        case 2:
            name = draw(st.sampled_from(sorted(required)))
            fields.append((name, draw(required[name])))
    return fields


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    path = draw(st.sampled_from(sorted(FORMS)))
    fields = draw(objects(path))
    pairs = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields]
    body = ("{" + ", ".join(pairs) + "}").encode()
    match draw(st.integers(0, 19)):
        case 1:
            body = body[: draw(st.integers(0, len(body)))]
        case 2:
            body = draw(st.sampled_from([b"\xef\xbb\xbf" + body, b"\xff" + body, body + b" \n"]))
        case 3:
            body = draw(st.sampled_from([b"", b"null", b"[]", b'"x"', b"{", b"[" * 5000, b"1"]))
        case 4:
            values = json.dumps(dict(fields), ensure_ascii=False)
            body = values.encode("utf-8", "surrogatepass")
    headers = [("content-type", draw(content_types)), ("x-request-id", "r1")]
    if draw(st.booleans()):
        headers += draw(st.lists(other_headers, min_size=1, max_size=2))
        headers = draw(st.permutations(headers))
    return Sent(path, headers, body)


shared: dict[str, Any] = {}


@pytest.fixture(scope="module", autouse=True)
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Opens the three services in one event loop."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        opened = {
            name: runner.run(_opened(stack, tmp_path_factory.mktemp(name), name))
            for name in ("remembering", "forgetful", "worker")
        }
        shared.update(runner=runner, opened=opened)
        yield
        runner.run(stack.aclose())
        shared.clear()


async def _opened(stack: AsyncExitStack, directory: Path, name: str) -> Served:
    for model, source, target in (
        ("shout-de-en", "de", "en"),
        ("shout-fr-de", "fr", "de"),
        ("twin-de-en", "de", "en"),
    ):
        put_bundle(directory / "bundles", model, source, target)
    settings = Settings(
        bundles=directory / "bundles",
        state=directory / "state",
        slots=8,
        max_beam_size=4,
        max_texts=6,
        max_characters=5000,
        max_queue_tokens=1500,
        reload_seconds=0,
        api_keys="optional",
    )
    settings.state.mkdir()
    async with Database(settings.state / FILE_NAME) as database:
        await KeyStore(database).add("ann", KEY)
        await KeyStore(database).add("bob", SPENT, limits=Limits(characters_per_month=40))
    owner = directory / "owner"
    with pytest.MonkeyPatch.context() as patch:
        if name == "forgetful":
            patch.setattr(bootstrap, "readings_bytes", lambda _: 0)
        service = await stack.enter_async_context(owning(settings, owner))
    if name == "worker":
        _, client = await stack.enter_async_context(worker_of(settings, owner))
    else:
        transport = httpx.ASGITransport(service.app)
        client = httpx.AsyncClient(transport=transport, base_url="http://test")
        await stack.enter_async_context(client)
    return Served(service, client)


@hypothesis_settings(max_examples=100)
@given(st.lists(requests(), min_size=4, max_size=10))
def test_same_requests_get_the_same_answers_and_counts(sent: list[Sent]) -> None:
    async def ask() -> None:
        remembering, forgetful, worker = opened = shared["opened"].values()
        before = [await each.counts() for each in opened]
        for each in (*sent, *sent[:3]):
            expected = await forgetful.answer(each)
            assert await remembering.answer(each) == expected
            assert await worker.answer(each) == expected
        counted = await forgetful.counts() - before[1]
        assert await remembering.counts() - before[0] == counted
        # Counts of a worker come over a connection.
        waiting = time.monotonic()
        while (found := await worker.counts() - before[2]) != counted:
            assert time.monotonic() - waiting < WAIT_SECONDS, found
            await asyncio.sleep(0.01)

    shared["runner"].run(ask())
