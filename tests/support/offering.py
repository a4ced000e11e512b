"""Repository and translator of loaded models, without a directory of bundles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle, ModelRepository
from service.text.types import Detection
from service.translation.admission import Admission
from service.translation.local_translator import LocalTranslator


class FirstLetterDetector:
    """Detects the language whose code the text begins with."""

    def detect(self, text: str, languages: Sequence[str]) -> tuple[Detection, ...]:
        return tuple(Detection(code, 0.9) for code in languages if text.startswith(code))


@asynccontextmanager
async def offering(*models: LoadedModel) -> AsyncIterator[ModelRepository]:
    """A repository of these models, which it closes at the end."""
    by_name = {model.name: model for model in models}

    async def load(bundle: FoundBundle) -> LoadedModel:
        return by_name[bundle.name]

    repository = ModelRepository(lambda: [FoundBundle(name, Path(name)) for name in by_name], load)
    await repository.reload()
    try:
        yield repository
    finally:
        await repository.close()


def translator_of(repository: ModelRepository, max_tokens: int = 10_000) -> LocalTranslator:
    return LocalTranslator(repository, Admission(max_tokens), FirstLetterDetector())
