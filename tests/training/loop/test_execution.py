from __future__ import annotations

from typing import Any

import pytest
import torch

from training.cli import _parser, main
from training.commands.train import execution_of
from training.loop.execution import Execution, ImpossibleExecution


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"cuda_graphs": True}, "leave out --cuda-graphs, or compile"),
        ({"length_multiple": 0}, "1 leaves them as they are"),
        ({"prefetch": 0}, "1 is the least"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ImpossibleExecution, match=complaint):
        Execution(**options)


def chosen(device: str, *options: str) -> Execution:
    parsed = _parser().parse_args(["train", "reverse", *options])
    return execution_of(parsed, torch.device(device))


def test_a_device_has_defaults_that_options_overrule() -> None:
    assert chosen("cpu") == Execution()
    assert chosen("cuda") == Execution.default_for(torch.device("cuda"))
    assert chosen("cuda").compile
    assert not chosen("cuda", "--no-compile").compile
    assert chosen("cpu", "--activation-checkpointing", "--prefetch", "2") == Execution(
        activation_checkpointing=True, prefetch=2
    )
    assert chosen("cpu", "--length-multiple", "8").length_multiple == 8
    assert chosen("cuda", "--cuda-graphs").cuda_graphs


def test_torchrun_is_refused_for_hops_other_than_train(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["run", "reverse"]) == 2
    assert "then `train` alone by torchrun" in capsys.readouterr().err
