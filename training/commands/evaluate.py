"""``evaluate`` command: scores the averaged network on the recipe's test set."""

from __future__ import annotations

import argparse

from training.commands.options import device_of, recipe_of, run_of

HELP = "translate the test set and score it"


def perform(options: argparse.Namespace) -> None:
    from training.averaged import averaged_network
    from training.evaluation.hop import evaluate

    recipe = recipe_of(options)
    run = run_of(options, recipe)
    network, device = averaged_network(run), device_of(options)
    evaluation = evaluate(recipe, run, network, options.data, device)
    for direction in evaluation.directions:
        print(f"{evaluation.test_set}, {direction}")
