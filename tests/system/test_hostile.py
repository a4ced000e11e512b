"""Attacks on one service process with the committed bundles, all of a class at once.

``python -m tests.system.hostile`` runs them one by one and measures what each costs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.support.books import accepted, assert_no_sentence_is_left, outcomes
from tests.system.hostile.attacks import ATTACKS, DOCUMENTS_LAST
from tests.system.hostile.campaign import Outcome, Service, attacked
from tests.system.hostile.traffic import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    # Attackers reset connections and do not wait for their end.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SECONDS = 3.0
"""Longest time of a class of attacks."""
MOST_RESIDENT = 1000.0
"""MB, with two bundles in memory and every attack of a class at once."""
REFUSALS = {"400", "403", "404", "405", "413", "414", "429", "431", "456", "503", "504"}
NO_ANSWER = {"closed", "left", "refused"}
OUTCOMES: dict[str, Outcome] = {}


TRAFFIC_SECONDS = 15.0


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with attacked() as service:
        yield service
    resident = {kind: service.figures(outcome).resident for kind, outcome in OUTCOMES.items()}
    assert max(resident.values()) < MOST_RESIDENT, resident


@pytest.mark.parametrize("kind", DOCUMENTS_LAST)
def test_service_withstands_every_attack_of_a_class_at_once(kind: str, service: Service) -> None:
    outcome = service.attack([each for each in ATTACKS if each.kind == kind], SECONDS)
    OUTCOMES[kind] = outcome
    assert set(outcome.statuses) <= {"200", "201", "204", *REFUSALS, *NO_ANSWER}, outcome.statuses
    # Documents are translated on in the background.
    books = service.quiet_books(sentences=kind != "document")
    os.kill(service.process, 0)
    assert accepted(books) == sum(outcomes(books).values()) + 1, "plus that for the metrics"
    assert not outcomes(books).get("error")
    if kind != "document":
        assert_no_sentence_is_left(books)
    answer = httpx.post(
        f"{service.url}/translate",
        json={"q": f"Zwei Hunde ({kind}).", "source": "de", "target": "en"},
        timeout=60,
    )
    assert answer.status_code == 200


def test_honest_requests_are_answered_among_attacks(service: Service) -> None:
    traffic = run(service, TRAFFIC_SECONDS, seed=1)
    honest = traffic.honest
    assert honest["unanswered"] == 0 and honest["lost"] == []
    assert sum(honest["answers"].values()) == honest["sent"]
    # A request in a language without a model is among them.
    assert honest["answers"]["200"] > 0 and honest["answers"].keys() <= {"200", "400", "503"}
    assert set(traffic.hostile) <= {"200", "201", "204", *REFUSALS, *NO_ANSWER}, traffic.hostile
    books = traffic.books
    assert accepted(books) == sum(outcomes(books).values()) + 1, "plus that for the metrics"
