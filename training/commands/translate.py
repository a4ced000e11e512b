"""``translate`` command: machine-translates the corpora for distillation or back-translation."""

from __future__ import annotations

import argparse

from training.commands.options import recipe_of, run_of

HELP = "translate corpora that the recipe wants in a bundle's words"


def perform(options: argparse.Namespace) -> None:
    from training.data.translate import translate_corpora

    recipe = recipe_of(options)
    run = run_of(options, recipe)
    made = translate_corpora(recipe, run, options.data, options.bundles, options.threads)
    for label, path in made.items():
        print(f"translated {label}: {path}")
