from __future__ import annotations

import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from models.transformer.transformer import Transformer
from tests.support.checkpoints import Harmful
from tests.support.tiny_training import tiny_config, tiny_network
from training import checkpoint
from training.checkpoint import CheckpointError
from training.disk import CannotWrite


def document(network: Transformer, step: int = 1) -> dict[str, Any]:
    return {
        "config": asdict(network.config),
        "recipe": {"name": "tiny"},
        "vocabulary": {"tokenizer.model": "of some run"},
        "step": step,
        "random": [torch.get_rng_state()],
        "network": network.state_dict(),
    }


def test_saved_checkpoint_loads_back(tmp_path: Path) -> None:
    network = tiny_network(norm="before", positions="learned", tying="decoder")
    path = checkpoint.path_of(tmp_path, 12)
    checkpoint.save(document(network, 12), path)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint-00000012.pt"]
    restored = checkpoint.restore(checkpoint.load(path))
    assert restored.config == network.config
    assert not restored.training
    source, target = torch.tensor([[4, 5, 3]]), torch.tensor([[2, 6]])
    assert torch.equal(restored(source, target), network(source, target))


def test_a_write_that_fails_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint.path_of(tmp_path, 1)
    checkpoint.save(document(tiny_network(1)), path)
    before = path.read_bytes()

    def disk_full(content: object, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", disk_full)
    for step in (1, 2):
        with pytest.raises(CannotWrite, match="is full"):
            checkpoint.save(document(tiny_network(2)), checkpoint.path_of(tmp_path, step))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_only_checkpoints_are_listed_oldest_first(tmp_path: Path) -> None:
    for step in (300, 2, 99_999_999, 10):
        checkpoint.path_of(tmp_path, step).touch()
    for name in ("checkpoint-00000400.partial", "averaged.pt", "checkpoint-1.pt", "log.jsonl"):
        (tmp_path / name).touch()
    found = checkpoint.checkpoints(tmp_path)
    assert found == [checkpoint.path_of(tmp_path, step) for step in (2, 10, 300, 99_999_999)]
    assert checkpoint.checkpoints(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("keep", "spared", "left"),
    [(1, (), [4]), (3, (), [2, 3, 4]), (9, (), [1, 2, 3, 4]), (2, {1}, [1, 3, 4])],
)
def test_pruning_keeps_the_last_and_the_spared_steps(
    tmp_path: Path, keep: int, spared: set[int], left: list[int]
) -> None:
    for step in (1, 2, 3, 4):
        checkpoint.path_of(tmp_path, step).touch()
    checkpoint.prune(tmp_path, keep, spared)
    assert checkpoint.checkpoints(tmp_path) == [checkpoint.path_of(tmp_path, s) for s in left]


def saved(directory: Path, networks: list[Transformer]) -> list[Path]:
    paths = [checkpoint.path_of(directory, step) for step in range(1, len(networks) + 1)]
    for step, (path, network) in enumerate(zip(paths, networks, strict=True), start=1):
        checkpoint.save(document(network, step), path)
    return paths


def test_an_average_is_the_mean_of_every_weight(tmp_path: Path) -> None:
    networks = [tiny_network(seed) for seed in (1, 2, 3)]
    averaged = checkpoint.average(saved(tmp_path, networks))
    assert averaged["averaged"] == [1, 2, 3]
    for name, weight in averaged["network"].items():
        mean = torch.stack([network.state_dict()[name] for network in networks]).mean(0)
        torch.testing.assert_close(weight, mean)
        assert weight.dtype == torch.float32
    # Tied matrices stay tied.
    checkpoint.save(averaged, tmp_path / "averaged.pt")
    network = checkpoint.restore(checkpoint.load(tmp_path / "averaged.pt"))
    assert network.generator.weight is network.source_embedding.tokens.weight


@pytest.mark.parametrize(
    ("second", "named"),
    [
        (document(tiny_network(width=8)), "different networks"),
        (document(tiny_network()) | {"vocabulary": {"t": "other"}}, "different vocabularies"),
        (
            {name: part for name, part in document(tiny_network()).items() if name != "vocabulary"},
            "another version",
        ),
    ],
)
def test_average_of_other_networks_or_vocabularies_is_refused(
    tmp_path: Path, second: dict[str, Any], named: str
) -> None:
    paths = saved(tmp_path, [tiny_network(), tiny_network()])
    checkpoint.save(second, paths[1])
    with pytest.raises(CheckpointError, match=named):
        checkpoint.average(paths)
    with pytest.raises(CheckpointError, match="training train RECIPE"):
        checkpoint.average([])


def test_checkpoint_with_a_changed_byte_is_refused_by_name_or_has_the_same_weights(
    tmp_path: Path,
) -> None:
    path = checkpoint.path_of(tmp_path, 1)
    weights = torch.arange(64.0)
    checkpoint.save({"network": weights}, path)
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            found = checkpoint.load(path)
        except CheckpointError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            assert torch.equal(found["network"], weights), place
    assert refused > 64 * 4 / 7


def test_loading_a_checkpoint_runs_none_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"network": Harmful()}, tmp_path / "bad.pt")
    with pytest.raises(CheckpointError, match=r"bad\.pt is not a checkpoint"):
        checkpoint.load(tmp_path / "bad.pt")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("damage", ["truncated", "junk", "empty", "a pickle", "one bit"])
def test_damaged_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    (path,) = saved(tmp_path, [tiny_network()])
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    damaged = {
        "truncated": content[:-500],
        "junk": b"junk" * 100,
        "empty": b"",
        "a pickle": pickle.dumps(tiny_config()),
        "one bit": bytes(flipped),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(CheckpointError, match=path.name):
        checkpoint.load(path)
