"""``tune`` command: searches the best beam size and length penalty on the validation set."""

from __future__ import annotations

import argparse

from training.commands.options import Job, device_of, positive

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


def perform(job: Job) -> None:
    from training.averaged import averaged_network
    from training.evaluation.tuning import tune

    tuning = tune(
        job.recipe,
        job.run,
        averaged_network(job.run, job.recipe.strength),
        job.options.data,
        device_of(job.options),
        beam_sizes=job.options.beam_sizes,
        sentences=job.options.sentences,
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
        f"{job.run.decoding} says beam_size {best.beam_size}, "
        f"length_penalty {best.length_penalty}, length_normalisation {best.length_normalisation}"
    )
