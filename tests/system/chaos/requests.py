"""Random requests of the chaos test, with checks of their answers."""

from __future__ import annotations

import json
import random
import re
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.system.chaos.wire import Request

MARK = "geheim"
"""Contained in every text and every key; the log must not contain it in any spelling."""

_PROSE = (
    "der die das ein eine und mit auf im Haus Wiese Hund Kind Mann Frau spielt läuft sieht "
    "kleine rote Straße Fußball Abend Wasser schnell langsam neben vor hinter Männer Jungen"
)
_WORDS = _PROSE.split()
_TAGS = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    request: Request
    is_correct: Callable[[bytes], bool]
    """Whether the body of an answer with status 200 is correct."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The client's knowledge of the server."""

    key: str
    wrong_key: str
    exact: bool
    """Whether translations are capitals, so that all of them can be checked."""


def random_request(random: random.Random, facts: ServerFacts) -> CheckedRequest:
    """A request of a random kind."""
    kinds: list[tuple[int, Callable[[_Writer], CheckedRequest]]] = [
        (30, _single),
        (10, _list),
        (10, _html),
        (12, _streamed),
        (8, _alternatives),
        (8, _with_attention),
        (8, _form),
        (5, _detected),
        (8, _deepl),
        (6, _deepl_xml),
        (4, _deepl_query),
        (3, _attention),
        (2, _scored),
        (2, _unknown_language),
        (2, _wrong_key),
        (2, _pivoted),
    ]
    (make,) = random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    return make(_Writer(random, facts))


class _Writer:
    def __init__(self, random: random.Random, facts: ServerFacts) -> None:
        self.random = random
        self.facts = facts

    def sentence(self, words: int | None = None) -> str:
        count = words or min(30, 1 + int(self.random.expovariate(1 / 6)))
        chosen = [f"{MARK}{self.random.randrange(10_000)}", *self.random.choices(_WORDS, k=count)]
        return " ".join(chosen) + self.random.choice(".!?")

    def text(self) -> str:
        """One word, one sentence or several; some occur twice in a run."""
        if self.random.random() < 0.1:
            return f"{MARK}0 Hund."
        if self.random.random() < 0.2:
            return f"{MARK}{self.random.randrange(10_000)}"
        count = self.random.choices([1, 2, 3, 6], [5, 3, 2, 1])[0]
        return " ".join(self.sentence() for _ in range(count))

    def pair(self) -> dict[str, str]:
        source, target = self.random.choice([("de", "en"), ("de", "en"), ("en", "de")])
        return {"source": source, "target": target}

    def same(self, translated: str, text: str) -> bool:
        return not self.facts.exact or translated == shouted(text)

    def translate(self, is_correct: Callable[[bytes], bool], **fields: object) -> CheckedRequest:
        body = json.dumps({**self.pair(), **fields}).encode()
        return CheckedRequest(Request("POST", "/translate", body), is_correct)


def shouted(text: str) -> str:
    """The test model's translation of a text."""
    return text.encode().upper().decode()


def _single(writer: _Writer) -> CheckedRequest:
    text = writer.text()
    return writer.translate(lambda body: writer.same(_field(body, "translatedText"), text), q=text)


def _list(writer: _Writer) -> CheckedRequest:
    texts = [writer.text() for _ in range(writer.random.randint(2, 4))]

    def is_correct(body: bytes) -> bool:
        translated = _field(body, "translatedText")
        return len(translated) == len(texts) and all(map(writer.same, translated, texts))

    return writer.translate(is_correct, q=texts)


def _html(writer: _Writer) -> CheckedRequest:
    text = f'<p>{writer.sentence()} <b class="x">{writer.sentence(3)}</b><br>{writer.text()}</p>'

    def is_correct(body: bytes) -> bool:
        translated = _field(body, "translatedText")
        return sorted(_TAGS.findall(translated)) == sorted(_TAGS.findall(text))

    return writer.translate(is_correct, q=text, format="html")


def _streamed(writer: _Writer) -> CheckedRequest:
    text = " ".join(writer.sentence() for _ in range(writer.random.randint(1, 5)))

    def is_correct(body: bytes) -> bool:
        events = [event.split("\ndata: ") for event in body.decode().split("\n\n")]
        parts = [json.loads(event[1]) for event in events if event[0] == "event: part"]
        return writer.same("".join(part["translatedText"] for part in parts), text)

    return writer.translate(is_correct, q=text, stream=True)


def _alternatives(writer: _Writer) -> CheckedRequest:
    return writer.translate(
        lambda body: len(_field(body, "alternatives")) <= 3,
        q=writer.text(),
        alternatives=writer.random.randint(1, 3),
        return_scores=True,
        timings=True,
    )


def _with_attention(writer: _Writer) -> CheckedRequest:
    return writer.translate(lambda body: bool(_field(body, "id")), q=writer.text(), attention=True)


def _form(writer: _Writer) -> CheckedRequest:
    text = writer.text()
    body = urllib.parse.urlencode({"q": text, **writer.pair()}).encode()
    return CheckedRequest(
        Request("POST", "/translate", body, "application/x-www-form-urlencoded"),
        lambda body: writer.same(_field(body, "translatedText"), text),
    )


def _detected(writer: _Writer) -> CheckedRequest:
    return writer.translate(
        lambda body: bool(_field(body, "detectedLanguage")),
        q=writer.text(),
        source="auto",
        target="en",
    )


def _deepl(writer: _Writer) -> CheckedRequest:
    texts = [writer.text() for _ in range(writer.random.randint(1, 3))]
    body = json.dumps({"text": texts, "source_lang": "DE", "target_lang": "EN-GB"}).encode()
    return CheckedRequest(
        Request("POST", "/v2/translate", body, key=writer.facts.key),
        lambda body: all(map(writer.same, _deepl_texts(body), texts)),
    )


def _deepl_xml(writer: _Writer) -> CheckedRequest:
    text = f"<a>{writer.sentence()}</a> <x id='7'/>{writer.sentence(2)}"
    body = urllib.parse.urlencode(
        {"text": text, "source_lang": "DE", "target_lang": "EN-GB", "tag_handling": "xml"}
    ).encode()
    return CheckedRequest(
        Request("POST", "/v2/translate", body, "application/x-www-form-urlencoded"),
        lambda body: sorted(_TAGS.findall(_deepl_texts(body)[0])) == sorted(_TAGS.findall(text)),
    )


def _deepl_query(writer: _Writer) -> CheckedRequest:
    text = writer.text()
    query = urllib.parse.urlencode({"text": text, "source_lang": "DE", "target_lang": "EN-US"})
    return CheckedRequest(
        Request("GET", f"/v2/translate?{query}", key=writer.facts.key),
        lambda body: writer.same(_deepl_texts(body)[0], text),
    )


def _attention(writer: _Writer) -> CheckedRequest:
    shape = writer.random.choice(["json", "json", "json", "npy", "npy", "png"])
    fields = {"source": "de", "target": "en", "source_text": f"{MARK} Hund", "target_text": "DOG"}
    body = json.dumps({**fields, "format": shape}).encode()
    return CheckedRequest(Request("POST", "/attention", body), bool)


def _scored(writer: _Writer) -> CheckedRequest:
    fields = {"source": "de", "target": "en", "source_text": f"{MARK} Hund", "target_text": "DOG"}
    body = json.dumps(fields).encode()
    return CheckedRequest(
        Request("POST", "/score", body), lambda body: bool(_field(body, "scores"))
    )


def _unknown_language(writer: _Writer) -> CheckedRequest:
    return writer.translate(lambda _: False, q=writer.text(), source="xx", target="en")


def _wrong_key(writer: _Writer) -> CheckedRequest:
    """Refused if the server checks keys."""
    body = json.dumps({"q": writer.text(), **writer.pair()}).encode()
    return CheckedRequest(Request("POST", "/translate", body, key=writer.facts.wrong_key), bool)


def _pivoted(writer: _Writer) -> CheckedRequest:
    """The French bundle comes and goes."""
    return writer.translate(lambda _: True, q=writer.text(), source="de", target="fr")


def _field(body: bytes, name: str) -> Any:
    return json.loads(body)[name]


def _deepl_texts(body: bytes) -> list[str]:
    return [translation["text"] for translation in json.loads(body)["translations"]]
