"""Paths of a run's files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.bundle.bundle import SHORTLIST, SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER
from models.bundle.tokenizer import Tokenizer, Tokenizers
from training.recipe import Corpus, Data


class _Inside:
    """Path of a file or directory of this name in the run."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: RunDirectory, _: type[RunDirectory]) -> Path:
        return run.path / self._name


def held_out_split(corpus: Corpus) -> str:
    """Name of the shards of the pairs that a training corpus holds out."""
    return f"held-out/{corpus.label}"


def validated_splits(data: Data) -> dict[str | None, tuple[str, Corpus]]:
    """Every set to validate with: name of its shards, and corpus. ``None`` is ``data.valid``."""
    found: dict[str | None, tuple[str, Corpus]] = {None: ("valid", data.valid)}
    for each in data.more_valid:
        found[each.label] = f"more-valid/{each.label}", each
    for each in data.train:
        if each.hold_out is not None:
            found[each.label] = held_out_split(each), each
    return found


@dataclass(frozen=True, slots=True)
class RunDirectory:
    path: Path

    tokenizer = _Inside(TOKENIZER)
    """The tokenizer of both sides, if they share one."""
    source_tokenizer = _Inside(SOURCE_TOKENIZER)
    target_tokenizer = _Inside(TARGET_TOKENIZER)
    report = _Inside("prepare.json")
    recipe = _Inside("recipe.json")
    derived = _Inside("derived.json")
    """The recipe of a distilled or fine-tuned run, which is in no module."""
    lock = _Inside("lock")
    """Locked while a process prepares or trains the run; see ``training.run_lock``."""
    log = _Inside("log.jsonl")
    tracked = _Inside("tracked.json")
    """Ids of the run in trackers; see ``training.loop.tracking``."""
    averaged = _Inside("averaged.pt")
    scores = _Inside("scores.json")
    translations = _Inside("translations.txt")
    """The test set's translations, written by ``evaluate``."""
    decoding = _Inside("decoding.json")
    """The best decoding settings, found by ``tune``."""
    shortlist = _Inside(SHORTLIST)
    data = _Inside("data")
    held_out = _Inside("held-out")
    """Data directory of the pairs that ``Corpus.hold_out`` keeps from training, as text."""
    translated = _Inside("translated")
    """Machine-translated corpora, written by the hop ``translate``."""

    def tokenizers(self) -> Tokenizers:
        """Load the tokenizers of a prepared run; the same object twice if the sides share one.

        Raises ``InvalidBundle`` if a file is missing or is not a tokenizer.
        """
        if self.source_tokenizer.exists():
            return Tokenizers(
                Tokenizer.load(self.source_tokenizer), Tokenizer.load(self.target_tokenizer)
            )
        shared = Tokenizer.load(self.tokenizer)
        return Tokenizers(shared, shared)

    def translations_of(self, data: Data) -> dict[tuple[str, str], Path]:
        """The test set's translations by direction; ``translations`` if there is only one."""
        if len(data.directions) == 1:
            return {data.directions[0]: self.translations}
        return {
            (source, target): self.path / f"translations.{source}-{target}.txt"
            for source, target in data.directions
        }

    def shards(self, split: str) -> Path:
        """``train``, ``valid``, ``more-valid/<corpus>`` and ``held-out/<corpus>``: shards of the
        pairs of all directions."""
        return self.data / split

    def shards_of(self, split: str, corpus: Corpus, data: Data) -> dict[tuple[str, str], Path]:
        """A split of pairs of ``corpus`` by direction; the split itself if the network has only
        one."""
        if len(data.directions) == 1:
            return {data.directions[0]: self.shards(split)}
        return {
            (source, target): self.shards(f"{split}.{source}-{target}")
            for source, target in data.directions_of(corpus)
        }
