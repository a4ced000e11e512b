"""Prints, for each word of a translation, the source word to which it attends most.

    python examples/attention.py [URL]

prints

    2 layers, 5 heads, 5 target pieces, 5 source pieces
       Two <- Zwei   0.…
      dogs <- Hunde  0.…
         . <- .      0.…
      </s> <- </s>   0.…
"""

import itertools
import sys

import numpy as np

from dragoman import Client

with Client(*sys.argv[1:2]) as client:
    translation = client.translate("Zwei Hunde.", source="de", target="en", attention=True)
    # Weights are a float32 array [layers, heads, target pieces, source pieces].
    maps = client.attention(translation, kind="cross", layer="all", head="all")


def words_of(pieces: tuple[str, ...]) -> dict[int, str]:
    """Words by the index of their first piece: ``▁dog`` begins one, ``s`` continues it."""
    starts = [index for index, piece in enumerate(pieces) if not piece.isalpha()]
    ends = itertools.pairwise([*starts, len(pieces)])
    return {start: "".join(pieces[start:end]).lstrip("▁") for start, end in ends}


sources, targets = words_of(maps.columns), words_of(maps.rows)
print("{} layers, {} heads, {} target pieces, {} source pieces".format(*maps.weights.shape))
mean = maps.weights.mean(axis=(0, 1))
by_word = np.add.reduceat(mean, list(sources), axis=1)
for first, target in targets.items():
    source = list(sources.values())[by_word[first].argmax()]
    print(f"{target:>6} <- {source:6} {by_word[first].max():.2f}")
