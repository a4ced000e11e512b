from __future__ import annotations

from models.bundle.manifest import SpecialIds
from service.catalogue.vocabulary import Vocabulary

PIECES = (
    *("<pad>", "<unk>", "<s>", "</s>"),
    *("▁dog", "s", ".", "'", "'s", "▁", "-", "7", "<0x20>", "<0x41>", "<0xE4>", "犬", "▁(", "é"),
)
SPECIAL_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)


def test_words_begin_at_blanks_punctuation_and_signs() -> None:
    found = Vocabulary(PIECES, SPECIAL_IDS).words
    starts = {PIECES[token_id] for token_id in found.starts}
    assert starts == {"</s>", "▁dog", ".", "'", "▁", "-", "<0x20>", "犬", "▁("}


def test_punctuation_and_signs_end_their_word() -> None:
    found = Vocabulary(PIECES, SPECIAL_IDS).words
    assert {PIECES[token_id] for token_id in found.closes} == {".", "'", "-", "犬", "▁("}
