"""A model that has proved itself: what the bundle says, and everything that works for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from models.bundle.manifest import Manifest, Precision
from models.bundle.tokenizer import Span
from service.engine.engine import Engine
from service.translation.reader import AttentionReader
from service.translation.results import Results
from service.translation.types import LanguagePair


class Tokenizer(Protocol):
    """See ``models.bundle.tokenizer``."""

    def encode(self, text: str) -> tuple[int, ...]: ...

    def decode(self, ids: tuple[int, ...]) -> str: ...

    def spans(self, text: str) -> tuple[Span, ...]:
        """The characters of ``text`` that each token of ``encode(text)`` comes from."""

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        """The characters of ``decode(ids)`` that each token becomes."""

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """Each token for people to look at; ``▁`` stands for a blank."""


Stamp = tuple[tuple[str, int, int, int], ...]
"""Each file's name, inode, time of its last change in nanoseconds, and size in bytes."""


@dataclass(eq=False, slots=True)
class LoadedModel:
    """A model that has proved itself and can be leased."""

    manifest: Manifest
    precision: Precision
    tokenizer: Tokenizer
    engine: Engine
    attention: AttentionReader
    results: Results
    leases: int = 0

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.manifest.source, self.manifest.target)

    async def close(self) -> None:
        """Stop the engine and the reader; whoever waits for either is told so."""
        await self.engine.close()
        await self.attention.close()
