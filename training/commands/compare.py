"""``compare`` command: scores and compares files of translations by any system."""

from __future__ import annotations

import argparse
from pathlib import Path

from training.commands import Commands


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="score and compare files of translations, and write a page about it",
        description="Score, compare and diagnose translations by any system, one line for each "
        "sentence, plain or gzipped. The first file is what the others are compared with.",
    )
    parser.add_argument("hypotheses", type=Path, nargs="+", metavar="HYPOTHESES")
    parser.add_argument("--reference", type=Path, required=True, metavar="FILE")
    parser.add_argument("--source", type=Path, metavar="FILE", help="what was translated")
    parser.add_argument("--from", dest="source_language", default="", metavar="CODE")
    parser.add_argument(
        "--to",
        dest="target_language",
        default="",
        metavar="CODE",
        help="the target language, where words are not between blanks",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("comparison.html"),
        help="(default: comparison.html)",
    )
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    from training.data.corpus import read_lines
    from training.evaluation.bitext import check_aligned, read_bitext
    from training.evaluation.document import Facts, make_section
    from training.evaluation.report import publish

    languages = options.source_language, options.target_language
    bitext = read_bitext(options.reference, options.source, languages)
    paths: list[Path] = options.hypotheses
    names = _names(paths)
    named = []
    for name, path in zip(names, paths, strict=True):
        lines = list(read_lines(path))
        check_aligned(path, lines, options.reference, bitext.references)
        named.append((name, lines))
    systems = [Facts(name, (("file", str(path)),)) for name, path in zip(names, paths, strict=True)]
    publish("systems", systems, [make_section(bitext, named)], options.output)


def _names(paths: list[Path]) -> list[str]:
    """Names of the files: file names if distinct, otherwise paths, numbered if equal."""
    for names in ([path.name for path in paths], [str(path) for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [f"{number}. {path}" for number, path in enumerate(paths, start=1)]
