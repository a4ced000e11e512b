"""The nouns of translation, in nobody's wire format."""

from __future__ import annotations

from dataclasses import dataclass

from service.engine.types import FinishReason, Priority
from service.translation.decoding import NO_OVERRIDES, DecodingOverrides


@dataclass(frozen=True, slots=True, order=True)
class LanguagePair:
    """Two canonical language codes, see ``models.bundle.languages``."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True, slots=True)
class Language:
    """A language on offer, its English name, and what it can be translated to but itself."""

    code: str
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TranslateRequest:
    """Texts to translate alike. What ``decoding`` leaves unset is the model's own default."""

    texts: tuple[str, ...]
    pair: LanguagePair
    decoding: DecodingOverrides = NO_OVERRIDES
    priority: Priority = "interactive"


@dataclass(frozen=True, slots=True)
class Translation:
    """What became of one text.

    ``hypotheses`` holds at least one text, best first; hypothesis *i* of a text is made of
    hypothesis *i* of each of its sentences. Tokens are counted without ``bos`` and ``eos``, those
    of the target in the best hypothesis. ``model`` is ``None`` where source and target are one
    language and nothing had to be translated.
    """

    hypotheses: tuple[str, ...]
    pair: LanguagePair
    model: str | None
    source_tokens: int
    target_tokens: int
    finish_reason: FinishReason

    @property
    def text(self) -> str:
        return self.hypotheses[0]

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The other hypotheses, without repetitions and without empty ones."""
        others = dict.fromkeys(self.hypotheses[1:])
        return tuple(text for text in others if text.strip() and text != self.text)

    @property
    def truncated(self) -> bool:
        """Whether the translation of a sentence was cut at its longest allowed length."""
        return self.finish_reason is FinishReason.LENGTH
