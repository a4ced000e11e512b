"""Request fields of ``/v2/translate`` and their conversion to translation options.

Clients send options that our models lack: formality, style, memory, instructions, context. They are
accepted, and the answer lists them under ``ignored``. Formatting is always preserved. Unknown
fields are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from service.api.deepl.fields import CommaSeparated
from service.api.options import DecodingParameters
from service.translation.decoding import DecodingOverrides
from service.translation.markup import PLAIN, Markup
from service.translation.segmentation import Splitting

Formality = Annotated[
    Literal["default", "more", "less", "prefer_more", "prefer_less"] | None,
    Field(description="Accepted; no language on offer supports it, so it changes nothing."),
]

_WITHOUT_EFFECT = (
    "context",
    "formality",
    "style_id",
    "translation_memory_id",
    "custom_instructions",
)

_SPLITTINGS: dict[str, Splitting] = {
    "0": "none",
    "1": "sentences",
    "nonewlines": "ignoring_lines",
}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _no_boolean(value: Any) -> Any:
    # In Python, ``False`` equals 0.
    if isinstance(value, bool):
        raise ValueError("it should be '0', '1' or 'nonewlines'")
    return value


class TranslateParameters(DecodingParameters):
    """The fields of ``/v2/translate``, in whichever shape they come."""

    text: Annotated[list[str], BeforeValidator(_listed, json_schema_input_type=str | list[str])] = (
        Field(
            description="The texts to translate. Forms repeat the field.",
            examples=[["Zwei junge Männer spielen Fußball auf einer Wiese."]],
        )
    )
    target_lang: str = Field(
        description="In any case; variants that are not on offer are their language.",
        examples=["EN-GB"],
    )
    source_lang: str | None = Field(
        None, description="Detected for each text if left out.", examples=["DE"]
    )
    context: str | None = Field(None, description="Accepted; it changes nothing.")
    split_sentences: (
        Annotated[Literal["0", "1", "nonewlines", 0, 1], BeforeValidator(_no_boolean)] | None
    ) = Field(
        None,
        description="Whether sentences end at full stops and at newlines (`1`), at full stops only "
        "(`nonewlines`, the default for `html`), or only with the text (`0`).",
    )
    preserve_formatting: bool | None = Field(
        None, description="Accepted; formatting is always preserved."
    )
    formality: Formality = None
    glossary_id: str | None = Field(None, description="Needs `source_lang`.")
    glossary_ids: CommaSeparated | None = Field(
        None, description="Up to five; the first counts most."
    )
    tag_handling: Literal["xml", "html"] | None = Field(None, description="What the markup is.")
    tag_handling_version: Literal["v1", "v2"] | None = Field(None, description="Accepted.")
    outline_detection: bool | None = Field(
        None,
        description="XML: whether tags that no text stands next to end sentences. By "
        "default they do.",
    )
    splitting_tags: CommaSeparated | None = Field(None, description="Tags that end sentences.")
    non_splitting_tags: CommaSeparated | None = Field(None, description="Tags that never do.")
    ignore_tags: CommaSeparated | None = Field(
        None, description="Tags whose content is not translated."
    )
    model_type: (
        Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None
    ) = Field(None, description="`latency_optimized` searches greedily, unless asked otherwise.")
    show_billed_characters: bool | None = Field(
        None, description="Accepted; they are always shown."
    )
    style_id: str | None = Field(None, description="Accepted; it changes nothing.")
    translation_memory_id: str | None = Field(None, description="Accepted; it changes nothing.")
    custom_instructions: list[str] | None = Field(
        None, max_length=10, description="Accepted; they change nothing."
    )
    model: str | None = Field(None, description="A model on offer, by name.")
    auth_key: str | None = Field(None, description="The key, for clients that send no header.")

    @property
    def markup(self) -> Markup:
        if self.tag_handling is None:
            return PLAIN
        return Markup(
            self.tag_handling,
            ignore_tags=self._tags(self.ignore_tags),
            splitting_tags=self._tags(self.splitting_tags),
            non_splitting_tags=self._tags(self.non_splitting_tags),
            outline_detection=self.outline_detection is not False,
        )

    @property
    def splitting(self) -> Splitting:
        by_default = "nonewlines" if self.tag_handling == "html" else "1"
        given = self.split_sentences
        return _SPLITTINGS[by_default if given is None else str(given)]

    @property
    def decoding(self) -> DecodingOverrides:
        overrides = self.overrides(self.num_hypotheses or 1)
        quick = self.model_type == "latency_optimized"
        if quick and overrides.beam_size is None and overrides.num_hypotheses == 1:
            return replace(overrides, beam_size=1)
        return overrides

    @property
    def ignored(self) -> list[str]:
        """Names of the requested options that have no effect."""
        given = [name for name in _WITHOUT_EFFECT if getattr(self, name)]
        return [name for name in given if getattr(self, name) != "default"]

    def _tags(self, names: Sequence[str] | None) -> frozenset[str]:
        html = self.tag_handling == "html"
        return frozenset(name.lower() if html else name for name in names or ())
