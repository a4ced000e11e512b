"""Target-language tags, which select the direction of a network that has several.

A tag is a piece of its own, put before the source. It is a control symbol of the vocabulary, so no
text contains one (Johnson et al., 2017, section 3).
"""

from __future__ import annotations

from models.bundle.tokenizer import Tokenizer
from training.recipe import Data


def tag_of(language: str) -> str:
    return f"<2{language}>"


def tags_of(data: Data) -> tuple[str, ...]:
    """The tags that the vocabulary needs; none for a single direction."""
    if len(data.directions) == 1:
        return ()
    return tuple(dict.fromkeys(tag_of(target) for _, target in data.directions))


def source_prefix(data: Data, target: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Token ids prepended to a source text that is translated into ``target``."""
    return (tokenizer.id_of(tag_of(target)),) if len(data.directions) > 1 else ()
