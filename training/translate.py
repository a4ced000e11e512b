"""The hop ``translate``: the sides of a recipe's corpora that a bundle makes.

Of a corpus with ``translated``, one side is found; this hop translates it with the corpus's
translator and leaves the other in the run: back-translation if that is the source (Sennrich et
al., 2016), sequence-level distillation if it is the target (Kim and Rush, 2016).
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from models.bundle.bundle import Bundle
from training.bundle_translator import translate_file
from training.checkpoint import checkpoints
from training.data.corpus import find_side, translated_side
from training.disk import writing
from training.recipe import Corpus, Data, Recipe
from training.refusal import Refusal
from training.run_directory import RunDirectory

logger = logging.getLogger(__name__)


class NoTranslator(Refusal):
    """A bundle that a recipe wants is not there, or translates other languages."""


def translate_corpora(
    recipe: Recipe, run: RunDirectory, data_directory: Path, bundles: Path, threads: int = 0
) -> dict[str, Path]:
    """Write what is missing, going on where it was stopped; returns a file for each corpus.

    Raises ``NoTranslator``, ``CorpusError`` if the side to translate is missing, and
    ``TranslationFailed``.
    """
    wanted = [corpus for corpus in recipe.data.train if corpus.translated is not None]
    # Nobody should wait hours to hear that the second bundle is missing.
    translators = {corpus.label: translator_of(corpus, recipe.data, bundles) for corpus in wanted}
    made = {}
    for corpus in wanted:
        found, missing = found_and_missing(corpus, recipe.data)
        output = translated_side(corpus, missing, run.translated)
        input = find_side(corpus.name, found, data_directory, corpus.origin)
        bundle = translators[corpus.label]
        with writing(output.parent):
            output.parent.mkdir(parents=True, exist_ok=True)
            work = _Work(
                output, {"version": bundle.manifest.version, "bytes": input.stat().st_size}
            )
            if work.is_other and output.exists() and checkpoints(run.path):
                logger.info(
                    "%s: another version of %s made it; it stays, as %s was trained on it",
                    *(corpus.label, bundle.path, run.path),
                )
            elif work.is_other:
                work.begin()
            if not output.exists():
                logger.info("%s: %s", corpus.label, bundle.path)
                # A line that cannot be translated becomes an empty one, which is dropped.
                translate_file(
                    bundle.path, found, missing, input, output, threads=threads, skip=True
                )
        made[corpus.label] = output
    return made


def found_and_missing(corpus: Corpus, data: Data) -> tuple[str, str]:
    """The languages of the side that is found and of the one that is made."""
    if corpus.translated == "source":
        return data.target, data.source
    return data.source, data.target


def find_translator(name: str, bundles: Path) -> Path:
    """A bundle by its name among ``bundles``, or by its path; raises ``NoTranslator``."""
    for path in (bundles / name, Path(name)):
        if path.is_dir():
            return path
    raise NoTranslator(
        f"there is no bundle {name!r} in {bundles}; train and export it, or name another "
        "directory with --bundles"
    )


def translator_of(corpus: Corpus, data: Data, bundles: Path) -> Bundle:
    if corpus.translator is None:
        raise ValueError(f"corpus {corpus.name!r} is found, not translated")
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
    """A translation, and a note beside it of what it is made from."""

    output: Path
    made_from: dict[str, str | int]

    @property
    def _note(self) -> Path:
        return self.output.with_name(f"{self.output.name}.json")

    @property
    def is_other(self) -> bool:
        """Whether it is of another version of the bundle, of another text, or of none."""
        return (
            not self._note.exists()
            or json.loads(self._note.read_text(encoding="utf-8")) != self.made_from
        )

    def begin(self) -> None:
        for stale in self.output.parent.glob(f"{self.output.name}*"):
            stale.unlink()
        # Half a note would look like damage for ever.
        partial = self._note.with_suffix(".partial")
        partial.write_text(json.dumps(self.made_from), encoding="utf-8")
        partial.replace(self._note)
