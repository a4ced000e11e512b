"""Attacks on a service, by class.

Each is bounded: it sends a fixed number of requests, or is stopped by its caller.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import docx

from tests.documents.word import NAMESPACES, entries, saved, zip_of
from tests.system.chaos.wire import Connection, Request
from tests.system.hostile.target import Target, as_json, form, translate, upload

Kind = Literal["size", "text", "cache", "markup", "document", "glossary", "connection", "decoding"]
DOCUMENTS_LAST: tuple[Kind, ...] = (
    *("size", "text", "cache", "markup", "glossary", "connection", "decoding", "document"),
)
"""Accepted documents are translated after the attack, too."""
Run = Callable[[Target], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Attack:
    kind: Kind
    name: str
    run: Run


ATTACKS: list[Attack] = []
WORDS = ("Hund", "Kind", "Mann", "Frau", "Haus", "Wiese", "Abend", "Wasser", "spielt", "sieht")


def attack(kind: Kind, name: str) -> Callable[[Run], Run]:
    """Register a function as an attack."""

    def register(run: Run) -> Run:
        ATTACKS.append(Attack(kind, name, run))
        return run

    return register


def sending(
    kind: Kind, name: str, requests: Callable[[], Iterable[Request]], at_once: int = 8
) -> None:
    """Register an attack that sends requests, which are made when it begins."""

    async def run(target: Target) -> None:
        await target.send_all(requests(), at_once)

    ATTACKS.append(Attack(kind, name, run))


def _words(seed: int, count: int) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choices(WORDS, k=count))


def _sentences(seed: int, count: int) -> list[str]:
    return [_words(seed * 10_000 + number, 8) + f" {number}." for number in range(count)]


_PLAIN = {"source": "de", "target": "en"}


def _post(body: bytes, content_type: str = "application/json") -> Request:
    return Request("POST", "/translate", body, content_type)


def _get(path: str) -> Request:
    return Request("GET", path)


def _pair(path: str, seed: int, words: int, **fields: object) -> Request:
    """A request about a source and a target of so many words."""
    text = _words(seed, words)
    return as_json(path, **_PLAIN, source_text=text, target_text=text, **fields)


# Size of the input.
_FORM = "application/x-www-form-urlencoded"
_HEADERS = "".join(f"x-{n}: {'a' * 90}\r\n" for n in range(600))
_4000_TEXTS = [("text", f"Hund {n}") for n in range(4000)]
_SHORT_SUPPRESSED = [f"wort {n:4}" for n in range(100)]
for _name, _requests in {
    "1,000 sentences, 100 suppressed texts of 18,000 characters": lambda: [
        translate(_sentences(1, 1000), suppress_sequences=["a" * 18_000] * 100)
    ],
    "20 short sentences, 100 suppressed texts of 10 characters": lambda: (
        [translate(_sentences(2, 20), suppress_sequences=_SHORT_SUPPRESSED)] * 8
    ),
    "six requests of 100,000 characters": lambda: (
        translate(" ".join(_sentences(n, 1800))) for n in range(6)
    ),
    "form of 2 MB of %41": lambda: [_post(b"source=de&target=en&q=" + b"%41" * 690_000, _FORM)] * 8,
    "target_prefix of 900 kB": lambda: [translate("Ein Hund.", target_prefix="a " * 450_000)] * 4,
    "OpenAPI document 200 times": lambda: (_get(f"/openapi.json?{n}") for n in range(200)),
    "1,024 texts of 97 characters, language unknown": lambda: (
        [translate([each.ljust(97, "x") for each in _sentences(3, 1024)], source="auto")] * 4
    ),
    "one word of 99,999 characters": lambda: [translate("a" * 99_999)] * 8,
    "100,000 characters outside the first plane": lambda: (
        [translate("\U0001f469\u200d\U0001f4bb" * 33_000)] * 4
    ),
    "1 MB of brackets, of keys, of digits in JSON": lambda: (
        [
            _post(b'{"q":' + b"[" * 1_000_000),
            as_json("/translate", **{f"k{n}": n for n in range(150_000)}, **_PLAIN, q="Hund"),
            _post(b'{"q":"Hund","beam_size":' + b"9" * 1_900_000 + b"}"),
            _post(b'{"q":["' + b'","' * 600_000 + b'"]}'),
        ]
        * 3
    ),
    "form of 4,000 fields": lambda: (
        [form("/v2/translate", [*_4000_TEXTS, ("target_lang", "EN")])] * 6
    ),
    "query string of 60 kB": lambda: (
        [_get("/v2/translate?target_lang=EN&text=" + "%C3%A4" * 10_000)] * 20
    ),
    "/detect with 100,000 characters": lambda: (
        form("/detect", [("q", " ".join(_sentences(n, 1800)))]) for n in range(20)
    ),
    "/score and /attention of the longest sentence": lambda: (
        _pair(path, n, 150) for n in range(6) for path in ("/score", "/attention")
    ),
    "head of 60 kB": lambda: [_get("/livez HTTP/1.1\r\n" + _HEADERS + "x-last:")] * 30,
    "alignment tables: /attention as PNG of every head": lambda: (
        _pair("/attention", n, 60, format="png", kind="cross") for n in range(4)
    ),
}.items():
    sending("size", _name, _requests)

sending(
    "size",
    "30 requests of 100,000 characters, language unknown",
    lambda: (translate(" ".join(_sentences(n, 1800)), source="auto") for n in range(30)),
    at_once=30,
)


# Text that could take quadratic time.
for _name, _text in (
    ("99,000 x U+2039", "\u2039" * 99_000),
    ("99,000 x „", "„" * 99_000),
    ("99,000 x '", "'" * 99_000),
    ("nested quotation marks", "„\u201a" * 49_000),
    ("brackets", "([{" * 33_000),
    ("full stops", ". " * 49_000),
    ("abbreviations", "z.B. Dr. usw. " * 7_000),
    ("question marks", "!?" * 49_000),
    ("line ends", "\n" * 99_000),
    ("blanks", " " * 99_000),
    ("accents on one letter", "a" + "\u0301" * 99_000),
    ("zero-width joiners", "\u200d" * 99_000),
    ("dates", "1.1.1." * 16_000),
    ("addresses", "http://a.b/" * 9_000),
    ("mentions", "@a.b@c " * 14_000),
    ("placeholders", "{{a}} %s {0} " * 7_600),
    ("ampersands", "&amp;&#1;&" * 9_900),
    ("both directions of writing", "\u202ea\u202d" * 33_000),
):
    sending(
        "text",
        _name,
        lambda text=_text: [  # type: ignore[misc]
            translate(text),
            translate(text, format="html"),
            translate(text, source="auto"),
            as_json("/v2/translate", text=[text], target_lang="EN", tag_handling="xml"),
        ],
    )


@attack("text", "characters drawn at random")
async def _random_characters(target: Target) -> None:
    draw = random.Random(1)
    alphabets = [
        "\u2039\u203a„“'\"«»",
        ".!?…。",
        "aÄß1 \n",
        '<>&;/="',
        "\u0301\u200b\ufeff",
        "()[]{}",
    ]
    for _ in range(12):
        chosen = "".join(draw.sample(alphabets, 3))
        text = "".join(draw.choices(chosen, k=50_000))
        await target.send(translate(text, format=draw.choice(["text", "html"])))


# Keys of caches and of metrics.
for _name, _requests in {
    "ten sentences, 100 suppressed texts of 18,000 characters": lambda: [
        translate(_sentences(n, 10), suppress_sequences=["b" * 18_000] * 100) for n in range(5)
    ],
    "one sentence in every line": lambda: (
        [translate("\n".join(["Ein Hund läuft durch den tiefen Schnee."] * 2_000))] * 4
    ),
    "`timings` of a repeated sentence": lambda: (
        [translate("Ein Kind sieht einen Hund.", timings=True)] * 20
    ),
    "1,000 beginnings of a translation": lambda: (
        translate("Hund", target_prefix=_words(n, 20)) for n in range(1000)
    ),
    "1,000 sets of suppressed texts": lambda: (
        translate("Hund", suppress_sequences=[f"x{n} {k}" for k in range(90)]) for n in range(1000)
    ),
    "2,000 penalties": lambda: (translate("Hund", length_penalty=n / 1000) for n in range(2000)),
    "2,000 seeds": lambda: (translate("Hund", sampling_topk=5, seed=n) for n in range(2000)),
    "attention of 300 long sentences kept": lambda: (
        translate(_words(n, 60), attention=True) for n in range(300)
    ),
    "2,000 paths and methods that do not exist": lambda: (
        Request(f"M{n}" if n % 2 else "GET", f"/p{n}/{n}") for n in range(2000)
    ),
    "2,000 models and languages that do not exist": lambda: (
        translate("Hund", **({"model": f"m{n}"} if n % 2 else {"source": f"l{n}"}))
        for n in range(2000)
    ),
    "2,000 keys and ids of requests": lambda: (
        _get(f"/languages HTTP/1.1\r\nx-request-id: id-{n}\r\nx-api-key: key-{n}\r\nx:")
        for n in range(2000)
    ),
    "1,000 translations asked for by a wrong id": lambda: (
        _get(f"/translations/{n:032x}/attention") for n in range(1000)
    ),
    "2,000 short texts of unknown language": lambda: (
        translate(f"wort{n}", source="auto") for n in range(2000)
    ),
}.items():
    sending("cache", _name, _requests)


@attack("cache", "300 glossaries of 300 terms, each used and deleted")
async def _used_and_deleted(target: Target) -> None:
    for number in range(300):
        terms = "\n".join(f"wort{number}x{n}\tword{n}" for n in range(300))
        made = await target.made(_glossary(terms, str(number)))
        await target.send(_with_glossary(made["glossary_id"], "wort1 Hund"))
        await target.send(as_json(f"/v2/glossaries/{made['glossary_id']}", "DELETE"))


# Markup.
def _html(text: str, **fields: object) -> Request:
    return translate(text, format="html", **fields)


def _deepl(*texts: str, **fields: object) -> Request:
    return as_json(
        "/v2/translate", text=list(texts), source_lang="DE", target_lang="EN-GB", **fields
    )


def _xml(text: str, **fields: object) -> Request:
    return _deepl(text, tag_handling="xml", **fields)


_ENTITIES = "".join(f'<!ENTITY b{n} "{f"&b{n - 1};" * 10}">' for n in range(1, 10))
"""Nine entities, each of ten of the one before; the first of ``b0``, which is another's."""
_ROOT_ENTITY = '<!ENTITY b0 "bbbbbbbbbb">'
_PASSWORDS = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
_NAMES = [f"a{n}" for n in range(900)]
for _name, _make in (
    ("<p>a 25,000 times", lambda: _html("<p>a" * 24_900)),
    (
        "12,000 tags in a sentence, 8 hypotheses",
        lambda: _html("<b>a</b> " * 11_000, num_hypotheses=8),
    ),
    ("900 tags in a sentence, 8 hypotheses", lambda: _html("<b>Hund</b> " * 450, num_hypotheses=8)),
    ("33,000 open elements", lambda: _html("<b>" * 33_000)),
    ("24,000 ends without beginnings", lambda: _html("</b>" * 24_900)),
    ("an attribute of 95 kB", lambda: _html(f'<a title="{"x " * 47_000}">Hund</a>')),
    ("20,000 attributes", lambda: _html(f"<a {' '.join(f'a{n}' for n in range(14_000))}>a")),
    ("24,000 comments begun", lambda: _html("<!--" * 24_900)),
    ("11,000 CDATA begun", lambda: _html("<![CDATA[" * 11_000)),
    ("12,000 scripts begun", lambda: _html("<script>" * 12_000)),
    ("half tags", lambda: _html("<a " * 33_000)),
    ("7,000 links with addresses", lambda: _html("<a href=x>@a</a>" * 6_000)),
    ("notranslate, nested", lambda: _html("<b translate=no>" * 6_000)),
    ("33,000 open elements in XML", lambda: _xml("<b>" * 33_000)),
    ("14,000 closed elements in XML", lambda: _xml("<b>a" * 12_000 + "</b>" * 12_000)),
    (
        "entities of entities",
        lambda: _xml(f"<!DOCTYPE a [{_ROOT_ENTITY}{_ENTITIES}]><a>&b9;</a>"),
    ),
    ("an entity of a file", lambda: _xml(_PASSWORDS)),
    ("1,000 names of tags to ignore", lambda: _xml("<a1>x</a1>" * 9_000, ignore_tags=_NAMES)),
    ("references to characters", lambda: _xml("&#x10ffff;&#0;" * 7_000)),
    ("33,000 placeholders in HTML", lambda: _html("{0}" * 33_000)),
):
    sending("markup", _name, lambda make=_make: [make()] * 4)  # type: ignore[misc]


# Documents and archives.
def _docx(body: str, first: str = "") -> bytes:
    """A Word file with this body, and XML before its root."""
    document = f"{first}<w:document {NAMESPACES}><w:body>{body}</w:body></w:document>"
    parts = entries(saved(docx.Document())) | {"word/document.xml": document.encode()}
    return zip_of(**parts)


_TIMES = b"00:00:00,000 --> 00:00:01,000\n"
_RUNS = "<w:r><w:t>a</w:t></w:r>"
_TABLE, _TABLE_END = "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"
for _filename, _name, _content in (
    ("a.txt", "a line of 200,000 x U+2039", lambda: ("\u2039" * 200_000).encode()),
    ("a.html", "500,000 x <i>", lambda: b"<i>" * 500_000),
    ("a.md", "49 kB of *a **a", lambda: b"*a **a " * 7_000),
    ("a.md", "49,000 x [", lambda: b"[" * 49_000),
    (
        "a.md",
        "1 MB of link definitions",
        lambda: b"".join(b"[a%d]: x\n" % n for n in range(90_000)),
    ),
    ("a.docx", "zip bomb of 250 MB", lambda: zip_of(**{"word/document.xml": bytes(250 << 20)})),
    ("a.docx", "20,000 entries", lambda: zip_of(**{f"e{n}": b"" for n in range(20_000)})),
    ("a.docx", "200,000 runs", lambda: _docx(f"<w:p>{_RUNS * 200_000}</w:p>")),
    ("a.docx", "50,000 nested tables", lambda: _docx(_TABLE * 50_000 + _TABLE_END * 50_000)),
    ("a.docx", "entities of entities", lambda: _docx("<w:p/>", f"<!DOCTYPE a [{_ENTITIES}]>")),
    ("a.html", "200,000 nested elements", lambda: b"<div>" * 200_000),
    ("a.html", "500,000 attributes", lambda: b"<a " + b"b=c " * 500_000 + b">a</a>"),
    (
        "a.srt",
        "100,000 captions",
        lambda: b"".join(b"%d\n%sHund\n\n" % (n, _TIMES) for n in range(100_000)),
    ),
    ("a.srt", "one caption of 2 MB", lambda: b"1\n" + _TIMES + b"Hund " * 400_000),
    ("a.md", "20,000 nested quotations", lambda: b">" * 20_000 + b"a"),
    ("a.md", "300 spans of growing length", lambda: b" ".join(b"`" * n for n in range(1, 300))),
    ("a.md", "table of 10,000 columns", lambda: b"|a" * 10_000 + b"|\n" + b"|-" * 10_000 + b"|\n"),
    ("a.txt", "1,000,000 lines", lambda: b"a\n" * 1_000_000),
):
    sending(
        "document",
        f"{_name} ({_filename[2:]})",
        lambda filename=_filename, content=_content: [upload(filename, content())] * 2,
    )
for _name, _requests in {
    "bytes at random (docx)": lambda: [upload("a.docx", random.Random(1).randbytes(1 << 20))] * 8,
    "NUL characters (txt)": lambda: [upload("a.txt", bytes(1 << 20))] * 4,
    "100 documents of one word (txt)": lambda: [upload("a.txt", b"Hund")] * 100,
}.items():
    sending("document", _name, _requests)
sending(
    "document",
    "51 uploads of 10 MB",
    lambda: [upload("a.txt", b"Ein Hund.\n" * 1_048_000)] * 51,
    at_once=4,
)
sending(
    "document",
    "1,000 questions for unknown documents",
    lambda: (as_json(f"/v2/document/{n:032x}", document_key="a") for n in range(1000)),
)


# Glossaries.
def _glossary(entries: str, name: str = "a", **fields: object) -> Request:
    languages = {"source_lang": "DE", "target_lang": "EN"}
    given = {"entries": entries, "entries_format": "tsv", **fields}
    return as_json("/v2/glossaries", name=name, **languages | given)


def _with_glossary(identifier: str, *texts: str, **fields: object) -> Request:
    return _deepl(*texts, glossary_id=identifier, **fields)


def _nested_terms() -> tuple[str, str]:
    """A sentence, and 5,381 terms that are in it."""
    words = [f"w{n}" for n in range(104)]
    terms = [" ".join(words[start:end]) for start in range(104) for end in range(start + 1, 105)]
    return " ".join(words), "\n".join(f"{term}\tt" for term in terms[:5381])


@attack("glossary", "5,381 terms within one sentence")
async def _terms_within_a_sentence(target: Target) -> None:
    sentence, terms = _nested_terms()
    made = await target.made(_glossary(terms))
    await target.send_all([_with_glossary(made["glossary_id"], *[sentence + "."] * 4)] * 4)


@attack("glossary", "five glossaries of 20,000 terms at once")
async def _five_glossaries(target: Target) -> None:
    made = [
        await target.made(_glossary("\n".join(f"w{n} {k}\tx{k}" for n in range(20_000)), str(k)))
        for k in range(5)
    ]
    ids = [each["glossary_id"] for each in made]
    texts = [" ".join(f"w{n} {n % 5}" for n in range(k, k + 40)) for k in range(200)]
    await target.send_all([_deepl(*texts, glossary_ids=ids)] * 4)


@attack("glossary", "a term for every word, 100 sentences, eight hypotheses")
async def _term_for_every_word(target: Target) -> None:
    words = sorted(set(_words(1, 1000).split()))
    made = await target.made(_glossary("\n".join(f"{w}\tqx{n}zu" for n, w in enumerate(words))))
    texts = _sentences(7, 100)
    await target.send_all(
        [_with_glossary(made["glossary_id"], *texts, num_hypotheses=8, beam_size=8)] * 4
    )


_DICTIONARY = {"source_lang": "de", "target_lang": "en", "entries": "a\tb"}
for _name, _requests in {
    "20 glossaries of 5,381 terms made": lambda: [
        _glossary(_nested_terms()[1], str(n)) for n in range(20)
    ],
    "terms of 1,000 bytes with one beginning": lambda: [
        _glossary("\n".join(f"{'a' * 990}{n}\tb" for n in range(1900)), str(n)) for n in range(4)
    ],
    "one term in 2 MB of lines": lambda: (
        _glossary(terms)
        for terms in ("a\tb\n" * 400_000, "\n" * 1_900_000 + "a\tb", "a" * 1_900_000) * 3
    ),
    "2 MB of CSV: quotation marks, columns": lambda: (
        _glossary(terms, entries_format="csv") for terms in ('"' * 1_900_000, "a," * 900_000) * 3
    ),
    "letters of regular expressions": lambda: (
        [_glossary("\n".join(f"(a+)+{n}$\t.*{n}" for n in range(5000)))] * 4
    ),
    "999 dictionaries by bracketed names": lambda: (
        [
            form(
                "/v3/glossaries",
                [("name", "a")]
                + [
                    (f"dictionaries[{n}].{k}", v)
                    for n in range(999)
                    for k, v in _DICTIONARY.items()
                ],
            )
        ]
        * 8
    ),
    "name of 1 MB, without entries, wrong languages": lambda: (
        [_glossary("a\tb", "n" * 1_000_000), _glossary(""), _glossary("a\tb", source_lang="X" * 60)]
        * 20
    ),
    "2,000 glossaries kept": lambda: (_glossary(f"a{n}\tb", str(n)) for n in range(2000)),
    "200 lists of all glossaries": lambda: (_get(f"/v{2 + n % 2}/glossaries") for n in range(200)),
    "glossaries that do not exist": lambda: (
        _with_glossary(f"{n:08x}-0000-0000-0000-000000000000", "Hund") for n in range(500)
    ),
}.items():
    sending("glossary", _name, _requests)


# Connections.
def _sockets(data: bytes, count: int, seconds: float) -> Run:
    async def run(target: Target) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(target.raw(data, seconds=seconds))

    return run


_HEAD = b"POST /translate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
_CHUNKED = _HEAD + b"transfer-encoding: chunked\r\n\r\n"
_UPGRADE = b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"
_OPENAPI = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n"
_TWO_LENGTHS = _HEAD + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
for _name, _data, _count, _seconds in (
    ("300 connections without a request", b"", 300, 3.0),
    ("300 half heads", b"GET /livez HT", 300, 3.0),
    ("300 bodies that do not come", _HEAD + b"content-length: 1000000\r\n\r\n{", 300, 3.0),
    ("500 resets after the request", b"".join(translate("Ein Hund läuft.").encode()), 500, 0.0),
    ("1,000 requests in one connection, no answer read", _OPENAPI * 1000, 4, 3.0),
    ("two lengths", _TWO_LENGTHS, 100, 0.2),
    ("a chunk of 2**60 bytes", _CHUNKED + b"fffffffffffffff\r\n", 100, 0.5),
    ("chunks of one byte", _CHUNKED + b"1\r\na\r\n" * 200_000, 4, 2.0),
    ("a greeting of TLS", b"\x16\x03\x01\x02\x00\x01" + bytes(500), 200, 0.2),
    ("a head of 1 MB", b"GET /" + b"a" * 1_000_000, 20, 0.5),
    ("line ends only", b"\r\n" * 500_000, 8, 0.5),
    (
        "300 that wait for 100",
        _HEAD + b"content-length: 9\r\nexpect: 100-continue\r\n\r\n",
        300,
        1.0,
    ),
    ("an upgrade", _UPGRADE, 100, 0.2),
):
    ATTACKS.append(Attack("connection", _name, _sockets(_data, _count, _seconds)))


@attack("connection", "one byte of a head in 100 ms, 200 connections")
async def _slow_heads(target: Target) -> None:
    async def one() -> None:
        connection = await Connection.open(target.port)
        for byte in _HEAD[:30]:
            connection.send(bytes([byte]))
            await asyncio.sleep(0.1)
        connection.hang_up(rudely=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(200):
            group.create_task(one())


@attack("connection", "50 streams that are not read")
async def _unread_streams(target: Target) -> None:
    text = " ".join(_sentences(5, 400))
    head, body = translate(text, stream=True).encode()
    await _sockets(head + body, 50, 4.0)(target)


# Decoding options.
def _short(seed: int) -> list[str]:
    return [each[:40] for each in _sentences(seed, 64)]


_LONG = {"min_decoding_length": 150, "max_decoding_length": 190}
_EVERYTHING = {"sampling_topk": 0, "num_hypotheses": 8}
for _name, _fields in (
    ("sampling from everything, eight hypotheses", _EVERYTHING),
    ("sampling from everything, 8 hypotheses, 150 tokens at least", {**_EVERYTHING, **_LONG}),
    ("eight beams, 150 tokens at least", {"beam_size": 8, **_LONG}),
    (
        "eight beams, eight hypotheses, scores, attention",
        {"beam_size": 8, "num_hypotheses": 8, "return_scores": True, "attention": True},
    ),
    ("patience 10", {"beam_size": 8, "patience": 10, "max_length_ratio": 100}),
    ("coverage penalty", {"beam_size": 8, "coverage_penalty": 10}),
    ("n-grams of 10,000", {"beam_size": 8, "no_repeat_ngram_size": 10_000}),
    (
        "repetition penalty 0.01, 190 tokens",
        {"repetition_penalty": 0.01, "max_length_ratio": 100, "beam_size": 8},
    ),
    ("100 suppressed texts", {"suppress_sequences": [f"a{n}" for n in range(100)]}),
    ("bias to a beginning", {"target_prefix": "a b c", "prefix_bias_beta": 0.99}),
    ("length penalty -10", {"length_penalty": -10, "beam_size": 8}),
    ("temperature 100", {"sampling_topk": 256, "sampling_temperature": 100, "beam_size": 1}),
    ("bulk", {"priority": "bulk", "beam_size": 8}),
    ("streamed", {"stream": True, "num_hypotheses": 1, "beam_size": 8}),
):

    def _texts(fields: dict[str, object]) -> Iterator[Request]:
        streamed = bool(fields.get("stream"))
        for number in range(12):
            texts = _short(number)
            yield translate(" ".join(texts) if streamed else texts, **fields)

    sending(
        "decoding",
        f"{_name}, 12 times 64 texts",
        lambda fields=_fields: _texts(fields),  # type: ignore[misc]
        at_once=12,
    )


sending(
    "decoding",
    "words in place of the first of 120, 60 times",
    lambda: [
        as_json("/alternatives", q=_words(number, 120), **_PLAIN, position=0)
        for number in range(60)
    ],
    at_once=12,
)
for _name, _fields in (
    ("alternatives at a token", {"return_alternatives": True, "num_hypotheses": 8}),
    ("confidence", {"confidence": True}),
):
    sending(
        "decoding",
        f"{_name} of 120 words, 60 times",
        lambda fields=_fields: [  # type: ignore[misc]
            translate(_words(number, 120), **fields) for number in range(60)
        ],
        at_once=12,
    )


@attack("decoding", "trees of the longest search of eight beams, 60 times, a third of each format")
async def _longest_search(target: Target) -> None:
    lengths = {"min_decoding_length": 240, "max_decoding_length": 250}
    asked = translate(_words(1, 120), beam_size=8, attention=True, **lengths)
    # Other attacks may fill the service.
    while (answer := await target.send(asked)) is None or answer.status != 200:
        await asyncio.sleep(0.1)
    identifier = json.loads(answer.body)["id"]
    await target.send_all(
        Request("GET", f"/translations/{identifier}/search?format={format}")
        for format in ("json", "svg", "png") * 20
    )
