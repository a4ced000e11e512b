"""Translation with limits, charges, deadlines and metrics, shared by all dialects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fastapi import Request

from service.api.access import Access, Caller, Callers
from service.api.errors import BadRequest
from service.api.fields.bounds import RequestLimits
from service.api.middleware import facts_of
from service.api.readings import Reading
from service.engine.errors import BeamTooWide
from service.engine.types import Origin, Priority
from service.observability.metrics import RequestObserver
from service.translation.alternatives import AlternativeFinder, Alternatives, WordPlace
from service.translation.decoder import Decoder
from service.translation.engine_decoder import EngineDecoders
from service.translation.request_reader import Prepared
from service.translation.split_text import SplitText, split_text
from service.translation.tasks import deadline
from service.translation.translator import Translator
from service.translation.types import Part, TranslateRequest, Translation, longest

_TIMEOUT = "x-request-timeout"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Resources that a request within the limits may use."""

    origin: Origin
    seconds: float
    """Time limit of the whole request."""


class RequestMeter:
    """Checks requests against the limits, and records what was done. Changes no other state."""

    def __init__(self, limits: RequestLimits, callers: Callers, metrics: RequestObserver) -> None:
        self.limits = limits
        self.callers = callers
        self.metrics = metrics

    def allowed(
        self, request: Request, caller: Caller, wanted: TranslateRequest, priority: Priority
    ) -> Allowed:
        """The resources of a request; raises ``BadRequest`` or ``BeamTooWide`` beyond the
        limits."""
        self.limits.check(wanted.texts)
        decoding = wanted.decoding
        # Checked here, too, because not every text reaches a model.
        width = max(decoding.beam_size or 1, decoding.num_hypotheses or 1)
        if width > self.limits.alternatives + 1:
            raise BeamTooWide(width, self.limits.alternatives + 1)
        seconds = time_limit(request, self.limits.seconds)
        return Allowed(self.callers.origin(caller, priority), seconds)

    def note(
        self, request: Request, characters: Sequence[int], translations: Sequence[Translation]
    ) -> None:
        """Record translations, and the characters of their texts, for metrics, headers and log."""
        facts = facts_of(request)
        of_models: Counter[str] = Counter()
        for count, translation in zip(characters, translations, strict=True):
            if (model := translation.model) is not None:
                of_models[model] += count
                facts.model = model
                facts.model_version = "+".join(leg.version for leg in translation.legs)
        for model, count in of_models.items():
            self.metrics.characters(model, count)
        facts.timing = longest([translation.timing for translation in translations])
        facts.characters = sum(characters)
        facts.tokens = sum(t.source_tokens + t.target_tokens for t in translations)


def permitted(wanted: TranslateRequest, caller: Caller) -> TranslateRequest:
    """The request with what its caller may use."""
    return replace(wanted, permission=caller.permission)


def time_limit(request: Request, most: float) -> float:
    """Seconds that a request may take: ``most``, or what its header asks for if that is less.

    Raises ``BadRequest``.
    """
    given = request.headers.get(_TIMEOUT)
    if given is None:
        return most
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise BadRequest(f"Invalid request: {_TIMEOUT} header is not a number of seconds")
    return min(seconds, most)


class RunningCharge(Protocol):
    """Charge of a request in progress, for characters that are reserved."""

    def use(self, characters: int) -> None:
        """Charge for so many of the characters, also if the request fails later."""


OpenDecoder = Callable[
    [Caller, int, Origin], AbstractAsyncContextManager[tuple[Decoder, RunningCharge]]
]
"""A decoder on behalf of a caller, and the charge for the characters: of all of them, unless the
body raises.

Entering, or the first call of the decoder, raises what ``Access.admit`` and ``Access.charge``
raise."""


class ChargedDecoders:
    """Opens decoders of this process on behalf of callers; see ``OpenDecoder``."""

    def __init__(self, access: Access, decoders: EngineDecoders) -> None:
        self._access = access
        self._decoders = decoders

    @asynccontextmanager
    async def opened(
        self, caller: Caller, characters: int, origin: Origin
    ) -> AsyncIterator[tuple[Decoder, RunningCharge]]:
        # The most frequent answer of a full service comes before all work that can wait.
        self._decoders.refuse_if_slow(origin, characters)
        await self._access.admit(caller)
        async with (
            self._access.charge(caller, characters) as charge,
            self._decoders.opened(origin) as decoder,
        ):
            yield decoder, charge


class MeteredTranslator:
    """Translates requests within the limits and charges their callers."""

    def __init__(
        self,
        translator: Translator,
        finder: AlternativeFinder,
        meter: RequestMeter,
        open_decoder: OpenDecoder,
    ) -> None:
        self._translator = translator
        self._reader = translator.reader
        self._finder = finder
        self._meter = meter
        self._open = open_decoder

    @property
    def limits(self) -> RequestLimits:
        return self._meter.limits

    async def translate(
        self, request: Request, caller: Caller, reading: Reading[Any]
    ) -> list[Translation]:
        """Raises ``BadRequest`` or ``BeamTooWide`` beyond the limits, ``DeadlineExceeded``, and
        what ``OpenDecoder`` and ``Translator`` raise."""
        allowed = self._meter.allowed(request, caller, reading.wanted, reading.priority)
        origin = allowed.origin
        async with deadline(allowed.seconds):
            characters = await self._characters(reading, origin)
            async with self._open(caller, sum(characters), origin) as (decoder, _):
                prepared = await self._prepared(reading, caller, origin)
                translations = await self._translator.translate(
                    prepared, decoder, caller=origin.caller
                )
        self._meter.note(request, characters, translations)
        return translations

    async def stream(
        self, request: Request, caller: Caller, reading: Reading[Any]
    ) -> AsyncGenerator[Part | list[Translation], None]:
        """Yields the parts of each text, then the translations. Arguments and errors are those of
        ``translate``.

        A part is charged when it is yielded, so that a stream that ends early is not free.
        """
        allowed = self._meter.allowed(request, caller, reading.wanted, reading.priority)
        origin = allowed.origin
        async with deadline(allowed.seconds):
            characters = await self._characters(reading, origin)
            async with self._open(caller, sum(characters), origin) as (decoder, charge):
                prepared = await self._prepared(reading, caller, origin)
                stream = self._translator.stream(prepared, decoder, origin.caller)
                delivered, used = 0.0, 0
                # Closing the stream here ends its work before the charge completes.
                async with aclosing(stream) as parts:
                    async for each in parts:
                        if isinstance(each, list):
                            self._meter.note(request, characters, each)
                            delivered = sum(characters)
                        else:
                            delivered += characters[each.text] * each.share
                        charge.use(math.ceil(delivered) - used)
                        used = math.ceil(delivered)
                        yield each

    async def alternatives(
        self, request: Request, caller: Caller, wanted: TranslateRequest, place: WordPlace
    ) -> Alternatives:
        """Charges for the text. Raises as ``translate``, and what ``AlternativeFinder`` raises."""
        allowed = self._meter.allowed(request, caller, wanted, "interactive")
        if place.translation is not None:
            self.limits.check([place.translation])
        origin = allowed.origin
        characters = sum(await self._reader.characters(wanted.texts, wanted.markup, origin.caller))
        wanted = permitted(wanted, caller)
        async with (
            deadline(allowed.seconds),
            self._open(caller, characters, origin) as (decoder, _),
        ):
            found = await self._finder.find(wanted, place, decoder, origin.caller)
        facts = facts_of(request)
        facts.model, facts.model_version = found.model, found.version
        facts.timing, facts.characters, facts.tokens = found.timing, characters, found.tokens
        self._meter.metrics.characters(found.model, characters)
        return found

    async def split(self, request: Request, caller: Caller, wanted: TranslateRequest) -> SplitText:
        """The sentences of the only text, free of charge. Raises ``BadRequest`` beyond the limits,
        ``DeadlineExceeded``, and what ``Translator.read`` raises."""
        allowed = self._meter.allowed(request, caller, wanted, "interactive")
        async with deadline(allowed.seconds):
            read = await self._translator.read(permitted(wanted, caller), allowed.origin.caller)
            return split_text(read)

    async def _characters(self, reading: Reading[Any], origin: Origin) -> tuple[int, ...]:
        """The characters of each text to charge for."""
        if not reading.characters:
            wanted = reading.wanted
            reading.characters = await self._reader.characters(
                wanted.texts, wanted.markup, origin.caller
            )
        return reading.characters

    async def _prepared(self, reading: Reading[Any], caller: Caller, origin: Origin) -> Prepared:
        if caller.permission is not None:
            # The kept one may have a model that this caller may not use, and is for all callers.
            return await self._translator.read(permitted(reading.wanted, caller), origin.caller)
        if reading.prepared is not None:
            return reading.prepared
        prepared = await self._translator.read(reading.wanted, origin.caller)
        reading.remember(prepared)
        return prepared
