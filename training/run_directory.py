"""Paths of a run's files."""

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
        """The tokenizer of both sides, if they share one."""
        return self.path / TOKENIZER

    @property
    def source_tokenizer(self) -> Path:
        return self.path / SOURCE_TOKENIZER

    @property
    def target_tokenizer(self) -> Path:
        return self.path / TARGET_TOKENIZER

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

    @property
    def report(self) -> Path:
        return self.path / "prepare.json"

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.json"

    @property
    def derived(self) -> Path:
        """The recipe of a distilled or fine-tuned run, which is in no module."""
        return self.path / "derived.json"

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
        """The test set's translations, written by ``evaluate``."""
        return self.path / "translations.txt"

    def translations_of(self, data: Data) -> dict[tuple[str, str], Path]:
        """The test set's translations by direction; ``translations`` if there is only one."""
        if not data.bidirectional:
            return {(data.source, data.target): self.translations}
        return {
            (source, target): self.path / f"translations.{source}-{target}.txt"
            for source, target in data.directions
        }

    @property
    def decoding(self) -> Path:
        """The best decoding settings, found by ``tune``."""
        return self.path / "decoding.json"

    @property
    def shortlist(self) -> Path:
        return self.path / SHORTLIST

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def translated(self) -> Path:
        """Machine-translated corpora, written by the hop ``translate``."""
        return self.path / "translated"

    def shards(self, split: str) -> Path:
        """``train`` and ``valid``: token shards of the pairs of all directions."""
        return self.data / split

    def shards_of(self, split: str, data: Data) -> dict[tuple[str, str], Path]:
        """``valid`` by direction; ``valid`` itself if there is only one direction."""
        if not data.bidirectional:
            return {(data.source, data.target): self.shards(split)}
        return {
            (source, target): self.shards(f"{split}.{source}-{target}")
            for source, target in data.directions
        }
