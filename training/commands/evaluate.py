"""``evaluate`` command: scores the averaged network on the recipe's test set."""

from __future__ import annotations

from training.commands.options import Job, device_of

HELP = "translate the test set and score it"


def perform(job: Job) -> None:
    from training.averaged import averaged_network
    from training.evaluation.hop import evaluate

    network = averaged_network(job.run, job.recipe.strength)
    device = device_of(job.options)
    evaluation = evaluate(job.recipe, job.run, network, job.options.data, device)
    for direction in evaluation.directions:
        print(f"{evaluation.test_set}, {direction}")
