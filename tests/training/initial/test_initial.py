from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer, Tokenizers, train_tokenizer
from models.transformer.config import TransformerConfig
from models.transformer.transformer import build
from tests.support.networks import CONFIG
from training.initial.start import rows_for, with_pieces_of

OLD_TEXT = ["the dog runs", "a dog and a cat", "the cat sleeps", "dogs run", "cats sleep"] * 20
NEW_TEXT = ["dogs sleep in the catalogue", "a café and a dog", "the cat runs and sleeps"] * 20


@pytest.fixture
def old(tmp_path: Path) -> Tokenizer:
    return train_tokenizer(OLD_TEXT, tmp_path / "old.model", vocabulary_size=22)


@pytest.fixture
def new(tmp_path: Path) -> Tokenizer:
    return train_tokenizer(
        NEW_TEXT, tmp_path / "new.model", vocabulary_size=28, control_symbols=["<2de>"]
    )


def test_a_vocabulary_brought_over_to_itself_stays_as_it_is(old: Tokenizer) -> None:
    assert rows_for(old, old) == [[id] for id in range(old.vocabulary_size)]


def test_piece_starts_from_its_old_row_or_from_rows_of_pieces_that_spell_it(
    old: Tokenizer, new: Tokenizer
) -> None:
    known = old.pieces(range(old.vocabulary_size))
    rows = rows_for(new, old)
    for piece, ids in zip(new.pieces(range(new.vocabulary_size)), rows, strict=True):
        if piece in known:
            assert [known[id] for id in ids] == [piece]
        elif not set(piece) - set("".join(known)):
            assert "".join(known[id] for id in ids) == piece
            assert len(ids) > 1
        else:
            assert SPECIAL_IDS.unk in ids
    assert {1, 3} < {len(ids) for ids in rows}


@pytest.mark.parametrize("tying", ["all", "none"])
def test_text_of_shared_pieces_has_unchanged_logits(
    old: Tokenizer, new: Tokenizer, tying: Literal["all", "none"]
) -> None:
    config = replace(CONFIG, tying=tying, output_bias=tying == "none")
    before = build(sized(config, old.vocabulary_size), seed=1)
    after = build(sized(config, new.vocabulary_size), seed=2)
    if tying == "none":
        torch.nn.init.normal_(before.generator.bias)
    after.load_state_dict(
        with_pieces_of(Tokenizers(new, new), Tokenizers(old, old), before.state_dict())
    )

    both = [(ids[0], id) for id, ids in enumerate(rows_for(new, old)) if len(ids) == 1 and id >= 4]
    old_ids, new_ids = (torch.tensor(ids) for ids in zip(*both, strict=True))
    with torch.inference_mode():
        old_logits = before.eval()(old_ids[None, :8], old_ids[None, 4:10])
        new_logits = after.eval()(new_ids[None, :8], new_ids[None, 4:10])
    torch.testing.assert_close(new_logits[..., new_ids], old_logits[..., old_ids])


def sized(config: TransformerConfig, size: int) -> TransformerConfig:
    return replace(config, source_vocabulary=size, target_vocabulary=size)
