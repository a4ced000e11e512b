"""Tree of a recorded beam search: the candidates of each step, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fate = Literal["kept", "pruned", "finished", "dropped"]
"""``kept``: a live row of the next step. ``finished``: a hypothesis. ``dropped``: an ending ranked
below the beam, which is no hypothesis. ``pruned``: any other candidate ranked below the beam."""

ROOT = 0
"""Id of the empty prefix, which is no candidate."""


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate that was ranked. Ids count the candidates of all steps in order, from 1."""

    id: int
    parent: int
    """Id of the candidate that it continues, or ``ROOT``."""
    token: int
    log_probability: float
    """Log-probability that the token adds to the sum: 0 if forced, changed if a prefix is
    favoured."""
    sum: float
    """Sum of the log-probabilities from the root to this candidate, in float32."""
    score: float
    """Score of the hypothesis that ends here, with length and coverage penalties."""
    fate: Fate


@dataclass(frozen=True, slots=True)
class SearchTree:
    """The ranked candidates of each step, best first."""

    steps: tuple[tuple[RankedCandidate, ...], ...] = ()

    @property
    def leaves(self) -> tuple[RankedCandidate, ...]:
        """The last candidate of each hypothesis; none if the only hypothesis is empty.

        If no candidate has finished, no token was allowed after the last ones that were kept.
        """
        finished = tuple(each for step in self.steps for each in step if each.fate == "finished")
        last = self.steps[-1] if self.steps else ()
        return finished or tuple(each for each in last if each.fate == "kept")

    def token_ids(self, leaf: RankedCandidate) -> tuple[int, ...]:
        """The tokens from the root to a candidate."""
        every = [each for step in self.steps for each in step]
        tokens = [leaf.token]
        while leaf.parent != ROOT:
            leaf = every[leaf.parent - 1]
            tokens.append(leaf.token)
        return tuple(reversed(tokens))
