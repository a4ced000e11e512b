"""Vocabulary shortlists for tests, and their conversion to lists."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.bundle.shortlist import Shortlist


def ids(*values: int) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def as_lists(shortlist: Shortlist) -> tuple[list[int], list[list[int]]]:
    """The ids that are always included, and the target ids of every source id."""
    bounds = zip(shortlist.offsets[:-1], shortlist.offsets[1:], strict=True)
    return shortlist.always.tolist(), [shortlist.targets[a:b].tolist() for a, b in bounds]


@st.composite
def shortlists(draw: st.DrawFn) -> Shortlist:
    some = st.lists(st.integers(0, 8), max_size=5)
    lists = draw(st.lists(some, min_size=9, max_size=9))
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return Shortlist(ids(*draw(some)), offsets, ids(*(i for part in lists for i in part)))
