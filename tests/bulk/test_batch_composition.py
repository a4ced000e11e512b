from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import pytest

from service.bulk.reading import Block, BlockSize, blocks
from service.bulk.rows import Lines
from service.bulk.source import Source
from service.bulk.translating import BlockTranslator
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.repository import FoundBundle, ModelRepository
from service.engine.engine import Engine
from service.engine.errors import SentenceTooLong
from service.engine.types import Decoded
from service.loading.discovery import discover
from service.text.detection import LinguaDetector
from service.text.types import LanguagePair
from service.translation.admission import Admission
from service.translation.decoding import NO_OVERRIDES, DecodingOverrides
from service.translation.local_translator import LocalTranslator
from service.translation.types import TranslateRequest
from tests.support.toy import (
    ScriptedBackend,
    make_limits,
    make_manifest,
    make_model,
    put_bundle,
    shouting,
)

PAIR = LanguagePair("de", "en")


def blocks_of(tmp_path: Path, content: str, lines: int = 30) -> list[Block]:
    (tmp_path / "in.txt").write_text(content)
    source = Source(str(tmp_path / "in.txt"))
    try:
        return list(blocks(source, Lines(), BlockSize(lines=lines)))
    finally:
        source.close()


class Recorded:
    """A translator to upper case whose scripted backend records its batch sizes."""

    def __init__(self, directory: Path) -> None:
        put_bundle(directory, "a")
        self.backend = ScriptedBackend(shouting, make_limits())
        self._repository = ModelRepository(lambda: discover(directory), self._load)

    async def _load(self, bundle: FoundBundle) -> LoadedModel:
        return await make_model(make_manifest("a", "de", "en"), self.backend)

    async def __aenter__(self) -> LocalTranslator:
        await self._repository.reload()
        return LocalTranslator(self._repository, Admission(1 << 20), LinguaDetector())

    async def __aexit__(self, *_: object) -> None:
        await self._repository.close()


def block_translator(
    translator: LocalTranslator, *, skip: bool = False, decoding: DecodingOverrides = NO_OVERRIDES
) -> BlockTranslator:
    return BlockTranslator(translator, PAIR, Lines(), decoding, skip=skip, alone=True)


async def test_a_block_always_has_the_same_batch_composition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = Engine.decode

    async def slowly(engine: Engine, *question: Any) -> Decoded:
        # Gives the engine thread time to begin with the sentences queued so far.
        time.sleep(0.001)
        return await decode(engine, *question)

    monkeypatch.setattr(Engine, "decode", slowly)
    content = "".join(f"z{'x' * (n * 7 % 13)} {n}\n" for n in range(120))
    found = blocks_of(tmp_path, content, lines=60)
    compositions = []
    for order in ((0, 1), (1,), (1,), (0, 1)):
        recorded = Recorded(tmp_path / "bundles")
        async with recorded as translator:
            translate = block_translator(translator)
            for number in order:
                steps = len(recorded.backend.batch_sizes)
                encodes = len(recorded.backend.encode_sizes)
                done = await translate(found[number])
                assert done.content == b"".join(found[number].lines).upper()
            backend = recorded.backend
            compositions.append((backend.batch_sizes[steps:], backend.encode_sizes[encodes:]))
    assert all(composition == compositions[0] for composition in compositions)
    # All sentences were queued before the first was admitted.
    assert compositions[0][1][0] == make_limits().slots


async def test_blocks_with_alone_are_decoded_one_after_another(tmp_path: Path) -> None:
    found = blocks_of(tmp_path, "zeile\nzwei\n" * 30)
    recorded = Recorded(tmp_path / "bundles")
    async with recorded as translator:
        translate = block_translator(translator)
        first, second = await asyncio.gather(translate(found[0]), translate(found[1]))
    assert first.content == second.content == b"ZEILE\nZWEI\n" * 15
    # Each block has two distinct texts, each decoded once; a shared batch would have three.
    assert max(recorded.backend.encode_sizes) == 2


async def test_a_failing_line_ends_a_block_after_the_lines_before_it(tmp_path: Path) -> None:
    content = "gut\n\n" + "x" * 70 + "\nauch gut\n" + "y" * 80 + "\n"
    (block,) = blocks_of(tmp_path, content)
    async with Recorded(tmp_path / "bundles") as translator:
        done = await block_translator(translator)(block)
        assert (done.content, done.rows) == (b"GUT\n\n", 2)
        assert str(done.failure).startswith("line 3: sentence has 71 tokens; ")
        done = await block_translator(translator, skip=True)(block)
    assert done.content == b"GUT\n\n\nAUCH GUT\n\n"
    assert (done.rows, done.skipped, done.failure) == (5, (3, 5), None)


class Growing:
    """A translator of which some words are too long for the second model of a pivot."""

    def __init__(self, translator: LocalTranslator) -> None:
        self.too_long = translator.too_long
        self._translator = translator

    async def translate(self, request: TranslateRequest, *given: Any, **named: Any) -> Any:
        if any("wächst" in text for text in request.texts):
            raise SentenceTooLong(9, 8)
        return await self._translator.translate(request, *given, **named)


async def test_lines_that_grow_in_a_pivot_are_found(tmp_path: Path) -> None:
    content = "gut\nwächst\nauch gut\n" + "y" * 80 + "\nwächst auch\n"
    (block,) = blocks_of(tmp_path, content)
    async with Recorded(tmp_path / "bundles") as translator:
        growing = cast(LocalTranslator, Growing(translator))
        done = await block_translator(growing)(block)
        assert (done.content, str(done.failure)[:7]) == (b"GUT\n", "line 2:")
        done = await block_translator(growing, skip=True)(block)
    assert done.content == b"GUT\n\nAUCH GUT\n\n\n"
    assert (done.skipped, done.failure) == ((2, 4, 5), None)


async def test_a_failure_of_no_single_line_names_the_block(tmp_path: Path) -> None:
    (block,) = blocks_of(tmp_path, "gut\n")
    async with Recorded(tmp_path / "bundles") as translator:
        decoding = DecodingOverrides(beam_size=99)
        done = await block_translator(translator, skip=True, decoding=decoding)(block)
    assert (done.content, done.rows) == (b"", 0)
    assert str(done.failure).startswith("lines 1 to 1: beam_size is 99")
