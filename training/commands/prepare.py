"""``prepare`` command: turns text into token shards."""

from __future__ import annotations

import os

from training.commands.options import Job

HELP = "read and clean the corpora, learn the vocabulary, write token ids"


def perform(job: Job) -> None:
    from training.data.prepare import prepare
    from training.run_lock import locked

    processes = job.options.threads or os.cpu_count() or 1
    with locked(job.run):
        report = prepare(job.recipe, job.run, job.options.data, job.options.bundles, processes)
    read = sum(corpus["read"] for corpus in report["train"].values())
    used = sum(corpus["used"] for corpus in report["train"].values())
    print(
        f"prepared {job.run.path}: {used:,} of {read:,} pairs, {report['vocabulary']:,} pieces; "
        f"details in {job.run.report}"
    )
