from __future__ import annotations

from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.manifest import AlignmentSource
from tests.support.tiny_training import prepared, tiny_recipe, with_budget, with_optimisation
from training.data.batching import collate
from training.data.shards import Shards
from training.disk import CannotWrite
from training.export.export import export
from training.loop.distributed import World
from training.loop.guidance import Guide, guide_of
from training.loop.trainer import Trainer
from training.recipe import InvalidRecipe
from training.shortlist.lexicon import Lexicon

CPU = torch.device("cpu")
VOCABULARY = 6

links = st.dictionaries(
    st.tuples(st.integers(0, VOCABULARY - 1), st.integers(0, VOCABULARY - 1)),
    st.floats(0.01, 1.0),
    min_size=1,
)
ids = st.integers(0, VOCABULARY - 1)


@given(table=links, source=st.lists(ids, min_size=1, max_size=5), targets=st.lists(ids, min_size=1))
def test_posteriors_are_those_of_model_1(
    table: dict[tuple[int, int], float], source: list[int], targets: list[int]
) -> None:
    keys = sorted(table)
    of_source, of_target = (np.array(side) for side in zip(*keys, strict=True))
    guide = Guide(
        Lexicon(of_source, of_target, np.array([table[key] for key in keys])), VOCABULARY, CPU
    )
    found = guide.posteriors(torch.tensor([source] * len(targets)), torch.tensor(targets))
    for target, line in zip(targets, found.tolist(), strict=True):
        likelihoods = [table.get((each, target), 0.0) for each in source]
        evidence = sum(likelihoods) or 1.0
        assert line == pytest.approx([each / evidence for each in likelihoods], abs=1e-5)


def test_guided_head_learns_the_alignments_and_aligns_words_of_the_bundle(tmp_path: Path) -> None:
    divergences = {}
    for weight in (0.0, 1.0):
        recipe = with_budget(tiny_recipe(), steps=60, validate_every=60)
        recipe = with_optimisation(replace(recipe, average=1), guided_alignment=weight)
        run = prepared(tmp_path / str(weight), recipe)
        trainer = Trainer(recipe, run, CPU)
        trainer.train()
        shards = Shards.open(run.shards("valid"))
        batch = collate(shards, np.arange(len(shards)), trainer.special)
        with torch.no_grad():
            _, maps = trainer.network.eval().attention_maps(batch.source_BS, batch.input_BT)
        weights_NS = maps.cross[-1][:, 0].flatten(0, 1)
        sources_NS = batch.source_BS.repeat_interleave(batch.input_BT.size(1), dim=0)
        guide = guide_of(run, CPU, World())
        targets_N = batch.output_BT.flatten()
        least = torch.special.entr(guide.posteriors(sources_NS, targets_N)).sum()
        divergences[weight] = float(guide.loss(weights_NS, sources_NS, targets_N) - least)
    assert 0 < divergences[1.0] < 0.5 * divergences[0.0]
    bundle, _ = export(recipe, run, trainer.network, tmp_path / "bundles", tmp_path, ("fp32",))
    assert bundle.manifest.alignment == AlignmentSource(layer=0, head=0)


def test_text_without_a_likely_translation_is_refused() -> None:
    unlikely = Lexicon(np.array([1]), np.array([2]), np.array([1e-4]))
    with pytest.raises(InvalidRecipe, match="too little text"):
        Guide(unlikely, VOCABULARY, CPU)


def test_guidance_and_r_drop_exclude_each_other() -> None:
    with pytest.raises(InvalidRecipe, match="guided_alignment and r_drop"):
        with_optimisation(tiny_recipe(), guided_alignment=0.1, r_drop=1.0)


def test_full_disk_is_named_while_the_alignments_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, **_: object) -> None:
        path.write_bytes(b"half of it")
        raise OSError(ENOSPC, "No space left on device")

    run = prepared(tmp_path, tiny_recipe())
    before = sorted(run.path.rglob("*"))
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(CannotWrite, match="is full"):
        guide_of(run, CPU, World())
    assert sorted(run.path.rglob("*")) == before
