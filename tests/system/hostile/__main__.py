"""``python -m tests.system.hostile``: runs every attack, and prints a table of what it cost."""

from __future__ import annotations

import argparse
import sys
import time

from tests.support.books import assert_no_sentence_is_left
from tests.system.hostile.attacks import ATTACKS, DOCUMENTS_LAST
from tests.system.hostile.campaign import Outcome, attacked, load

_REST_SECONDS = 1.0
"""Pause between two attacks, so that the waits after one are not attributed to the next."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="longest time of an attack")
    parser.add_argument("--only", default="", help="a class, or a part of an attack's name")
    options = parser.parse_args()
    chosen = [each for each in ATTACKS if options.only == each.kind or options.only in each.name]
    chosen.sort(key=lambda each: DOCUMENTS_LAST.index(each.kind))
    outcomes: list[tuple[str, Outcome, float]] = []
    with attacked() as service:
        time.sleep(2 * _REST_SECONDS)
        for each in chosen:
            outcome = service.attack([each], options.seconds)
            time.sleep(_REST_SECONDS)
            outcomes.append((each.kind, outcome, load()))
            print(f"{each.kind}: {each.name}: {dict(outcome.statuses)}", file=sys.stderr)
            if each.kind != "document":
                assert_no_sentence_is_left(service.quiet_books())
    print(
        "| class | attack | statuses | livez ms | idle ms | sentence s | MB | helpers MB | load |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    for kind, outcome, loaded in outcomes:
        figures = service.figures(outcome)
        statuses = " ".join(f"{status}:{count}" for status, count in outcome.statuses.items())
        print(
            f"| {kind} | {outcome.name} | {statuses} | {figures.livez:.0f} "
            f"| {figures.idle:.0f} | {figures.sentence:.2f} | {figures.resident:.0f} "
            f"| {figures.helpers:.0f} | {loaded:.1f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
