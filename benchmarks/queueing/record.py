"""JSON file of measured or assumed costs, written by ``validate`` and read by ``plan``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, ValidationError

from benchmarks.base import CACHE
from benchmarks.queueing.batch import Shape
from benchmarks.queueing.costs import Costs
from benchmarks.queueing.fleet import Site

RECORD = CACHE / "queueing.json"


class RecordError(Exception):
    """A file of costs is missing or invalid; says why, and what to do."""


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CostsRecord(_Wire):
    """Seconds, as in ``benchmarks.queueing.costs.Costs``."""

    step: NonNegativeFloat
    row: NonNegativeFloat
    encode: NonNegativeFloat
    source_token: NonNegativeFloat
    receive: NonNegativeFloat
    answer: NonNegativeFloat
    transit: NonNegativeFloat = 0.0


class ShapeRecord(_Wire):
    slots: PositiveInt
    beam_size: PositiveInt
    max_padded_tokens: PositiveInt
    max_batch_tokens: PositiveInt


class SiteRecord(_Wire):
    """One service, and the sentences that it is sent."""

    about: str
    """Which machine, bundle and sentences; whether measured or assumed."""
    costs: CostsRecord
    shape: ShapeRecord
    one_core: bool
    """Whether engine and event loop share a core; false for a GPU."""
    lengths: tuple[tuple[PositiveInt, PositiveInt], ...] = Field(min_length=1)
    """Source tokens, ``eos`` included, and decode steps of sentences."""

    @classmethod
    def of(cls, site: Site, about: str) -> SiteRecord:
        return cls(
            about=about,
            costs=CostsRecord(**asdict(site.costs)),
            shape=ShapeRecord(**asdict(site.shape)),
            one_core=site.one_core,
            lengths=tuple(site.lengths),
        )

    def site(self) -> Site:
        return Site(
            Shape(**self.shape.model_dump()),
            Costs(**self.costs.model_dump()),
            self.lengths,
            self.one_core,
        )


def write(path: Path, record: SiteRecord) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record.model_dump()) + "\n", encoding="utf-8")


def read(path: Path) -> SiteRecord:
    """Raises ``RecordError``."""
    try:
        return SiteRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecordError(
            f"there are no costs at {path}; python -m benchmarks.queueing validate measures them"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"{path} is no record of costs: {place}: {first['msg']}") from error
