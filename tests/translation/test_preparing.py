from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from service.catalogue.loaded_model import DirectedModel
from service.text.detection import LinguaDetector
from service.text.glossary.term_index import TermIndex
from service.text.markup import parse
from service.text.types import Term
from service.translation import request_reader
from service.translation.decoding import DecodingOverrides
from service.translation.preparing import Job, prepare
from service.translation.request_reader import RequestReader
from service.translation.text_pool import Abandoned
from tests.support.toy import Both, ByteTokenizer, make_manifest, make_model

SENTENCES = 40
TEXT = parse("\n".join(f"satz {number}" for number in range(SENTENCES)))


@dataclass
class Counting(ByteTokenizer):
    encoded: list[str] = field(default_factory=list)

    def encode(self, text: str) -> tuple[int, ...]:
        self.encoded.append(text)
        return super().encode(text)


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[DirectedModel, list[str]]]:
    model = await make_model(make_manifest("shout", "de", "en"))
    tokenizer = Counting()
    model.tokenizers = Both(tokenizer)
    # Found once for each model, by encoding a text.
    assert model.normalises
    tokenizer.encoded.clear()
    try:
        yield model.directed[0], tokenizer.encoded
    finally:
        await model.close()


async def test_constraints_are_encoded_once_for_all_sentences() -> None:
    constrained = DecodingOverrides(suppress_sequences=("nie", "auch nie"), target_prefix="so")
    async with counting() as (directed, encoded):
        (text,) = prepare([TEXT], directed, Job(constrained, "sentences", ()), TermIndex())
    assert len(encoded) == SENTENCES + 3
    assert all(sentence.options.suppress_sequences for sentence in text.sentences)
    assert [bool(sentence.options.target_prefix) for sentence in text.sentences[:3]] == [
        True,
        False,
        False,
    ]


async def test_work_ends_at_the_next_sentence_once_it_is_abandoned() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise Abandoned

    async with counting() as (directed, encoded):
        with pytest.raises(Abandoned):
            prepare([TEXT], directed, Job(DecodingOverrides(), "sentences", ()), TermIndex(), check)
    assert len(encoded) == 3


@pytest.mark.parametrize(("longest", "on_the_loop"), [(50, True), (299, False)])
async def test_texts_are_searched_in_a_thread_for_many_terms_that_begin_with_others(
    monkeypatch: pytest.MonkeyPatch, longest: int, on_the_loop: bool
) -> None:
    threads = []
    monkeypatch.setattr(
        request_reader, "prepare", lambda *_: threads.append(threading.current_thread()) or []
    )
    terms = tuple(Term("-" * length, "x") for length in range(1, longest + 1))
    async with counting() as (directed, _):
        job = Job(DecodingOverrides(), "sentences", terms)
        await RequestReader(LinguaDetector()).prepared([parse("satz")], directed, job)
    assert [each is threading.current_thread() for each in threads] == [on_the_loop]
