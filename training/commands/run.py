"""``run`` command: performs every hop of a run in order."""

from __future__ import annotations

import argparse
import logging

from training.commands import average, evaluate, export, prepare, shortlist, train, translate
from training.commands.options import Job, name_of
from training.refusal import Refusal

HOPS = (translate, prepare, train, average, evaluate, shortlist, export)
_NAMES = [name_of(hop) for hop in HOPS]
HELP = f"all hops: {', '.join(_NAMES[:-1])} and {_NAMES[-1]}, in this order"

logger = logging.getLogger(__name__)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every hop that has any."""
    for hop in HOPS:
        if hasattr(hop, "add_options"):
            hop.add_options(parser)


def perform(job: Job) -> None:
    """Perform every hop; finished translations and preparation are kept.

    Without ``recipe.shortlist`` no shortlist is built.
    """
    from training.evaluation.network import bitext_of
    from training.loop.distributed import is_distributed
    from training.run_lock import locked

    if is_distributed():
        raise Refusal(
            "torchrun starts several processes, of which every hop but `train` needs one: run "
            "`prepare` first, then `train` alone by torchrun, then the remaining hops"
        )
    # A missing test set is reported here rather than after days of training.
    data = job.recipe.data
    for direction in data.directions:
        bitext_of(data.test_set(direction), data, direction, job.options.data)
    with locked(job.run):
        perform_hops(job)


def perform_hops(job: Job) -> None:
    """Perform every hop that the recipe needs; the caller has locked the run."""
    from training.data.prepare import correct_licences, is_prepared

    for hop in HOPS:
        if hop is prepare and is_prepared(job.recipe, job.run, job.options.data):
            logger.info("%s is prepared", job.run.path)
            correct_licences(job.recipe, job.run)
        elif hop is translate and not any(corpus.translated for corpus in job.recipe.data.train):
            continue
        elif hop is not shortlist or job.recipe.shortlist:
            hop.perform(job)
