"""``tune`` command: searches the best beam size and length penalty on the validation set."""

from __future__ import annotations

import argparse

from training.commands.options import device_of, positive, recipe_of, run_of

HELP = "find the beam and the length penalty that validate best, for the bundle"

BEAM_SIZES, SENTENCES = (1, 2, 4, 6), 1000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--beam-sizes",
        type=positive,
        nargs="+",
        default=BEAM_SIZES,
        metavar="N",
        help=f"to try (default: {' '.join(map(str, BEAM_SIZES))})",
    )
    parser.add_argument(
        "--sentences",
        type=positive,
        default=SENTENCES,
        metavar="N",
        help=f"of the validation set to translate (default: {SENTENCES})",
    )


def perform(options: argparse.Namespace) -> None:
    from training.averaged import averaged_network
    from training.evaluation.tuning import tune

    recipe = recipe_of(options)
    run = run_of(options, recipe)
    tuning = tune(
        recipe,
        run,
        averaged_network(run),
        options.data,
        device_of(options),
        beam_sizes=options.beam_sizes,
        sentences=options.sentences,
    )
    print(f"{tuning.validation_set}, {tuning.sentences} sentences of each direction")
    print("beam  penalty  normalisation   BLEU")
    for trial in tuning.trials:
        print(
            f"{trial.beam_size:>4}  {trial.length_penalty:>7}  {trial.length_normalisation:<13}"
            f"  {trial.bleu:5.2f}"
        )
    best = tuning.decoding
    print(
        f"{run.decoding} says beam_size {best.beam_size}, length_penalty {best.length_penalty}, "
        f"length_normalisation {best.length_normalisation}"
    )
