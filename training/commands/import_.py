"""``import`` command: converts a local Hugging Face checkpoint to a bundle."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from training.commands import Commands
from training.commands.export import described
from training.commands.options import add_precisions, add_threads

_OF_LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)=(.+)")


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "import",
        help="make a bundle of a MarianMT (OPUS-MT), M2M100 or NLLB checkpoint",
        description="Make a bundle of a Hugging Face checkpoint on disk: MarianMT (OPUS-MT), "
        "M2M100 or NLLB. Nothing is downloaded and nothing but tensors is unpickled.",
    )
    parser.add_argument("directory", metavar="DIRECTORY", type=Path, help="of the checkpoint")
    parser.add_argument("--name", help="of the bundle (default: the directory's)")
    parser.add_argument(
        "--from",
        dest="sources",
        metavar="CODE",
        nargs="+",
        default=[],
        help="source languages to offer (default: all that the checkpoint names)",
    )
    parser.add_argument(
        "--to",
        dest="targets",
        metavar="CODE",
        nargs="+",
        default=[],
        help="target languages to offer (default: all that the checkpoint names)",
    )
    parser.add_argument(
        "--languages",
        metavar="CODE",
        nargs="+",
        default=[],
        help="offer every pair of these, both ways",
    )
    add_precisions(parser, [], "int8 with --calibrate, fp32 without")
    parser.add_argument(
        "--calibrate",
        metavar="[CODE=]FILE",
        nargs="+",
        default=[],
        help="some hundred source sentences, one per line: int8 is calibrated on them and on what "
        "the network makes of them; with several source languages, say of which each file is",
    )
    parser.add_argument(
        "-o",
        "--bundles",
        type=Path,
        default=Path("bundles"),
        help="where to publish (default: bundles)",
    )
    add_threads(parser)
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    from training.importing.importing import import_checkpoint
    from training.importing.refusals import UnknownLanguages

    if options.languages and (options.sources or options.targets):
        raise UnknownLanguages("--languages says both sides; --from and --to cannot, besides")
    bundle, proof = import_checkpoint(
        options.directory,
        options.bundles,
        name=options.name,
        sources=options.languages or options.sources,
        targets=options.languages or options.targets,
        precisions=tuple(options.precisions),
        texts=tuple(map(_text, options.calibrate)),
    )
    print(proof)
    print(described(bundle))


def _text(argument: str) -> tuple[str | None, Path]:
    found = _OF_LANGUAGE.fullmatch(argument)
    return (found[1], Path(found[2])) if found else (None, Path(argument))
