"""``prepare`` command: turns text into token shards."""

from __future__ import annotations

import argparse

from training.commands.options import recipe_of, run_of

HELP = "read and clean the corpora, learn the vocabulary, write token ids"


def perform(options: argparse.Namespace) -> None:
    from training.data.prepare import prepare

    recipe = recipe_of(options)
    run = run_of(options, recipe)
    report = prepare(recipe, run, options.data, options.bundles)
    read = sum(corpus["read"] for corpus in report["train"].values())
    used = sum(corpus["used"] for corpus in report["train"].values())
    print(
        f"prepared {run.path}: {used:,} of {read:,} pairs, {report['vocabulary']:,} pieces; "
        f"details in {run.report}"
    )
