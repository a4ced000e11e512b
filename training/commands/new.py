"""``new`` command: prints a recipe for one's own data, ten lines of TOML."""

from __future__ import annotations

import argparse
import json

from training.commands import Commands

_RECIPE = """\
name = "{name}"
description = ""  # what the model is for and trained on, a paragraph of its card
effort = ""  # how long training takes, and on what

[data]
source = {source}
target = {target}
train = [{{ name = "{name}/train", licence = "unstated" }}]
valid = {{ name = "{name}/valid" }}
test = {{ name = "{name}/test" }}
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "new",
        help="print a recipe for text of your own",
        description="Print a recipe of ten lines as TOML, for text of your own. It trains on "
        "NAME/train in the data directory, validates on NAME/valid and is scored on NAME/test; "
        "everything else has the defaults that `show FILE` prints.",
    )
    parser.add_argument("name", metavar="NAME", help="of the recipe, its data and its bundle")
    parser.add_argument("--from", dest="source", metavar="CODE", required=True, help="de")
    parser.add_argument("--to", dest="target", metavar="CODE", required=True, help="en")
    parser.set_defaults(perform=perform)


def perform(options: argparse.Namespace) -> None:
    import tomllib

    from training.recipe import Recipe, require_name

    require_name("NAME", options.name)
    # Strings of JSON are strings of TOML.
    source, target = (
        json.dumps(code, ensure_ascii=False) for code in (options.source, options.target)
    )
    text = _RECIPE.format(name=options.name, source=source, target=target)
    # Refuses an invalid language before it is written to a file.
    Recipe.from_dict(tomllib.loads(text))
    print(text, end="")
