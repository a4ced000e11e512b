"""Opens bundles without their networks, for processes that only read and write texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from models.bundle.bundle import Bundle
from models.bundle.manifest import InvalidBundle, Manifest
from service.catalogue.loaded_model import LoadedModel, Tokenizers


@dataclass(slots=True)
class DecodedElsewhere:
    """Stands for the engine of a model, which another process has."""

    alive: bool = True
    """``False`` once that process has refused a call for this model."""


def open_tokenizers(path: Path, name: str, version: str) -> LoadedModel:
    """The model of a bundle; raises ``InvalidBundle`` if that is not this model. Blocks."""
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    if (manifest.name, manifest.version) != (name, version):
        raise InvalidBundle(f"{path} was replaced; {name} {version} is on offer")
    return without_network(manifest, cast(Tokenizers, bundle.tokenizers()))


def without_network(manifest: Manifest, tokenizers: Tokenizers) -> LoadedModel:
    """A model that only reads and writes texts."""
    absent = cast(Any, DecodedElsewhere())
    return LoadedModel(manifest, manifest.precisions[0], tokenizers, absent, absent, absent)
