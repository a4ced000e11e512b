"""A loaded model: manifest, tokenizers, engine, attention reader and result cache.

One model may translate in several directions on one engine; ``DirectedModel`` is one of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from models.bundle.manifest import Direction, Manifest, Precision
from models.bundle.tokenizer import Span, UnknownToken
from models.text import visible, visible_origins
from service.catalogue.result_cache import ResultCache
from service.catalogue.vocabulary import Vocabulary
from service.engine.types import DEFAULT_ORIGIN, Decoded, DecodingOptions, Origin
from service.runtime.backend import AttentionMaps
from service.text.types import LanguagePair

_INVISIBLE = "a\u00a0b\u00ad"


class Tokenizer(Protocol):
    """See ``models.bundle.tokenizer``."""

    def encode(self, text: str) -> tuple[int, ...]: ...

    def decode(self, ids: tuple[int, ...]) -> str: ...

    def spans(self, text: str) -> tuple[Span, ...]:
        """The span in ``text`` of each token of ``encode(text)``."""

    def unknown(self, text: str) -> tuple[UnknownToken, ...]:
        """The tokens of ``encode(text)`` that are ``unk``, in order."""

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        """The span in ``decode(ids)`` of each token."""

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """Printable form of each token; ``▁`` stands for a blank."""


class Tokenizers(Protocol):
    """See ``models.bundle.tokenizer``."""

    @property
    def source(self) -> Tokenizer: ...

    @property
    def target(self) -> Tokenizer: ...


class ModelEngine(Protocol):
    """See ``service.engine.group``."""

    @property
    def alive(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    @property
    def lost(self) -> bool: ...

    @property
    def devices(self) -> tuple[str, ...]: ...

    async def decode(
        self,
        source_ids: tuple[int, ...],
        options: DecodingOptions,
        origin: Origin = DEFAULT_ORIGIN,
    ) -> Decoded: ...

    def gathering(self) -> AbstractContextManager[None]: ...

    async def close(self) -> None: ...


class ModelAttention(Protocol):
    """See ``service.catalogue.attention_reader``."""

    def check(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> None: ...

    async def read(
        self, source_ids: tuple[int, ...], target_ids: tuple[int, ...], caller: str = ""
    ) -> AttentionMaps: ...

    async def close(self) -> None: ...


async def _opened() -> None:
    pass


@dataclass(eq=False, slots=True)
class LoadedModel:
    """A model that can be leased: verified and in memory, or loaded when it is used."""

    manifest: Manifest
    precision: Precision
    tokenizers: Tokenizers
    engine: ModelEngine
    attention: ModelAttention
    results: ResultCache
    leases: int = 0
    open_tokenizers: Callable[[], Awaitable[None]] = _opened
    """Awaited before texts are read, so that opening tokenizers does not block the event loop.
    Raises ``NotReady`` if they cannot be opened."""
    _vocabulary: Vocabulary | None = field(default=None, init=False, repr=False)
    _normalises: bool | None = field(default=None, init=False, repr=False)

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def directed(self) -> tuple[DirectedModel, ...]:
        """The model in each of its directions."""
        return tuple(DirectedModel(self, direction) for direction in self.manifest.directions)

    def vocabulary(self) -> Vocabulary:
        """The target vocabulary, made once. Blocks for a moment with large vocabularies."""
        if self._vocabulary is None:
            size = self.manifest.dimensions.vocabulary_size
            pieces = self.tokenizers.target.pieces(tuple(range(size)))
            self._vocabulary = Vocabulary(pieces, self.manifest.special_ids)
        return self._vocabulary

    @property
    def normalises(self) -> bool:
        """Whether source texts are read as ``visible`` returns them, which is how training does.

        Only with tokenizers that pass every character on to the network. The other ones normalise
        by themselves.
        """
        if self._normalises is None:
            source = self.tokenizers.source
            self._normalises = source.decode(source.encode(_INVISIBLE)) == _INVISIBLE
        return self._normalises

    def forget_vocabulary(self) -> None:
        """Free what ``vocabulary`` has made."""
        self._vocabulary = None

    async def close(self) -> None:
        """Stop the engine and the attention reader; pending calls fail with ``EngineStopped``."""
        await self.engine.close()
        await self.attention.close()


@dataclass(frozen=True, eq=False, slots=True)
class DirectedModel:
    """A loaded model in one of its directions.

    Source ids are the encoder's whole input: the direction's prefix, the tokens of the text,
    ``eos``. Target ids are those of the text alone; ``written`` adds the direction's prefix.
    """

    model: LoadedModel
    direction: Direction

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.direction.source, self.direction.target)

    def source_ids(self, text: str) -> tuple[int, ...]:
        """The encoder's input for a text."""
        return self.exact_source_ids(visible(text) if self.model.normalises else text)

    def source_spans(self, text: str) -> tuple[Span, ...]:
        """The span in ``text`` of each token of it in ``source_ids``, in order."""
        tokenizer = self.model.tokenizers.source
        read = visible(text) if self.model.normalises else text
        spans = tokenizer.spans(read)
        if read == text:
            return spans
        origins = (*visible_origins(text), (len(text), len(text)))
        return tuple(
            (origins[start][0], origins[end - 1][1] if end > start else origins[start][0])
            for start, end in spans
        )

    def exact_source_ids(self, text: str) -> tuple[int, ...]:
        """The encoder's input for a text that is not normalised, such as a bundle's example."""
        eos = self.model.manifest.special_ids.eos
        return self.direction.source_ids(self.model.tokenizers.source.encode(text), eos)

    def text_tokens(self, source_ids: tuple[int, ...]) -> int:
        """The number of ``source_ids`` without the prefix and ``eos``."""
        ends = source_ids[-1] == self.model.manifest.special_ids.eos
        return len(source_ids) - len(self.direction.source_prefix) - ends

    def written(self, target_ids: tuple[int, ...]) -> tuple[int, ...]:
        """The decoder's tokens between ``bos`` and ``eos``: the prefix, then ``target_ids``."""
        return (*self.direction.target_prefix, *target_ids)
