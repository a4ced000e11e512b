"""Requests of clients of Apertium APy, DeepLX, MTranServer and Google's API.

OmegaT 6.1 (``ApertiumTranslate``), Weblate 2026.10, pot, KISS Translator 2.0, Zotero PDF Translate
2.4, Subtitle Edit 5, Immersive Translate, and Google's libraries for Python, Node and Java.
"""

from __future__ import annotations

from types import MappingProxyType

from tests.api.clients.exchanges import FORM, JSON, Exchange

_APY = {
    "responseStatus": 200,
    "responseData": {"translatedText": "HALLO WELT"},
    "responseDetails": None,
}
_PAIRS = {"responseData": [{"sourceLanguage": str, "targetLanguage": str}]}
_DEEPLX = {"code": 200, "data": "HALLO WELT", "alternatives": list, "source_lang": "DE", "id": int}
_PARAGRAPHS = {"translations": [{"detected_source_lang": str, "text": str}]}
_GOOGLE = "/language/translate/v2"
_TRANSLATIONS = {"data": {"translations": [{"translatedText": "HALLO WELT"}]}}
_DETECTED = {"data": {"translations": [{"translatedText": str, "detectedSourceLanguage": str}]}}

OMEGAT = (
    Exchange(
        "GET", "/translate?q=hallo+welt&markUnknown=no&langpair=de|en&key=", accept=JSON, reads=_APY
    ),
    Exchange(
        "GET", "/translate?q=hallo+welt&markUnknown=yes&langpair=de_DE|en_US&key=k", reads=_APY
    ),
)
WEBLATE = (
    Exchange("GET", "/listPairs", reads=_PAIRS),
    Exchange("GET", "/translate?langpair=deu%7Ceng&q=hallo%20welt&markUnknown=no", reads=_APY),
    Exchange(
        "POST",
        f"{_GOOGLE}/",
        JSON,
        '{"q":"hallo welt","source":"de","target":"en","format":"text"}',
        reads=_TRANSLATIONS,
    ),
)
POT = (
    Exchange(
        "POST",
        "/translate",
        JSON,
        '{"source_lang":"DE","target_lang":"EN","text":"hallo welt"}',
        reads=_DEEPLX,
    ),
)
KISS = (
    Exchange(
        "POST",
        "/translate?token=k",
        JSON,
        '{"text":"hallo welt","target_lang":"EN","source_lang":""}',
        reads={"data": str, "source_lang": str},
    ),
)
SUBTITLE_EDIT = (
    Exchange(
        "POST",
        "/translate",
        "text/plain; charset=utf-8",
        '{ "text": "hallo welt", "source_lang": "DE", "target_lang": "EN"}',
        reads=_DEEPLX,
    ),
)
IMMERSIVE_TRANSLATE = (
    Exchange(
        "POST",
        "/imme?token=k",
        JSON,
        '{"source_lang":"auto","target_lang":"en","text_list":["hallo <b0>welt</b0>","a & b"]}',
        reads=_PARAGRAPHS,
    ),
)
PYTHON = (
    Exchange("GET", f"{_GOOGLE}/languages?target=en&prettyPrint=false", reads={"data": dict}),
    Exchange(
        "POST",
        f"{_GOOGLE}?prettyPrint=false",
        JSON,
        '{"target":"en","q":["hallo welt"],"cid":[],"format":null,"source":"de","model":null}',
        reads=_TRANSLATIONS,
    ),
    Exchange(
        "POST",
        f"{_GOOGLE}/detect?prettyPrint=false",
        JSON,
        '{"q":["Guten Morgen, liebe Freunde."]}',
        reads={"data": {"detections": [[{"language": "de", "confidence": float}]]}},
    ),
)
NODE = (
    Exchange(
        "POST",
        f"{_GOOGLE}/?key=k",
        JSON,
        '{"q":["<b>hallo</b> welt"],"format":"html","target":"en"}',
        reads=_DETECTED,
    ),
    Exchange(
        "GET",
        f"{_GOOGLE}/models?key=k",
        status=404,
        reads={"error": {"code": 404, "message": str}},
    ),
    Exchange(
        "POST",
        f"{_GOOGLE}?key=k",
        JSON,
        '{"q":["Guten Morgen, liebe <b>Freunde</b>."],"format":"html","target":"en"}',
        reads=_DETECTED,
    ),
)
JAVA = (
    Exchange("GET", f"{_GOOGLE}?q=hallo+welt&target=en&source=de&format=text", reads=_TRANSLATIONS),
    Exchange(
        "POST", _GOOGLE, FORM, "q=hallo+welt&target=en&source=de&format=text", reads=_TRANSLATIONS
    ),
)

CLIENTS: MappingProxyType[str, tuple[Exchange, ...]] = MappingProxyType(
    {
        "omegat": OMEGAT,
        "weblate": WEBLATE,
        "pot": POT,
        "kiss": KISS,
        "subtitle-edit": SUBTITLE_EDIT,
        "immersive-translate": IMMERSIVE_TRANSLATE,
        "google-python": PYTHON,
        "google-node": NODE,
        "google-java": JAVA,
    }
)
