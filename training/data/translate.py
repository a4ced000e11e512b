"""The hop ``translate``: machine-translates a side of the recipe's corpora with a bundle.

A corpus with ``translated`` has one side on disk. This hop writes the other into the run with the
corpus's translator. A translated source is back-translation (Sennrich et al., 2016), a translated
target is sequence-level distillation (Kim and Rush, 2016).
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from models.bundle.bundle import Bundle, sha256_of
from training.checkpoint import checkpoints
from training.data.bundle_translator import translate_file
from training.data.corpus import find_side, translated_side
from training.disk import writing
from training.recipe import Corpus, Data, Recipe
from training.refusal import Refusal
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)


class NoTranslator(Refusal):
    """The recipe's translator bundle is missing, or translates other languages."""


def translate_corpora(
    recipe: Recipe, run: RunDirectory, data_directory: Path, bundles: Path, threads: int = 0
) -> dict[str, Path]:
    """Translate the missing sides, resuming interrupted work; returns the file of each corpus.

    Raises ``NoTranslator``, ``CorpusError`` if the side to translate is missing, and
    ``TranslationFailed``.
    """
    wanted = [corpus for corpus in recipe.data.train if corpus.translated is not None]
    # All bundles are checked before hours of translation start.
    translators = {corpus.label: translator_of(corpus, recipe.data, bundles) for corpus in wanted}
    made = {}
    for corpus in wanted:
        found, missing = found_and_missing(corpus, recipe.data)
        output = translated_side(corpus, missing, run.translated)
        input = find_side(corpus.name, found, data_directory, corpus.origin)
        bundle = translators[corpus.label]
        with writing(output.parent):
            output.parent.mkdir(parents=True, exist_ok=True)
            work = _Work(output, {"version": bundle.manifest.version, "sha256": sha256_of(input)})
            if work.is_other and output.exists() and checkpoints(run.path):
                logger.info(
                    "%s: another version of %s made it; it stays, as %s was trained on it",
                    *(corpus.label, bundle.path, run.path),
                )
            elif work.is_other:
                work.begin()
            if not output.exists():
                logger.info("%s: %s", corpus.label, bundle.path)
                # A line that cannot be translated becomes an empty one, which ``prepare`` drops.
                translate_file(
                    bundle.path, found, missing, input, output, threads=threads, skip=True
                )
        made[corpus.label] = output
    return made


def found_and_missing(corpus: Corpus, data: Data) -> tuple[str, str]:
    """The language of the side on disk, and that of the machine-translated side."""
    source, target = data.languages(corpus)
    return (target, source) if corpus.translated == "source" else (source, target)


def find_translator(name: str, bundles: Path) -> Path:
    """A bundle by its name among ``bundles``, or by its path; raises ``NoTranslator``."""
    for path in (bundles / name, Path(name)):
        if path.is_dir():
            return path
    raise NoTranslator(
        f"there is no bundle {name!r}, neither in {bundles} nor as a path; train and export it, "
        "or name another directory with --bundles"
    )


def translator_of(corpus: Corpus, data: Data, bundles: Path) -> Bundle:
    assert corpus.translator is not None, "only translated corpora have a translator"
    bundle = Bundle.open(find_translator(corpus.translator, bundles))
    languages = found_and_missing(corpus, data)
    offered = [(each.source, each.target) for each in bundle.manifest.directions]
    if languages not in offered:
        raise NoTranslator(
            f"{bundle.path} translates {', '.join('-'.join(pair) for pair in offered)}; corpus "
            f"{corpus.name!r} is to be translated {'-'.join(languages)}"
        )
    return bundle


@dataclass(frozen=True, slots=True)
class _Work:
    """A translation file, with a note beside it that records its inputs."""

    output: Path
    made_from: dict[str, str]

    @property
    def _note(self) -> Path:
        return self.output.with_name(f"{self.output.name}.json")

    @property
    def is_other(self) -> bool:
        """Whether the file is of another bundle version or text, or has no note."""
        return (
            not self._note.exists()
            or json.loads(self._note.read_text(encoding="utf-8")) != self.made_from
        )

    def begin(self) -> None:
        for stale in self.output.parent.glob(f"{self.output.name}*"):
            stale.unlink()
        # Written atomically, because a partial note could never be read.
        partial = self._note.with_suffix(".partial")
        partial.write_text(json.dumps(self.made_from), encoding="utf-8")
        partial.replace(self._note)
