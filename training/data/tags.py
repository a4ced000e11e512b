"""Tags of languages: how a bidirectional network is told which language is wanted.

A tag is a piece of its own, put before the source. It is a control symbol of the vocabulary, so no
text contains one (Johnson et al., 2017, section 3).
"""

from __future__ import annotations

from models.bundle.tokenizer import Tokenizer
from training.recipe import Data


def tag_of(language: str) -> str:
    return f"<2{language}>"


def tags_of(data: Data) -> tuple[str, ...]:
    """All that a vocabulary needs; none where only one direction is learned."""
    return (tag_of(data.target), tag_of(data.source)) if data.bidirectional else ()


def source_prefix(data: Data, target: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The token ids before those of a text that is to be translated into ``target``."""
    return (tokenizer.id_of(tag_of(target)),) if data.bidirectional else ()
