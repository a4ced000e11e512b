"""Requests of LibreTranslate's clients.

Java: dynomake/libretranslate-java. .NET: sigaloid/LibreTranslate.Net. PHP: jefs42/libretranslate.
Ruby: noesya/libretranslate.
"""

from __future__ import annotations

from types import MappingProxyType

from tests.api.clients.exchanges import DISPOSITION, FORM, JSON, PLAIN, Exchange, multipart, named

_LANGUAGES = [{"code": str, "name": str}]
_DETECTED = [{"language": str, "confidence": float}]
_TRANSLATED = {"translatedText": "HALLO WELT"}
_SETTINGS = {
    "apiKeys": bool,
    "charLimit": int,
    "frontendTimeout": int,
    "suggestions": bool,
    "language": {"source": {"code": str, "name": str}, "target": {"code": str, "name": str}},
}

_DOTNET_FILE = multipart(
    "5e0c",
    *(
        (f"{PLAIN}\n{DISPOSITION}{name}", content)
        for name, content in (("source", "de"), ("target", "en"), ("api_key", ""))
    ),
    (
        f'Content-Type: text/plain\n{DISPOSITION}"file"; filename="C:\\Texte\\brief.txt"',
        "hallo welt",
    ),
)
_PHP_TEXT = multipart(
    "------------------------a1",
    *named(q="hallo welt", format="html", source="de", target="en", api_key=""),
)
_PHP_FILE = multipart(
    "------------------------a1",
    (
        f'{DISPOSITION}"file"; filename="brief.txt"\nContent-Type: application/octet-stream',
        "hallo welt",
    ),
    *named(format="html", source="de", target="en"),
)
_CURL = "multipart/form-data; boundary=------------------------a1"

JAVA = (
    # Its key is this text unless the caller has one.
    Exchange(
        "POST",
        "/translate",
        FORM,
        "q=hallo+welt&source=de&api_key=unknown&target=en&format=text",
        accept=JSON,
        reads=_TRANSLATED,
    ),
    Exchange(
        "POST",
        "/translate",
        FORM,
        "q=hallo+welt&source=auto&api_key=unknown&target=en&format=text",
        accept=JSON,
        reads={"translatedText": str, "detectedLanguage": {"confidence": float, "language": str}},
    ),
)

DOTNET = (
    Exchange("GET", "/languages", reads=_LANGUAGES),
    Exchange(
        "POST",
        "/translate",
        FORM,
        "q=hallo+welt&source=de&target=en&api_key=&format=",
        reads=_TRANSLATED,
    ),
    Exchange("POST", "/detect", FORM, "q=hallo+welt&api_key=", reads=_DETECTED),
    Exchange("GET", "/frontend/settings", reads=_SETTINGS),
    Exchange(
        "POST",
        "/translate_file",
        'multipart/form-data; boundary="5e0c"',
        _DOTNET_FILE,
        reads={"translatedFileUrl": str},
        keeps={"translatedFileUrl": "file"},
    ),
    Exchange("GET", "{file}", reads="HALLO WELT"),
)

PHP = (
    Exchange("GET", "/frontend/settings", FORM, reads=_SETTINGS),
    Exchange("GET", "/languages", FORM, reads=_LANGUAGES),
    Exchange("POST", "/detect?q=hallo+welt&api_key=", FORM, reads=_DETECTED),
    Exchange("POST", "/translate", _CURL, _PHP_TEXT, reads=_TRANSLATED),
    Exchange(
        "POST",
        "/translate_file",
        _CURL,
        _PHP_FILE,
        reads={"translatedFileUrl": str},
        keeps={"translatedFileUrl": "file"},
    ),
    Exchange("GET", "{file}", reads="HALLO WELT"),
    Exchange(
        "POST",
        "/suggest",
        FORM,
        "q=Hund&s=dog&source=de&target=en&api_key=",
        reads={"success": True},
    ),
)

RUBY = (
    Exchange("GET", "/languages", reads=_LANGUAGES),
    Exchange("POST", "/detect", JSON, '{"q":"hallo welt","api_key":null}', reads=_DETECTED),
    Exchange(
        "POST",
        "/translate",
        JSON,
        '{"q":"hallo welt","source":"de","target":"en","format":"text","api_key":null}',
        reads=_TRANSLATED,
    ),
    Exchange(
        "POST",
        "/translate",
        JSON,
        '{"q":"hallo welt","source":"de","target":"xx","api_key":null}',
        status=400,
        reads={"error": str},
    ),
)

CLIENTS = MappingProxyType({"Java": JAVA, ".NET": DOTNET, "PHP": PHP, "Ruby": RUBY})
