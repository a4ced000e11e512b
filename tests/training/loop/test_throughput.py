from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.transformer.transformer import build
from tests.support.tiny_training import tiny_config
from training.data.portions import Amount
from training.device import peak_flops
from training.loop.throughput import Meter, training_flops


@pytest.mark.parametrize(("source", "target"), [(5, 7), (12, 3)])
def test_training_flops_equal_the_count_of_torch(source: int, target: int) -> None:
    config = tiny_config(width=32, heads=4, feed_forward=96, encoder_layers=3, decoder_layers=2)
    network = build(config, seed=1)
    source_BS, target_BT = torch.full((4, source), 5), torch.full((4, target), 5)
    amount = Amount(4 * source, 4 * target, 4 * source**2, 4 * target**2, 4 * source * target)
    with FlopCounterMode(display=False) as counter:
        # Unfused attention is products that torch counts on every device.
        logits, _ = network.attention_maps(source_BS, target_BT)
        logits.sum().backward()  # type: ignore[no-untyped-call]
    assert counter.get_total_flops() == pytest.approx(training_flops(config, amount), rel=1e-6)


def test_speed_reports_tokens_per_second_and_utilisation() -> None:
    config = tiny_config()
    amount = Amount(30, 20, 90, 60, 70)
    flops = training_flops(config, amount)
    meter = Meter(config, peak=flops * 8)
    meter.lap(amount, seconds=2.0, waited=0.5)
    first = meter.since_last()
    assert (first.tokens_per_second, first.waiting) == (25.0, 0.25)
    assert first.utilisation == pytest.approx(1 / 16)
    assert str(first) == "25 tokens/s, MFU 6.2%, 25.0% waiting for data"
    meter.lap(amount, seconds=0.5, waited=0.0)
    assert meter.since_last().tokens_per_second == 100.0
    assert meter.total().tokens_per_second == 40.0
    assert meter.recent() == meter.total()


def test_two_passes_double_utilisation_and_not_tokens() -> None:
    config, amount = tiny_config(), Amount(30, 20, 90, 60, 70)
    once, twice = (Meter(config, 1e9, passes) for passes in (1, 2))
    assert once.total().tokens_per_second == 0.0
    for meter in (once, twice):
        meter.lap(amount, 1.0, 0.0)
    assert twice.total().tokens_per_second == once.total().tokens_per_second
    assert once.total().utilisation is not None
    assert twice.total().utilisation == pytest.approx(2 * once.total().utilisation)
    # The peak of some devices is unknown.
    unknown = Meter(config, peak_flops("Some Other Device"))
    unknown.lap(amount, 1.0, 0.0)
    assert unknown.total().utilisation is None


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989.4e12),
        ("NVIDIA H100 80GB HBM3", 989.4e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40S", 362.05e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12),
        ("Tesla T4", None),
    ],
)
def test_peak_flops_of_device_names(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak
