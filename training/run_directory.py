"""Where a run keeps what it makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from models.bundle.bundle import SHORTLIST, SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER
from models.bundle.tokenizer import Tokenizer, Tokenizers
from training.recipe import Data


@dataclass(frozen=True, slots=True)
class RunDirectory:
    path: Path

    @property
    def tokenizer(self) -> Path:
        """Of both sides, if they share one."""
        return self.path / TOKENIZER

    @property
    def source_tokenizer(self) -> Path:
        return self.path / SOURCE_TOKENIZER

    @property
    def target_tokenizer(self) -> Path:
        return self.path / TARGET_TOKENIZER

    def tokenizers(self) -> Tokenizers:
        """Of a prepared run; the same object twice if the sides share one.

        Raises ``InvalidBundle`` if a file is missing or is not a tokenizer.
        """
        if self.source_tokenizer.exists():
            return Tokenizers(
                Tokenizer.load(self.source_tokenizer), Tokenizer.load(self.target_tokenizer)
            )
        shared = Tokenizer.load(self.tokenizer)
        return Tokenizers(shared, shared)

    @property
    def report(self) -> Path:
        return self.path / "prepare.json"

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.json"

    @property
    def derived(self) -> Path:
        """The recipe of a student, which is in no module."""
        return self.path / "distilled.json"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def averaged(self) -> Path:
        return self.path / "averaged.pt"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @property
    def translations(self) -> Path:
        """Of the test set, by ``evaluate``."""
        return self.path / "translations.txt"

    def translations_of(self, data: Data) -> dict[tuple[str, str], Path]:
        """Of the test set by direction; where there is one only, ``translations`` itself."""
        if not data.bidirectional:
            return {(data.source, data.target): self.translations}
        return {
            (source, target): self.path / f"translations.{source}-{target}.txt"
            for source, target in data.directions
        }

    @property
    def decoding(self) -> Path:
        """What ``tune`` has found best."""
        return self.path / "decoding.json"

    @property
    def shortlist(self) -> Path:
        return self.path / SHORTLIST

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def translated(self) -> Path:
        """What bundles have made of corpora, by the hop ``translate``."""
        return self.path / "translated"

    def shards(self, split: str) -> Path:
        """``train`` and ``valid``: the pairs of all directions."""
        return self.data / split

    def shards_of(self, split: str, data: Data) -> dict[tuple[str, str], Path]:
        """``valid`` by direction; where there is one direction only, that is ``valid`` itself."""
        if not data.bidirectional:
            return {(data.source, data.target): self.shards(split)}
        return {
            (source, target): self.shards(f"{split}.{source}-{target}")
            for source, target in data.directions
        }
