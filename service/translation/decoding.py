"""How a sentence is decoded when a request says some of it, or nothing.

What a request leaves open is the bundle's default. A beam is widened to the number of
hypotheses asked for, unless the request fixes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from models.bundle.manifest import DecodingDefaults, SentenceLimits
from service.engine.types import DecodingOptions
from service.translation.errors import InvalidOption

T = TypeVar("T")

# Translations rarely have more than twice the tokens of their source; three times and a
# little more leaves room for short sentences and stops a repetition before it costs much.
_TOKENS_PER_SOURCE_TOKEN = 3
_TOKENS_ALWAYS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOverrides:
    """What a request says about decoding; ``None`` leaves it to the bundle."""

    beam_size: int | None = None
    num_hypotheses: int | None = None
    length_penalty: float | None = None
    max_decoding_length: int | None = None

    def resolve(
        self, defaults: DecodingDefaults, limits: SentenceLimits, source_tokens: int
    ) -> DecodingOptions:
        """The options for a sentence of ``source_tokens`` tokens, ``eos`` included.

        A translation may have ``3 * source_tokens + 20`` tokens, ``eos`` included, but not more
        than the network can write; reaching that length is told as ``FinishReason.LENGTH``.
        """
        num_hypotheses = _or(self.num_hypotheses, 1)
        beam_size = _or(self.beam_size, max(defaults.beam_size, num_hypotheses))
        longest = _TOKENS_PER_SOURCE_TOKEN * source_tokens + _TOKENS_ALWAYS
        try:
            return DecodingOptions(
                beam_size=beam_size,
                num_hypotheses=num_hypotheses,
                length_penalty=_or(self.length_penalty, defaults.length_penalty),
                max_decoding_length=min(
                    limits.target_length, _or(self.max_decoding_length, longest)
                ),
            )
        except ValueError as error:
            raise InvalidOption(str(error)) from error


NO_OVERRIDES = DecodingOverrides()


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
