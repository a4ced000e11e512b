"""Tests of benchmark workloads: lengths, determinism, missing data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.workloads import newstest_lengths, workload
from models.bundle.bundle import Bundle
from tests.models.tiny import MANIFEST
from training.data.corpus import CorpusError

BUNDLE = Bundle(Path("nowhere"), MANIFEST)
EOS = MANIFEST.special_ids.eos


@pytest.mark.parametrize("sentences", [1, 8, 64])
def test_fixed_sentences_have_25_tokens_and_one_eos(sentences: int) -> None:
    work = workload(f"fixed-{sentences}", BUNDLE, Path("nowhere"))
    assert work == workload(f"fixed-{sentences}", BUNDLE, Path("nowhere"))
    for batch in work.batches:
        assert len(batch) == sentences
        assert all(len(each) == 25 and each.index(EOS) == 24 for each in batch)
    with pytest.raises(CorpusError, match="TRAINING_DATA"):
        workload("newstest2014", BUNDLE, Path("nowhere"))
    with pytest.raises(ValueError, match="fixed-1"):
        workload("fixed", BUNDLE, Path("nowhere"))


def test_news_sentences_have_the_lengths_of_news() -> None:
    lengths = newstest_lengths(2000)
    assert np.mean(lengths) == pytest.approx(27, abs=1)
    assert np.std(lengths) == pytest.approx(14, abs=1)
    assert (min(lengths), max(lengths)) >= (4, 80)
    assert max(lengths) <= 100
