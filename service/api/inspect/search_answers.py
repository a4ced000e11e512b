"""Answer of the search route: the tree of a beam search."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from service.api.fields.schemas import Answer
from service.engine.search_tree import Fate, RankedCandidate
from service.inspection.recorded_search import RecordedSearch

_DECIMALS = 6


class CandidateAnswer(Answer):
    id: int = Field(description="Counts the candidates of all steps in order, from 1.")
    parent: int = Field(description="Id of the candidate that it continues; 0 at the beginning.")
    token: int
    piece: str = Field(examples=["▁dogs"])
    log_probability: float = Field(description="What it adds to the sum; 0 if it is forced.")
    sum: float = Field(description="Sum of the log-probabilities from the beginning to here.")
    score: float = Field(description="Of the hypothesis that ends here, with all penalties.")
    fate: Fate


class StepAnswer(Answer):
    candidates: list[CandidateAnswer] = Field(description="Those that were ranked, best first.")


class SearchAnswer(Answer):
    model: str = Field(examples=["general-de-en"])
    source: list[str] = Field(description="Pieces of the source.")
    steps: list[StepAnswer]
    winner: int = Field(description="Id of the candidate that ends the translation.")
    reproduced: bool = Field(
        description="Whether that is the kept translation; a GPU may round differently."
    )


def step_answers(found: RecordedSearch) -> Iterator[StepAnswer]:
    """The steps of a ``SearchAnswer``. Thousands of candidates take a while."""
    for step in found.tree.steps:
        yield StepAnswer(candidates=[_candidate(each, found.pieces[each.token]) for each in step])


def _candidate(candidate: RankedCandidate, piece: str) -> CandidateAnswer:
    return CandidateAnswer(
        id=candidate.id,
        parent=candidate.parent,
        token=candidate.token,
        piece=piece,
        log_probability=round(candidate.log_probability, _DECIMALS),
        sum=round(candidate.sum, _DECIMALS),
        score=round(candidate.score, _DECIMALS),
        fate=candidate.fate,
    )
