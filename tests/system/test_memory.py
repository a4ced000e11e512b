"""Test that a model's memory does not grow with the number of translations."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import replace

import pytest

from models.bundle.bundle import Bundle
from models.bundle.tokenizer import SPECIAL_IDS
from service.engine.engine import Engine
from service.engine.scheduler import Scheduler
from service.engine.types import DecodingOptions
from service.runtime.onnx import OnnxBackend
from tests.support.networks import CONFIG, random_network, write_bundle
from tests.support.programs import resident_bytes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

LENGTHS = 2, 180
ROUNDS, SENTENCES = 12, 60
ALLOWED_GROWTH = 24 << 20


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    network = random_network(replace(CONFIG, width=64, heads=4, max_length=256))
    return write_bundle(network, tmp_path_factory.mktemp("bundles") / "random", ("fp32",))


async def translate_rounds(bundle: Bundle) -> list[int]:
    """Resident memory after each round of sentences of very different lengths."""
    backend = OnnxBackend.load(bundle, "fp32", slots=16, rows_per_slot=4, threads=1)
    engine = Engine(backend, Scheduler(backend.limits, SPECIAL_IDS))
    await engine.start()
    rng = random.Random(1)
    resident = []
    for _ in range(ROUNDS):
        sources = [
            (*(rng.randint(4, 29) for _ in range(rng.randint(*LENGTHS))), SPECIAL_IDS.eos)
            for _ in range(SENTENCES)
        ]
        await asyncio.gather(
            *(
                engine.decode(
                    source,
                    DecodingOptions(
                        beam_size=rng.randint(1, 4), max_decoding_length=rng.randint(1, 100)
                    ),
                )
                for source in sources
            )
        )
        resident.append(resident_bytes())
    await engine.close()
    return resident


def test_memory_stays_flat_over_sentences_of_every_length(bundle: Bundle) -> None:
    resident = asyncio.run(translate_rounds(bundle))
    settled = max(resident[: ROUNDS // 2])
    assert max(resident[ROUNDS // 2 :]) - settled < ALLOWED_GROWTH, resident
