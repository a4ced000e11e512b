"""All three stages of a translation in this process, for callers that are not charged."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing

from service.catalogue.repository import ModelRepository
from service.engine.errors import SentenceTooLong
from service.engine.types import DEFAULT_ORIGIN, Origin
from service.translation.admission import Admission
from service.translation.engine_decoder import EngineDecoders
from service.translation.request_reader import Detector
from service.translation.translator import Translator
from service.translation.types import Part, TranslateRequest, Translation


class LocalTranslator:
    """A ``Translator`` with the engines of a repository. Event loop only."""

    def __init__(
        self, repository: ModelRepository, admission: Admission, detector: Detector
    ) -> None:
        self._admission = admission
        self.stages = Translator(repository, detector, admission.refuse_if_full)
        self.decoders = EngineDecoders(repository, admission)

    @property
    def in_flight(self) -> int:
        """Source tokens accepted and not yet translated, see ``service.translation.admission``."""
        return self._admission.in_flight

    async def translate(
        self,
        request: TranslateRequest,
        deliver: Callable[[Part], None] | None = None,
        *,
        origin: Origin = DEFAULT_ORIGIN,
        block_lock: AbstractAsyncContextManager[None] | None = None,
    ) -> list[Translation]:
        """Read, decode and write a request; see ``Translator.translate``.

        ``block_lock`` is that of ``EngineDecoders.opened``.
        """
        self.decoders.refuse_if_slow(origin)
        prepared = await self.stages.read(request, origin.caller)
        async with self.decoders.opened(origin, block_lock) as decoder:
            return await self.stages.translate(prepared, decoder, deliver, origin.caller)

    async def stream(
        self, request: TranslateRequest, origin: Origin = DEFAULT_ORIGIN
    ) -> AsyncGenerator[Part | list[Translation], None]:
        """Yields the parts of every text in order, then all translations. Closing cancels."""
        self.decoders.refuse_if_slow(origin)
        prepared = await self.stages.read(request, origin.caller)
        async with (
            self.decoders.opened(origin) as decoder,
            aclosing(self.stages.stream(prepared, decoder, origin.caller)) as parts,
        ):
            async for each in parts:
                yield each

    async def too_long(self, request: TranslateRequest) -> dict[int, SentenceTooLong]:
        """See ``Translator.too_long``."""
        return await self.stages.too_long(request)
