"""Limits on everything that a request may contain, in one table.

Request fields take their limits from here, ``docs/operations.md`` has the same table, and tests
compare both with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from service.api.errors import BadRequest
from service.state.entries import LONGEST_TERM_BYTES
from service.state.glossaries import LONGEST_NAME_BYTES, GlossaryLimits
from service.state.suggestions import SuggestionLimits
from service.state.tmx import MemoryLimits
from service.translation.decoding import PREFIX_CHARACTERS, SUPPRESSED_CHARACTERS, SUPPRESSED_TEXTS

LANGUAGE_CHARACTERS = 64
NAME_CHARACTERS = 200
"""Characters in the name of a model, an API key, an id."""
FILENAME_CHARACTERS = 1_000
TAGS = 1_000
TAG_CHARACTERS = 4_000
"""Characters in all names of tags of one field."""
GLOSSARIES = 5
"""Glossaries in one request."""
TERMS = 1_000
TERM_CHARACTERS = 50_000
"""Characters in all terms of a request."""
CONTEXT_CHARACTERS = 100_000
INSTRUCTIONS = 10
INSTRUCTION_CHARACTERS = 300
CHOICE_CHARACTERS = 1_000
"""Characters in a choice of layers or heads."""

_GLOSSARY = GlossaryLimits()
_SUGGESTION = SuggestionLimits()
_MEMORY = MemoryLimits()


@dataclass(frozen=True, slots=True)
class Bound:
    what: str
    unit: Literal["bytes", "characters", "items", "tokens", "seconds"]
    limit: int | None
    """``None`` if a setting has the limit."""
    setting: str = ""
    """Field of ``Settings``."""
    fields: tuple[str, ...] = ()
    """Request fields with this bound."""
    status: int = 400
    """HTTP status of the refusal."""

    @property
    def shown(self) -> str:
        """The limit as documentation has it: a number, or the setting."""
        return f"{self.limit:,}" if self.limit is not None else f"`DRAGOMAN_{self.setting.upper()}`"


_TEXTS = ("q", "text", "text_list", "source_text", "target_text", "translation", "prefix")
_WIDTHS = ("beam_size", "num_hypotheses", "alternatives")
_LANGUAGES = ("source", "target", "source_lang", "target_lang")
_NAMES = (
    *("model", "api_key", "auth_key", "id", "name", "glossary_id", "document_id", "document_key"),
    *("style_id", "translation_memory_id"),
)
_TAGS = ("ignore_tags", "splitting_tags", "non_splitting_tags")

BOUNDS = (
    Bound("body", "bytes", None, "max_body_bytes", ("entries",), 413),
    Bound("document", "bytes", None, "max_document_bytes", ("file",), 413),
    Bound("texts of a request", "items", None, "max_texts", _TEXTS),
    Bound("texts of a request, together", "characters", None, "max_characters", _TEXTS),
    Bound("beam; translations of a text", "items", None, "max_beam_size", _WIDTHS),
    Bound("language code", "characters", LANGUAGE_CHARACTERS, fields=_LANGUAGES),
    Bound("name of a model, API key, id", "characters", NAME_CHARACTERS, fields=_NAMES),
    Bound("name of a file as a field", "characters", FILENAME_CHARACTERS, fields=("filename",)),
    Bound("`target_prefix`", "characters", PREFIX_CHARACTERS, fields=("target_prefix",)),
    Bound("suppressed texts", "items", SUPPRESSED_TEXTS, fields=("suppress_sequences",)),
    Bound("suppressed texts, together", "characters", SUPPRESSED_CHARACTERS),
    Bound("names of tags in a field", "items", TAGS, fields=_TAGS),
    Bound("names of tags in a field, together", "characters", TAG_CHARACTERS, fields=_TAGS),
    Bound("glossaries of a request", "items", GLOSSARIES, fields=("glossary_ids",)),
    Bound("terms in a request", "items", TERMS, fields=("glossary",)),
    Bound("terms in a request, together", "characters", TERM_CHARACTERS, fields=("glossary",)),
    Bound("context", "characters", CONTEXT_CHARACTERS, fields=("context",)),
    Bound("instructions", "items", INSTRUCTIONS, fields=("custom_instructions",)),
    Bound("instruction", "characters", INSTRUCTION_CHARACTERS),
    Bound("choice of layers or heads", "characters", CHOICE_CHARACTERS, fields=("layer", "head")),
    Bound("suggestion, and its text", "characters", _SUGGESTION.characters, fields=("s",)),
    Bound("suggestions", "items", _SUGGESTION.suggestions, status=403),
    Bound("name of a glossary", "bytes", LONGEST_NAME_BYTES, fields=("name",)),
    Bound("term of a glossary", "bytes", LONGEST_TERM_BYTES),
    Bound("entries of a dictionary", "items", _GLOSSARY.entries),
    Bound("entries of a dictionary, together", "characters", _GLOSSARY.characters),
    Bound("dictionaries of a glossary", "items", _GLOSSARY.dictionaries, fields=("dictionaries",)),
    Bound("glossaries of an owner", "items", _GLOSSARY.glossaries),
    Bound("file of a translation memory", "bytes", _MEMORY.file_bytes, status=413),
    Bound("units of a translation memory", "items", _MEMORY.units),
    Bound("units of a translation memory, together", "characters", _MEMORY.characters),
    Bound("text of a unit", "characters", _MEMORY.unit_characters),
    Bound("translation memories of an owner", "items", _MEMORY.memories),
    Bound("imports and exports of an owner in a day", "items", _MEMORY.jobs),
)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    texts: int
    characters: int
    alternatives: int
    seconds: float
    """Maximum duration of a request; a caller may ask for less."""

    def check(self, texts: Sequence[str]) -> None:
        """Raises ``BadRequest`` for too many texts or characters."""
        self.check_sizes(len(texts), sum(map(len, texts)))

    def check_sizes(self, texts: int, characters: int) -> None:
        """``check`` of so many texts with so many characters together."""
        for size, limit, unit in (
            (texts, self.texts, "texts"),
            (characters, self.characters, "characters"),
        ):
            if size > limit:
                # LibreTranslate's words for both limits, up to the unit.
                raise BadRequest(
                    f"Invalid request: request ({size}) exceeds text limit ({limit}), "
                    f"counted in {unit}"
                )
