"""Translation with limits, charges, deadlines and metrics, shared by all dialects."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from fastapi import Request

from service.api.access import Access, Caller
from service.api.bounds import RequestLimits
from service.api.errors import BadRequest
from service.api.middleware import facts_of
from service.engine.errors import BeamTooWide
from service.observability.metrics import Metrics
from service.translation.alternatives import AlternativeFinder, Alternatives, WordPlace
from service.translation.translator import Translator
from service.translation.types import Part, TranslateRequest, Translation, longest

_TIMEOUT = "x-request-timeout"


class MeteredTranslator:
    """Translates parsed requests within the limits and charges their callers."""

    def __init__(
        self,
        translator: Translator,
        finder: AlternativeFinder,
        access: Access,
        metrics: Metrics,
        limits: RequestLimits,
    ) -> None:
        self._translator = translator
        self._finder = finder
        self._access = access
        self._metrics = metrics
        self.limits = limits

    async def translate(
        self, request: Request, caller: Caller, wanted: TranslateRequest
    ) -> list[Translation]:
        """Raises ``BadRequest`` or ``BeamTooWide`` beyond the limits, and what ``Access`` and
        ``Translator`` raise."""
        characters = self._checked(wanted)
        wanted = self._completed(request, caller, wanted)
        async with self._access.charge(caller, characters):
            translations = await self._translator.translate(wanted)
        self._note(request, wanted.texts, translations)
        return translations

    async def stream(
        self, request: Request, caller: Caller, wanted: TranslateRequest
    ) -> AsyncGenerator[Part | list[Translation], None]:
        """Like ``translate``, but yields the parts of each text before the translations."""
        characters = self._checked(wanted)
        wanted = self._completed(request, caller, wanted)
        # Closing the stream here ends its work before the charge completes.
        async with (
            self._access.charge(caller, characters),
            aclosing(self._translator.stream(wanted)) as parts,
        ):
            async for each in parts:
                if isinstance(each, list):
                    self._note(request, wanted.texts, each)
                yield each

    async def alternatives(
        self, request: Request, caller: Caller, wanted: TranslateRequest, place: WordPlace
    ) -> Alternatives:
        """Charges for the text. Raises as ``translate``, and what ``AlternativeFinder`` raises."""
        characters = self._checked(wanted)
        if place.translation is not None:
            self.limits.check([place.translation])
        wanted = self._completed(request, caller, wanted)
        async with self._access.charge(caller, characters):
            found = await self._finder.find(wanted, place)
        facts = facts_of(request)
        facts.model, facts.model_version = found.model, found.version
        facts.timing, facts.characters, facts.tokens = found.timing, characters, found.tokens
        self._metrics.characters(found.model, characters)
        return found

    def _completed(
        self, request: Request, caller: Caller, wanted: TranslateRequest
    ) -> TranslateRequest:
        """The request with its deadline and its caller."""
        return replace(
            wanted,
            deadline=self._seconds(request),
            cache_scope=self._access.cache_scope(caller),
            caller=caller.counted_as,
        )

    def _checked(self, wanted: TranslateRequest) -> int:
        characters = self.limits.check(wanted.texts)
        decoding = wanted.decoding
        # Checked here, too, because not every text reaches a model.
        width = max(decoding.beam_size or 1, decoding.num_hypotheses or 1)
        if width > self.limits.alternatives + 1:
            raise BeamTooWide(width, self.limits.alternatives + 1)
        return characters

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

    def _note(
        self, request: Request, texts: Sequence[str], translations: Sequence[Translation]
    ) -> None:
        facts = facts_of(request)
        for text, translation in zip(texts, translations, strict=True):
            if translation.model is not None:
                facts.model = translation.model
                facts.model_version = "+".join(leg.version for leg in translation.legs)
                self._metrics.characters(translation.model, len(text))
        facts.timing = longest([translation.timing for translation in translations])
        facts.characters = sum(map(len, texts))
        facts.tokens = sum(t.source_tokens + t.target_tokens for t in translations)
