"""Requests of DeepL's clients for Java 1.16.0, .NET 1.20.0, PHP 1.19.0 and Ruby 3.6.1."""

from __future__ import annotations

from datetime import datetime
from types import MappingProxyType
from typing import Any

from tests.api.clients.exchanges import DISPOSITION, FORM, JSON, PLAIN, Exchange, multipart, named

_TRANSLATIONS = {"translations": [{"text": str, "detected_source_language": "DE"}]}
_BILLED = {
    "translations": [{"text": str, "detected_source_language": "DE", "billed_characters": int}]
}
_USAGE = {"character_count": int, "character_limit": int}
_SOURCES = [{"language": str, "name": str}]
_TARGETS = [{"language": str, "name": str, "supports_formality": bool}]
_PAIRS = {"supported_languages": [{"source_lang": str, "target_lang": str}]}
_GLOSSARY = {
    "glossary_id": str,
    "name": "Tiere",
    "ready": True,
    "source_lang": "de",
    "target_lang": "en",
    "creation_time": datetime,
    "entry_count": 2,
}
_DICTIONARY = {"source_lang": "de", "target_lang": "en", "entry_count": int}
_MULTILINGUAL = {
    "glossary_id": str,
    "name": str,
    "creation_time": datetime,
    "dictionaries": [_DICTIONARY],
}
_ENTRIES = {
    "dictionaries": [
        {"source_lang": "de", "target_lang": "en", "entries": str, "entries_format": "tsv"}
    ]
}
_HANDLE = {"document_id": str, "document_key": str}
_KEEP_HANDLE = {"document_id": "id", "document_key": "key"}
_STATUS = {"document_id": str, "status": "done", "billed_characters": int}
_DONE = ("status", "done")
_KEEP_GLOSSARY = {"glossary_id": "glossary"}
_MESSAGE = {"message": str}


def _translated(content_type: str, body: str, reads: Any = _BILLED) -> Exchange:
    return Exchange("POST", "/v2/translate", content_type, body, reads=reads)


def _uploaded(
    boundary: str, document: str, path: str = "/v2/document", accept: str = "*/*"
) -> Exchange:
    form = f"multipart/form-data; boundary={boundary}"
    return Exchange("POST", path, form, document, reads=_HANDLE, keeps=_KEEP_HANDLE, accept=accept)


def _fetched(content_type: str, body: str) -> tuple[Exchange, Exchange]:
    """The requests for the status and the result of the latest document."""
    path = "/v2/document/{id}"
    return (
        Exchange("POST", path, content_type, body, reads=_STATUS, until=_DONE),
        Exchange("POST", f"{path}/result", content_type, body, reads="HALLO WELT"),
    )


_OWN = "/v3/glossaries/{glossary}"
_PAIR = "?source_lang=de&target_lang=en"


def _replaced(content_type: str, body: str) -> Exchange:
    return Exchange("PUT", f"{_OWN}/dictionaries", content_type, body, reads=_DICTIONARY)


def _made(path: str, content_type: str, body: str, reads: Any = _GLOSSARY) -> Exchange:
    return Exchange("POST", path, content_type, body, status=201, reads=reads, keeps=_KEEP_GLOSSARY)


_JAVA_DOCUMENT = multipart(
    "4c1b",
    (
        f'{DISPOSITION}"file"; filename="Brief.{{extension}}"\nContent-Type: {{media_type}}\n'
        "Content-Transfer-Encoding: binary",
        "hallo welt",
    ),
    *named(source_lang="de", target_lang="en-US"),
)

JAVA = (
    Exchange("GET", "/v2/usage", reads=_USAGE),
    Exchange("POST", "/v2/languages", FORM, reads=_SOURCES),
    Exchange("POST", "/v2/languages", FORM, "type=target", reads=_TARGETS),
    Exchange("GET", "/v2/glossary-language-pairs", reads=_PAIRS),
    _translated(
        FORM,
        "source_lang=de&target_lang=en-US&formality=prefer_more&text=hallo+welt"
        "&text=gr%C3%BC%C3%9Fe+%26amp%3B+k%C3%BCsse&show_billed_characters=1&split_sentences=nonewlines"
        "&preserve_formatting=1&context=ein+brief&model_type=quality_optimized&tag_handling=xml"
        "&outline_detection=0&splitting_tags=par%2Ctitle&ignore_tags=x",
    ),
    Exchange(
        "POST",
        "/v2/translate",
        FORM,
        "target_lang=xx&text=hallo&show_billed_characters=1",
        status=400,
        reads=_MESSAGE,
    ),
    # The media type of a file with an unknown extension is the text "null".
    _uploaded("4c1b", _JAVA_DOCUMENT.replace("{extension}", "md").replace("{media_type}", "null")),
    # Documents from a stream go to the path with an additional slash.
    _uploaded(
        "4c1b",
        _JAVA_DOCUMENT.replace("{extension}", "txt").replace("{media_type}", "text/plain"),
        "/v2/document/",
    ),
    *_fetched(FORM, "document_key={key}"),
    _made(
        "/v2/glossaries",
        FORM,
        "name=Tiere&source_lang=de&target_lang=en&entries_format=tsv"
        "&entries=Hund%09dog%0AK%C3%A4tzchen%09kitten",
    ),
    Exchange("GET", "/v2/glossaries", reads={"glossaries": [_GLOSSARY]}),
    Exchange("GET", "/v2/glossaries/{glossary}", reads=_GLOSSARY),
    Exchange("GET", "/v2/glossaries/{glossary}/entries", reads="Hund\tdog\nKätzchen\tkitten"),
    Exchange("DELETE", "/v2/glossaries/{glossary}", FORM, status=204),
    Exchange("GET", "/v2/glossaries/{glossary}", status=404, reads=_MESSAGE),
    _made(
        "/v3/glossaries",
        FORM,
        "name=Tiere&dictionaries%5B0%5D.source_lang=de&dictionaries%5B0%5D.target_lang=en"
        "&dictionaries%5B0%5D.entries=Hund%09dog&dictionaries%5B0%5D.entries_format=tsv"
        "&dictionaries%5B1%5D.source_lang=en&dictionaries%5B1%5D.target_lang=de"
        "&dictionaries%5B1%5D.entries=dog%09Hund&dictionaries%5B1%5D.entries_format=tsv",
        reads={"glossary_id": str, "creation_time": datetime, "dictionaries": [{"entry_count": 1}]},
    ),
    Exchange("DELETE", f"{_OWN}/dictionaries?source_lang=en&target_lang=de", FORM, status=204),
    _replaced(FORM, "source_lang=de&target_lang=en&entries=Hund%09puppy&entries_format=tsv"),
    Exchange("PATCH", _OWN, FORM, "name=Haus+%26+Hof", reads=_MULTILINGUAL),
    Exchange(
        "PATCH",
        _OWN,
        FORM,
        "dictionaries%5B0%5D.source_lang=de&dictionaries%5B0%5D.target_lang=en"
        "&dictionaries%5B0%5D.entries=Katze%2Ccat&dictionaries%5B0%5D.entries_format=csv",
        reads={"name": "Haus & Hof", "dictionaries": [{"entry_count": 2}]},
    ),
    Exchange("GET", f"{_OWN}/entries{_PAIR}", reads=_ENTRIES),
    Exchange("GET", "/v3/glossaries", reads={"glossaries": [_MULTILINGUAL]}),
    Exchange("DELETE", _OWN, FORM, status=204),
)

_DOTNET_NAMES = (
    "filename=\"=?utf-8?B?w5xiZXIgdW5zLnR4dA==?=\"; filename*=utf-8''%C3%9Cber%20uns.txt"
)
_DOTNET_DOCUMENT = multipart(
    "5e0c",
    (f"{PLAIN}\n{DISPOSITION}target_lang", "en-US"),
    (f"{PLAIN}\n{DISPOSITION}source_lang", "de"),
    (f"{DISPOSITION}file; {_DOTNET_NAMES}", "hallo welt"),
)

DOTNET = (
    Exchange("GET", "/v2/usage", accept=JSON, reads=_USAGE),
    Exchange("GET", "/v2/languages?type=source", accept=JSON, reads=_SOURCES),
    Exchange("GET", "/v2/languages?type=target", accept=JSON, reads=_TARGETS),
    Exchange("GET", "/v2/glossary-language-pairs", accept=JSON, reads=_PAIRS),
    # The encoder leaves ! ( ) * as they are.
    _translated(
        FORM,
        "target_lang=en-US&source_lang=de&show_billed_characters=1&tag_handling=html"
        "&text=hallo+welt!&text=(gr%C3%BC%C3%9Fe)",
    ),
    _uploaded('"5e0c"', _DOTNET_DOCUMENT, accept=JSON),
    *_fetched(FORM, "document_key={key}"),
    _made(
        "/v2/glossaries",
        FORM,
        "name=Tiere&source_lang=de&target_lang=en&entries_format=csv"
        "&entries=Hund%2Cdog%0D%0A%22K%C3%A4tzchen%22%2Ckitten",
    ),
    Exchange(
        "GET",
        "/v2/glossaries/{glossary}/entries",
        accept="text/tab-separated-values",
        reads="Hund\tdog\nKätzchen\tkitten",
    ),
    Exchange("DELETE", "/v2/glossaries/{glossary}", status=204),
    _made(
        "/v3/glossaries",
        FORM,
        "dictionaries%5B0%5D.source_lang=de&dictionaries%5B0%5D.target_lang=en"
        "&dictionaries%5B0%5D.entries=Hund%2Cdog&dictionaries%5B0%5D.entries_format=csv&name=Tiere",
        reads=_MULTILINGUAL,
    ),
    _replaced(FORM, "source_lang=de&target_lang=en&entries_format=tsv&entries=Hund%09puppy"),
    Exchange("PATCH", _OWN, FORM, "name=Haus", reads=_MULTILINGUAL),
    Exchange("GET", _OWN, accept=JSON, reads=_MULTILINGUAL),
    Exchange("GET", f"{_OWN}/entries{_PAIR}", accept=JSON, reads=_ENTRIES),
    Exchange("DELETE", f"{_OWN}/dictionaries{_PAIR}", status=204),
    Exchange("DELETE", _OWN, status=204),
)

_BRIEF = f'{DISPOSITION}"file"; filename="brief.txt"'
_CURL_DOCUMENT = multipart(
    "------------------------a1",
    *named(target_lang="en-US", source_lang="de"),
    (f"{_BRIEF}\nContent-Type: application/octet-stream", "hallo welt"),
)
_PSR_DOCUMENT = multipart(
    "b2",
    (f"{_BRIEF}\nContent-Length: 10\nContent-Type: text/plain", "hallo welt"),
    (f'{DISPOSITION}"target_lang"\nContent-Length: 5', "en-US"),
    (f'{DISPOSITION}"source_lang"\nContent-Length: 2', "de"),
)

PHP = (
    Exchange("GET", "/v2/usage", reads=_USAGE),
    Exchange("GET", "/v2/languages?type=source", reads=_SOURCES),
    Exchange("GET", "/v2/languages?type=target", reads=_TARGETS),
    Exchange("GET", "/v2/glossary-language-pairs", reads=_PAIRS),
    # PHP encodes false as an empty text.
    _translated(
        FORM,
        "target_lang=en-US&source_lang=de&text=hallo+welt&text=gr%C3%BC%C3%9Fe"
        "&preserve_formatting=&outline_detection=&split_sentences=0&tag_handling=xml"
        "&ignore_tags=x%2Cy&show_billed_characters=1",
    ),
    _uploaded("------------------------a1", _CURL_DOCUMENT),
    *_fetched(FORM, "document_key={key}"),
    # The following exchanges used an HTTP client of the caller's choice.
    _uploaded('"b2"', _PSR_DOCUMENT),
    _made(
        "/v2/glossaries",
        JSON,
        r'{"name":"Tiere","source_lang":"de","target_lang":"en","entries_format":"tsv",'
        r'"entries":"Hund\tdog\nK\u00e4tzchen\tkitten"}',
    ),
    Exchange("GET", "/v2/glossaries/{glossary}/entries", reads="Hund\tdog\nKätzchen\tkitten"),
    Exchange("DELETE", "/v2/glossaries/{glossary}", status=204),
    _made(
        "/v3/glossaries",
        JSON,
        r'{"name":"Tiere","dictionaries":[{"source_lang":"de","target_lang":"en",'
        r'"entries_format":"csv","entries":"Hund,dog"}]}',
        reads=_MULTILINGUAL,
    ),
    Exchange("PATCH", _OWN, JSON, '{"name":"Haus"}', reads=_MULTILINGUAL),
    _replaced(
        JSON,
        r'{"source_lang":"de","target_lang":"en","entries":"Hund\tpuppy","entries_format":"tsv"}',
    ),
    Exchange("GET", f"{_OWN}/entries{_PAIR}", reads=_ENTRIES),
    Exchange("DELETE", _OWN, status=204),
)

_RUBY_DOCUMENT = multipart(
    "c3",
    (f"{_BRIEF}\nContent-Type: application/octet-stream", "hallo welt"),
    *named(source_lang="DE", target_lang="EN-GB", filename="brief.txt"),
)

RUBY = (
    # Options of GET and DELETE requests are in a JSON body.
    Exchange("GET", "/v2/usage", JSON, "{}", reads=_USAGE),
    Exchange("GET", "/v2/languages", JSON, "{}", reads=_SOURCES),
    Exchange("GET", "/v2/languages", JSON, '{"type":"target"}', reads=_TARGETS),
    Exchange("GET", "/v2/glossary-language-pairs", JSON, "{}", reads=_PAIRS),
    _translated(
        JSON,
        '{"text":["hallo welt","grüße"],"source_lang":"DE","target_lang":"EN",'
        '"split_sentences":"1","preserve_formatting":true,"outline_detection":false,'
        '"ignore_tags":["x","y"],"tag_handling":"xml"}',
        reads=_TRANSLATIONS,
    ),
    _translated(
        JSON,
        '{"text":["hallo welt"],"source_lang":null,"target_lang":"EN"}',
        reads={"translations": [{"text": str, "detected_source_language": str}]},
    ),
    _uploaded("c3", _RUBY_DOCUMENT),
    *_fetched(JSON, '{"document_key":"{key}"}'),
    _made(
        "/v2/glossaries",
        JSON,
        r'{"name":"Tiere","source_lang":"DE","target_lang":"EN",'
        r'"entries":"Hund\tdog\nKätzchen\tkitten\n","entries_format":"tsv"}',
    ),
    Exchange("GET", "/v2/glossaries", JSON, "{}", reads={"glossaries": [_GLOSSARY]}),
    Exchange("GET", "/v2/glossaries/{glossary}", JSON, "{}", reads=_GLOSSARY),
    Exchange(
        "GET", "/v2/glossaries/{glossary}/entries", JSON, "{}", reads="Hund\tdog\nKätzchen\tkitten"
    ),
    Exchange("DELETE", "/v2/glossaries/{glossary}", JSON, "{}", status=204),
)

CLIENTS = MappingProxyType({"Java": JAVA, ".NET": DOTNET, "PHP": PHP, "Ruby": RUBY})
