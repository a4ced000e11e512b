"""``dragoman models``: adds models that other programs trained, converted to bundles."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path

from service.commands.command import DONE, CommandFailed, add_bundles
from service.settings import Settings

_OF_LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)=(.+)")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    models = commands.add_parser("models", help="add models that other programs trained")
    actions = models.add_subparsers(required=True, metavar="action")
    add = actions.add_parser(
        "add",
        help="make a bundle of a model",
        description="Make a bundle of a model on disk: a Hugging Face checkpoint of MarianMT "
        "(OPUS-MT), M2M100 or NLLB, a CTranslate2 model, or a package of Argos Translate.",
    )
    add.add_argument("model", metavar="PATH", type=Path, help="directory or package of the model")
    add.add_argument("--name", help="of the bundle (default: the directory's)")
    for option, dest, side in (("--from", "sources", "source"), ("--to", "targets", "target")):
        add.add_argument(
            option,
            dest=dest,
            metavar="CODE",
            nargs="+",
            default=[],
            help=f"{side} languages to offer (default: all that the model names)",
        )
    add.add_argument(
        "--languages",
        metavar="CODE",
        nargs="+",
        default=[],
        help="offer every pair of these, both ways",
    )
    add.add_argument(
        "--precisions",
        nargs="+",
        choices=("fp32", "int8", "fp16"),
        default=[],
        help="what the bundle offers (default: int8 with --calibrate, fp32 without)",
    )
    add.add_argument(
        "--calibrate",
        metavar="[CODE=]FILE",
        nargs="+",
        default=[],
        help="some hundred source sentences, one per line: int8 is calibrated on them and on what "
        "the network makes of them; with several source languages, say of which each file is",
    )
    add_bundles(add)
    add.set_defaults(run=_add)


def _add(options: argparse.Namespace) -> int:
    # onnx and safetensors are imported only by this command.
    from models.export.publication import described
    from models.importing.importing import import_model

    if options.languages and (options.sources or options.targets):
        raise CommandFailed("--languages says both sides; --from and --to cannot, besides")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    bundle, proof = import_model(
        options.model,
        Settings.from_environment(bundles=options.bundles).bundles,
        name=options.name,
        sources=options.languages or options.sources,
        targets=options.languages or options.targets,
        precisions=tuple(options.precisions),
        texts=tuple(map(_text, options.calibrate)),
    )
    print(proof)
    print(described(bundle))
    return DONE


def _text(argument: str) -> tuple[str | None, Path]:
    found = _OF_LANGUAGE.fullmatch(argument)
    return (found[1], Path(found[2])) if found else (None, Path(argument))
