"""A model that has proved itself: what the bundle says, and everything that works for it.

One model may translate in several directions, all on one engine; who translates works with one of
its ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from models.bundle.manifest import Direction, Manifest, Precision
from models.bundle.tokenizer import Span, UnknownToken
from service.engine.engine import Engine
from service.translation.attention_reader import AttentionReader
from service.translation.result_cache import ResultCache
from service.translation.types import LanguagePair


class Tokenizer(Protocol):
    """See ``models.bundle.tokenizer``."""

    def encode(self, text: str) -> tuple[int, ...]: ...

    def decode(self, ids: tuple[int, ...]) -> str: ...

    def spans(self, text: str) -> tuple[Span, ...]:
        """The characters of ``text`` that each token of ``encode(text)`` comes from."""

    def unknown(self, text: str) -> tuple[UnknownToken, ...]:
        """The tokens of ``encode(text)`` that are ``unk``, in order."""

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        """The characters of ``decode(ids)`` that each token becomes."""

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """Each token for people to look at; ``▁`` stands for a blank."""


class Tokenizers(Protocol):
    """See ``models.bundle.tokenizer``."""

    @property
    def source(self) -> Tokenizer: ...

    @property
    def target(self) -> Tokenizer: ...


@dataclass(eq=False, slots=True)
class LoadedModel:
    """A model that has proved itself and can be leased."""

    manifest: Manifest
    precision: Precision
    tokenizers: Tokenizers
    engine: Engine
    attention: AttentionReader
    results: ResultCache
    leases: int = 0

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def ways(self) -> tuple[DirectedModel, ...]:
        """One for each of its directions."""
        return tuple(DirectedModel(self, direction) for direction in self.manifest.directions)

    async def close(self) -> None:
        """Stop the engine and the reader; whoever waits for either is told so."""
        await self.engine.close()
        await self.attention.close()


@dataclass(frozen=True, eq=False, slots=True)
class DirectedModel:
    """A loaded model in one of its directions.

    Source ids are all that the network reads: the direction's prefix, the tokens of the text,
    ``eos``. Target ids are those of the text alone; what the decoder is fed before them is put
    there by whoever asks the network.
    """

    model: LoadedModel
    direction: Direction

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.direction.source, self.direction.target)

    def source_ids(self, text: str) -> tuple[int, ...]:
        """What the network reads of a text."""
        eos = self.model.manifest.special_ids.eos
        return (*self.direction.source_prefix, *self.model.tokenizers.source.encode(text), eos)

    def text_tokens(self, source_ids: tuple[int, ...]) -> int:
        """How many of the source's tokens are of its text."""
        return len(source_ids) - len(self.direction.source_prefix) - 1

    def written(self, target_ids: tuple[int, ...]) -> tuple[int, ...]:
        """What stands between ``bos`` and ``eos`` when the network writes a translation."""
        return (*self.direction.target_prefix, *target_ids)
