"""Translation with limits, charges, deadlines and metrics, shared by all dialects."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from fastapi import Request

from service.api.access import Access, Caller, Callers
from service.api.bounds import RequestLimits
from service.api.errors import BadRequest
from service.api.middleware import facts_of
from service.engine.errors import BeamTooWide
from service.engine.types import Decoded
from service.observability.metrics import RequestObserver
from service.translation.alternatives import AlternativeFinder, Alternatives, WordPlace
from service.translation.loaded_model import LoadedModel
from service.translation.plain import DecodeRequest, PreparedRequest, finish_plain
from service.translation.translator import Translator
from service.translation.types import Part, TranslateRequest, Translation, longest

_TIMEOUT = "x-request-timeout"


class RequestMeter:
    """Checks requests against the limits, and records what was done. Changes no other state."""

    def __init__(self, limits: RequestLimits, callers: Callers, metrics: RequestObserver) -> None:
        self.limits = limits
        self.callers = callers
        self.metrics = metrics

    def checked(
        self, request: Request, caller: Caller, wanted: TranslateRequest
    ) -> tuple[TranslateRequest, int]:
        """The request with its deadline and its caller, and the characters to charge for.

        Raises ``BadRequest`` or ``BeamTooWide`` beyond the limits.
        """
        self.limits.check(wanted.texts)
        decoding = wanted.decoding
        # Checked here, too, because not every text reaches a model.
        width = max(decoding.beam_size or 1, decoding.num_hypotheses or 1)
        if width > self.limits.alternatives + 1:
            raise BeamTooWide(width, self.limits.alternatives + 1)
        complete = replace(
            wanted,
            deadline=self._seconds(request),
            cache_scope=self.callers.cache_scope(caller),
            caller=caller.counted_as,
        )
        return complete, sum(map(wanted.markup.characters, wanted.texts))

    def note(
        self, request: Request, wanted: TranslateRequest, translations: Sequence[Translation]
    ) -> None:
        """Record the translations of a request for metrics, headers and log."""
        facts = facts_of(request)
        characters = list(map(wanted.markup.characters, wanted.texts))
        for count, translation in zip(characters, translations, strict=True):
            if translation.model is not None:
                facts.model = translation.model
                facts.model_version = "+".join(leg.version for leg in translation.legs)
                self.metrics.characters(translation.model, count)
        facts.timing = longest([translation.timing for translation in translations])
        facts.characters = sum(characters)
        facts.tokens = sum(t.source_tokens + t.target_tokens for t in translations)

    def _seconds(self, request: Request) -> float:
        given = request.headers.get(_TIMEOUT)
        if given is None:
            return self.limits.seconds
        try:
            seconds = float(given)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise BadRequest(f"Invalid request: {_TIMEOUT} header is not a number of seconds")
        return min(seconds, self.limits.seconds)


class MeteredTranslator:
    """Translates parsed requests within the limits and charges their callers."""

    def __init__(
        self,
        translator: Translator,
        finder: AlternativeFinder,
        access: Access,
        meter: RequestMeter,
    ) -> None:
        self._translator = translator
        self._finder = finder
        self._access = access
        self._meter = meter

    @property
    def limits(self) -> RequestLimits:
        return self._meter.limits

    async def translate(
        self, request: Request, caller: Caller, wanted: TranslateRequest
    ) -> list[Translation]:
        """Raises ``BadRequest`` or ``BeamTooWide`` beyond the limits, and what ``Access`` and
        ``Translator`` raise."""
        wanted, characters = self._meter.checked(request, caller, wanted)
        async with self._access.charge(caller, characters):
            translations = await self._translator.translate(wanted)
        self._meter.note(request, wanted, translations)
        return translations

    async def translate_prepared(
        self, caller: Caller, characters: int, prepared: PreparedRequest
    ) -> list[Translation]:
        """Translate a prepared request that is within the limits, and charge for it.

        Raises ``ModelReplaced`` if the model is no longer on offer, and what ``decoded`` and
        ``finish_plain`` raise.
        """
        async with (
            self._translator.leased(prepared.decode) as model,
            self.decoded(caller, characters, model, prepared.decode) as decoded,
        ):
            return await finish_plain(prepared, decoded)

    @asynccontextmanager
    async def decoded(
        self, caller: Caller, characters: int, model: LoadedModel, request: DecodeRequest
    ) -> AsyncIterator[list[Decoded]]:
        """The results of a plain request that is within the limits.

        Charges for its characters unless the body raises. Raises what ``Access.charge`` and
        ``Translator.decode`` raise.
        """
        async with self._access.charge(caller, characters):
            yield await self._translator.decode(model, request)

    async def stream(
        self, request: Request, caller: Caller, wanted: TranslateRequest
    ) -> AsyncGenerator[Part | list[Translation], None]:
        """Like ``translate``, but yields the parts of each text before the translations."""
        wanted, characters = self._meter.checked(request, caller, wanted)
        # Closing the stream here ends its work before the charge completes.
        async with (
            self._access.charge(caller, characters),
            aclosing(self._translator.stream(wanted)) as parts,
        ):
            async for each in parts:
                if isinstance(each, list):
                    self._meter.note(request, wanted, each)
                yield each

    async def alternatives(
        self, request: Request, caller: Caller, wanted: TranslateRequest, place: WordPlace
    ) -> Alternatives:
        """Charges for the text. Raises as ``translate``, and what ``AlternativeFinder`` raises."""
        wanted, characters = self._meter.checked(request, caller, wanted)
        if place.translation is not None:
            self.limits.check([place.translation])
        async with self._access.charge(caller, characters):
            found = await self._finder.find(wanted, place)
        facts = facts_of(request)
        facts.model, facts.model_version = found.model, found.version
        facts.timing, facts.characters, facts.tokens = found.timing, characters, found.tokens
        self._meter.metrics.characters(found.model, characters)
        return found
