"""``translate`` command: machine-translates the corpora for distillation or back-translation."""

from __future__ import annotations

from training.commands.options import Job

HELP = "translate corpora that the recipe wants in a bundle's words"


def perform(job: Job) -> None:
    from training.data.translate import translate_corpora
    from training.run_lock import locked

    options, places = job.options, (job.options.data, job.options.bundles)
    with locked(job.run):
        made = translate_corpora(job.recipe, job.run, *places, options.threads)
    for label, path in made.items():
        print(f"translated {label}: {path}")
