from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from models.bundle.tokenizer import SPECIAL_IDS, Tokenizer, Tokenizers, train_tokenizer
from models.importing.vocabulary import Piece, parse
from training.data.batching import BatchLoader
from training.data.portions import PortionLoader
from training.data.shards import Shards
from training.data.splitting import Splitter

WORDS = "spielen spielt spielte gespielt malen malt malte gemalt Haus Haustür Türen Tor"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    train_tokenizer([WORDS], path, vocabulary_size=70, kind="bpe", threads=1)
    return Tokenizer.load(path)


@pytest.fixture(scope="module")
def shards(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    words = WORDS.split()
    texts = [" ".join(words[n : n + 1 + n % 5]) for n in range(len(words))] + [""]
    pairs = [(tokenizer.encode(text), tokenizer.encode(text[::2])) for text in texts]
    return Shards.write(tmp_path_factory.mktemp("shards"), pairs)


@given(
    st.lists(st.integers(0, len(WORDS.split())), max_size=6),
    st.sampled_from([0.0, 0.3, 0.99]),
    st.integers(0, 30),
    st.integers(0, 5),
)
def test_split_pieces_spell_the_text_within_the_room(
    tokenizer: Tokenizer, shards: Shards, indices: list[int], rate: float, room: int, epoch: int
) -> None:
    splitter, chosen = Splitter(Tokenizers(tokenizer, tokenizer), rate), np.array(indices, int)
    split, again = (splitter.split(shards, chosen, (room, 99), (1, epoch)) for _ in range(2))
    for before, after, same, most in (
        (shards.source, split.source, again.source, room),
        (shards.target, split.target, again.target, 99),
    ):
        assert np.array_equal(after.tokens, same.tokens)
        for row, index in enumerate(indices):
            assert tokenizer.decode(after[row].tolist()) == tokenizer.decode(before[index].tolist())
            assert len(before[index]) <= len(after[row]) <= max(most, len(before[index]))
            if not rate:
                assert np.array_equal(after[row], before[index])


def test_unused_and_unwritable_pieces_are_never_parts(tokenizer: Tokenizer, shards: Shards) -> None:
    model = parse(tokenizer._processor.serialized_model_proto(), "")
    unused, unwritable = map(tokenizer.id_of, ("len", "lte"))
    model.pieces[unused].type = Piece.UNUSED
    rewritten = SentencePieceProcessor(model_proto=model.SerializeToString())

    def parts(tokenizer: Tokenizer, *unwritable: int) -> set[int]:
        splitter = Splitter(Tokenizers(tokenizer, tokenizer), 0.99, {*unwritable})
        chosen = np.arange(len(shards))
        split = [splitter.split(shards, chosen, (99, 99), (seed,)) for seed in range(20)]
        return {token for each in split for token in each.source.tokens.tolist()}

    assert parts(tokenizer) >= {unused, unwritable}
    assert not parts(Tokenizer(rewritten), unwritable) & {unused, unwritable}


def rows_of(shards: Shards, splitter: Splitter, rank: int, world: int) -> list[list[list[int]]]:
    """Source rows of 20 steps, without unused ones."""
    loader = BatchLoader(shards, SPECIAL_IDS, 60, seed=1, longest=40)
    portions = PortionLoader(loader, 1, rank, world, splitter=splitter)
    steps = []
    for _ in range(20):
        (batch,) = portions.next().batches
        rows = [row[row != SPECIAL_IDS.pad].tolist() for row in batch.source_BS]
        steps.append(sorted(row for row in rows if row != [SPECIAL_IDS.eos]))
    return steps


def test_processes_share_the_splits_of_one_and_each_epoch_has_others(
    tokenizer: Tokenizer, shards: Shards
) -> None:
    splitter = Splitter(Tokenizers(tokenizer, tokenizer), 0.5)
    alone = rows_of(shards, splitter, 0, 1)
    halves = [rows_of(shards, splitter, rank, 2) for rank in range(2)]
    assert alone == [sorted(one + other) for one, other in zip(*halves, strict=True)]
    spelled = {(tokenizer.decode(row), tuple(row)) for step in alone for row in step}
    assert len(spelled) > 2 * len({text for text, _ in spelled})
