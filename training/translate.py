"""The hop ``translate``: the sides of a recipe's corpora that a bundle makes.

Of a corpus with ``translated``, one side is found; this hop translates it with the corpus's
translator and leaves the other in the run: back-translation if that is the source (Sennrich et
al., 2016), sequence-level distillation if it is the target (Kim and Rush, 2016).
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from models.bundle.bundle import Bundle
from training.data.corpus import find_side, translated_side
from training.disk import writing
from training.recipe import Corpus, Data, Recipe
from training.refusal import Refusal
from training.run_directory import RunDirectory
from training.translation import translate_file

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
            _forget_other_work(output, bundle, input)
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


def _forget_other_work(output: Path, bundle: Bundle, input: Path) -> None:
    """Remove what another version of the bundle, or another text, has left."""
    work = {"version": bundle.manifest.version, "bytes": input.stat().st_size}
    note = output.with_name(f"{output.name}.json")
    if note.exists() and json.loads(note.read_text(encoding="utf-8")) == work:
        return
    for stale in output.parent.glob(f"{output.name}*"):
        stale.unlink()
    note.write_text(json.dumps(work), encoding="utf-8")
