"""``dragoman`` command line with a trivial model: a hundred thousand lines in seconds.

Run as ``python -m tests.bulk.quick translate …``. The translation of a text is its checksum in two
words, so it takes three steps.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from models.bundle.manifest import Manifest
from models.bundle.tokenizer import Span
from service import cli
from service.catalogue.loaded_model import LoadedModel
from service.commands import lines
from service.loading.loader import ModelObserver
from service.local_models import LocalModels
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch
from service.settings import Settings
from tests.support.toy import Both, ScriptedBackend, make_model, shouting

_FIRST = 4
_WORDS = 1 << 14


def translated(text: str) -> str:
    """The translation of a text: its checksum."""
    return "{} {}".format(*_words(text))


def _words(text: str) -> tuple[int, int]:
    high, low = divmod(zlib.crc32(text.encode()), _WORDS)
    return high % _WORDS, low


class ChecksumTokenizer:
    def encode(self, text: str) -> tuple[int, ...]:
        if not text:
            return ()
        high, low = _words(text)
        return _FIRST + high, _FIRST + low

    def decode(self, ids: tuple[int, ...]) -> str:
        return " ".join(str(i - _FIRST) for i in ids)

    def spans(self, text: str) -> tuple[Span, ...]:
        return ((0, len(text)),)

    def decoded_spans(self, ids: tuple[int, ...]) -> tuple[Span, ...]:
        raise NotImplementedError("checksums have no attention")

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(map(str, ids))


class QuickBackend(ScriptedBackend):
    """Backend that copies the source tokens."""

    def encode(self, batch: EncodeBatch) -> None:
        del self.sources[batch.first_slot :]
        self.sources += batch.sources

    def step(self, batch: StepBatch) -> Candidates:
        sentences, rows = batch.parents_BK.shape
        del self.sources[sentences:]
        sources = np.array(self.sources, np.int64)
        likely_B = sources[np.arange(sentences), batch.positions_B]
        count = batch.num_candidates
        ids_BKN = np.broadcast_to(
            np.arange(_FIRST, _FIRST + count), (sentences, rows, count)
        ).copy()
        ids_BKN[:, :, 0] = likely_B[:, None]
        log_probs_BKN = np.full((sentences, rows, count), -20.0, np.float32)
        log_probs_BKN[:, :, 0] = -0.1
        return Candidates(ids_BKN, log_probs_BKN, np.zeros((sentences, rows), np.float32))

    def move(self, origin: int, slot: int) -> None:
        self.sources[slot] = self.sources[origin]


async def load_quick(
    path: Path, settings: Settings, observer_for: Callable[[str], ModelObserver]
) -> LoadedModel:
    """Replacement of ``service.loading.loader.load_model``."""
    manifest = Manifest.from_json((path / "manifest.json").read_text(encoding="utf-8"))
    backend = QuickBackend(shouting, Limits(256, settings.max_beam_size, 64, 96))
    model = await make_model(manifest, backend, None, settings.result_megabytes << 20)
    return replace(model, tokenizers=Both(ChecksumTokenizer()))


def main() -> int:
    vars(lines)["LocalModels"] = partial(LocalModels, load=load_quick)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
