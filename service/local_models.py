"""Models of this process without a server: what commands and Ray's workers translate with.

It imports nothing of HTTP, because a phrase on the command line waits for every import.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from service.catalogue.catalogue import Preference, nearest
from service.catalogue.errors import NotReady
from service.catalogue.repository import FoundBundle, ModelRepository
from service.document_jobs.work import DocumentWork
from service.documents import DocumentReader
from service.loading.discovery import discover, for_pair, pairs_of, sources_of
from service.loading.loader import LoadModel, load_model
from service.observability.metrics import Metrics
from service.settings import Settings
from service.text.detection import LinguaDetector
from service.text.types import LanguagePair
from service.translation.admission import Admission
from service.translation.errors import UndetectedLanguage
from service.translation.local_translator import LocalTranslator
from service.translation.request_reader import detected


class LocalModels:
    """Each model is loaded when a language pair first needs it."""

    def __init__(self, settings: Settings, load: LoadModel = load_model) -> None:
        self._settings = settings
        self._names = frozenset[str]()
        """Bundles that have been needed."""
        self._metrics = Metrics()
        self._detector = LinguaDetector()
        self._repository = ModelRepository(
            lambda: [bundle for bundle in self._found() if bundle.name in self._names],
            lambda bundle: load(bundle.path, settings, self._metrics.observer),
            local_preference(settings),
        )
        self.translator = LocalTranslator(self._repository, Admission(sys.maxsize), self._detector)

    async def need(self, pair: LanguagePair, model: str | None = None) -> None:
        """Load the models of a pair, or the one of that name; raises ``NotReady``."""
        found = for_pair(self._found(), pair, local_preference(self._settings), model)
        names = {bundle.name for bundle in found}
        if not names:
            called = f" and is called {model}" if model else ""
            raise self._missing(f"{pair}{called}", f"get one: dragoman models add {pair}")
        if not names <= self._names:
            self._names |= names
            await self._repository.reload()
        # Raises the reasons if no bundle could be loaded.
        _ = self._repository.catalogue
        for name in names & self._repository.failed.keys():
            raise NotReady(f"no model is on offer: {name}: {self._repository.failed[name]}")

    def pair(self, text: str, source: str | None, target: str) -> LanguagePair:
        """The languages on offer for canonical codes, whose region no bundle may have.

        Without ``source``, it is detected among those that are translated to ``target``, or is
        ``target``. Blocks. Raises ``UndetectedLanguage``, also if the text is probably in another
        language, and ``NotReady`` if no bundle translates to the target.
        """
        target = self._offered(target, "target")
        if source:
            return LanguagePair(self._offered(source, "source"), target)
        sources = sources_of(self._found(), target)
        if not sources:
            raise self._missing(f"to {target}", f"find one: dragoman models search {target}")
        found = detected(self._detector, text, sources, target)
        if found.unserved is not None:
            raise UndetectedLanguage(1, sources, found.unserved)
        # A text without letters is in any language, and copied.
        has_letters = any(map(str.isalpha, text))
        return LanguagePair(found.language if has_letters else sources[0], target)

    def _offered(self, code: str, side: Literal["source", "target"]) -> str:
        pairs = (pair for bundle in self._found() for pair in pairs_of(bundle) or ())
        return nearest(code, {getattr(pair, side) for pair in pairs}) or code

    def documents(self, reader: DocumentReader) -> DocumentWork:
        """Translates the documents of ``reader`` with the models that are loaded."""
        return DocumentWork(reader, self.translator, self._repository, self._metrics)

    async def close(self) -> None:
        await self._repository.close()

    def _missing(self, wanted: str, advice: str) -> NotReady:
        pairs = sorted({pair for bundle in self._found() for pair in pairs_of(bundle) or ()})
        offered = ", ".join(map(str, pairs)) or "nothing"
        return NotReady(
            f"no bundle in {self._settings.bundles} translates {wanted}; on offer: {offered}; "
            f"{advice}"
        )

    def _found(self) -> list[FoundBundle]:
        return discover(self._settings.bundles)


def local_preference(settings: Settings) -> Preference:
    """Canaries come last, since their shares are of the requests to a server."""
    return Preference(settings.preferred, dict.fromkeys(settings.canaries, 0.0))


@asynccontextmanager
async def local_translator(
    settings: Settings, pair: LanguagePair
) -> AsyncIterator[LocalTranslator]:
    """A translator for one language pair, without HTTP; raises ``NotReady``."""
    models = LocalModels(settings)
    try:
        await models.need(pair)
        yield models.translator
    finally:
        await models.close()
