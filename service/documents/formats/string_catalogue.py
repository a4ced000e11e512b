"""Opens string catalogues of Xcode (.xcstrings). Missing localisations are written.

Existing ones, and strings that are not to be translated, stay as they are.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from service.documents.containers.encoding import decode
from service.documents.formats.json_messages import dumped, parsed_json
from service.documents.fragments.message import plain_message
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_STATE = "needs_review"
"""State of a translation that no person has seen; programs use it."""
_UNTRANSLATED = "new"
_EMPTY = re.compile(r"^( *)(.*: )\{\}(,?)$", re.MULTILINE)


def open_xcstrings(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a catalogue; raises ``BrokenDocument``."""
    return _StringCatalogue(content, languages)


class _StringCatalogue:
    """A catalogue. Its white space may be written anew, as Xcode writes it."""

    media_type = "application/json"

    def __init__(self, content: bytes, languages: Languages) -> None:
        self._content = content
        self._file = decode(content, declared="utf-8")
        self._languages = languages
        self._catalogue = parsed_json(self._file.text)
        if not isinstance(self._catalogue, dict) or "strings" not in self._catalogue:
            raise BrokenDocument("the file is no string catalogue of Xcode: it has no strings")
        self.texts = tuple(
            text
            for _, source in self._missing(self._catalogue)
            for unit in _units(source)
            for text in plain_message(unit["value"]).texts
        )

    def replaced(self, translations: Sequence[str]) -> bytes:
        remaining = iter(translations)
        catalogue = copy.deepcopy(self._catalogue)
        changed = False
        for entry, source in list(self._missing(catalogue)):
            localisation = copy.deepcopy(source)
            for unit in _units(localisation):
                message = plain_message(unit["value"])
                unit |= {"state": _STATE}
                unit["value"] = message.replaced(list(islice(remaining, len(message.texts))))
            localisations = _object(entry.get("localizations"))
            tag = _tag(localisations, self._languages.target) or self._languages.target
            _insert(localisations, tag, localisation)
            _insert(entry, "localizations", localisations)
            changed = True
        return self._file.encode(self._written(catalogue)) if changed else self._content

    def _missing(self, catalogue: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
        """The entries without localisation in the target language, each with its source."""
        common = str(catalogue.get("sourceLanguage", ""))
        language = self._languages.source or common
        if _primary(self._languages.target) in ("", _primary(language)):
            return
        for key, entry in _object(catalogue["strings"]).items():
            if not isinstance(entry, dict) or entry.get("shouldTranslate") is False:
                continue
            localisations = _object(entry.get("localizations"))
            tag = _tag(localisations, language)
            source = localisations.get(tag)
            if source is None and _primary(language) == _primary(common):
                # A key without localisation is the text itself.
                source = {"stringUnit": {"state": _STATE, "value": key}}
            units = [plain_message(unit["value"]) for unit in _units(source)]
            target = localisations.get(_tag(localisations, self._languages.target))
            done = any(
                unit.get("state") != _UNTRANSLATED and unit["value"] for unit in _units(target)
            )
            if not done and any(unit.texts for unit in units):
                yield entry, source

    def _written(self, catalogue: dict[str, Any]) -> str:
        text = self._file.text
        end = text[len(text.rstrip()) :]
        written = _EMPTY.sub(r"\1\2{\n\n\1}\3", dumped(catalogue, indent=2))
        return (written.replace("/", "\\/") if "\\/" in text else written) + end


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _units(localisation: Any) -> Iterator[dict[str, Any]]:
    """The units of a localisation, those of each variation by number or device included."""
    for key, value in _object(localisation).items():
        if key == "stringUnit" and isinstance(_object(value).get("value"), str):
            yield value
        else:
            yield from _units(value)


def _tag(localisations: dict[str, Any], language: str) -> str:
    """The key of the localisation in a language, exactly or of its primary part; or empty."""
    if language in localisations:
        return language
    primary = _primary(language)
    return next((tag for tag in localisations if primary and _primary(tag) == primary), "")


def _primary(tag: str) -> str:
    return tag.replace("_", "-").partition("-")[0].lower()


def _insert(mapping: dict[str, Any], key: str, value: Any) -> None:
    """Set a key, in its place if the keys are sorted."""
    is_sorted = list(mapping) == sorted(mapping)
    mapping[key] = value
    if is_sorted:
        for each in sorted(mapping):
            mapping[each] = mapping.pop(each)
