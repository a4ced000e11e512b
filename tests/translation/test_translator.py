from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.errors import BackendFailed, SentenceTooLong
from service.runtime.backend import Candidates, StepBatch
from service.runtime.scripted import ScriptedBackend
from service.translation.decoding import DecodingOverrides
from service.translation.errors import InvalidText, Overloaded, TextTooLarge
from service.translation.repository import FoundBundle, LoadedModel, ModelRepository
from service.translation.segmentation import SegmentedText, TokenLimit, segment
from service.translation.translator import Translator
from service.translation.types import LanguagePair, TranslateRequest
from tests.support.shouting import endless, make_limits, make_manifest, make_model, shouting

pytestmark = pytest.mark.anyio
DE_EN = LanguagePair("de", "en")


@asynccontextmanager
async def translating(
    backend: ScriptedBackend | None = None, max_sentences: int = 1000
) -> AsyncIterator[Translator]:
    async def load(bundle: FoundBundle) -> LoadedModel:
        return await make_model(make_manifest(bundle.name, "de", "en"), backend)

    repository = ModelRepository(lambda: [FoundBundle("shout", Path("shout"))], load)
    await repository.reload()
    try:
        yield Translator(repository, max_sentences=max_sentences)
    finally:
        await repository.close()


def request(*texts: str, **decoding: int) -> TranslateRequest:
    return TranslateRequest(texts, DE_EN, DecodingOverrides(**decoding))


async def test_texts_come_back_in_order_with_everything_around_their_sentences() -> None:
    async with translating() as translator:
        translations = await translator.translate(request(" ja.\r\n\r\n\tnein!\u00a0", "", "so"))
    assert [t.text for t in translations] == [" JA.\r\n\r\n\tNEIN!\u00a0", "", "SO"]


async def test_text_without_a_letter_or_a_digit_is_not_sent_to_the_model() -> None:
    backend = ScriptedBackend(shouting, make_limits())
    async with translating(backend) as translator:
        (translation,) = await translator.translate(request(" 🎉 … --\n"))
    assert translation.text == " 🎉 … --\n"
    assert backend.encode_sizes == []


async def test_a_translation_says_what_it_took() -> None:
    async with translating() as translator:
        (translation,) = await translator.translate(request("abc.\nde."))
    assert (translation.model, translation.pair) == ("shout", DE_EN)
    assert (translation.source_tokens, translation.target_tokens) == (7, 7)
    assert not translation.truncated


async def test_alternatives_are_the_other_hypotheses() -> None:
    async with translating() as translator:
        (translation,) = await translator.translate(request("ab", num_hypotheses=3))
    assert translation.text == "AB"
    assert len(translation.alternatives) == 2
    assert {"aB", "Ab"} & set(translation.alternatives)


async def test_alternatives_repeat_nothing() -> None:
    async with translating() as translator:
        (translation,) = await translator.translate(request("!", num_hypotheses=3))
    assert (translation.text, translation.alternatives) == ("!", ())


async def test_what_is_cut_is_flagged() -> None:
    async with translating(ScriptedBackend(endless, make_limits())) as translator:
        (translation,) = await translator.translate(request("a", max_decoding_length=5))
        whole, cut = await translator.translate(request("!", "a"))
    assert (translation.text, translation.truncated) == ("xxxxx", True)
    assert (whole.truncated, cut.truncated) == (False, True)


async def test_a_sentence_translates_the_same_alone_and_in_company() -> None:
    texts = [f"satz nummer {n}. noch {n * n} mehr, und so weiter!" for n in range(30)]
    async with translating() as translator:
        together = await asyncio.gather(*(translator.translate(request(t)) for t in texts))
        alone = [await translator.translate(request(text)) for text in texts]
    assert together == alone


async def test_concurrent_requests_share_the_batch() -> None:
    backend = ScriptedBackend(shouting, make_limits())
    async with translating(backend) as translator:
        await asyncio.gather(*(translator.translate(request("a" * 20)) for _ in range(8)))
    assert max(backend.batch_sizes) > 8


async def test_a_request_is_admitted_whole_or_not_at_all() -> None:
    gate = threading.Event()

    class Gated(ScriptedBackend):
        def step(self, batch: StepBatch) -> Candidates:
            gate.wait()
            return super().step(batch)

    async with translating(Gated(shouting, make_limits()), max_sentences=4) as translator:
        first = asyncio.create_task(translator.translate(request("a\nb\nc")))
        while translator.in_flight < 3:
            await asyncio.sleep(0.001)
        with pytest.raises(Overloaded):
            await translator.translate(request("d\ne"))
        assert translator.in_flight == 3
        last = asyncio.create_task(translator.translate(request("f")))
        while translator.in_flight < 4:
            await asyncio.sleep(0.001)
        gate.set()
        assert (await first)[0].text == "A\nB\nC"
        assert (await last)[0].text == "F"
        assert translator.in_flight == 0


async def test_a_request_that_could_never_be_admitted_is_refused_by_another_name() -> None:
    async with translating(max_sentences=2) as translator:
        with pytest.raises(TextTooLarge, match="3 sentences; at most 2"):
            await translator.translate(request("a\nb\nc"))
        assert translator.in_flight == 0


async def test_a_cancelled_request_frees_what_it_held() -> None:
    gate = threading.Event()

    class Gated(ScriptedBackend):
        def step(self, batch: StepBatch) -> Candidates:
            gate.wait()
            return super().step(batch)

    backend = Gated(shouting, make_limits())
    async with translating(backend) as translator:
        abandoned = asyncio.create_task(translator.translate(request("a" * 60 + "\nb")))
        while translator.in_flight < 2:
            await asyncio.sleep(0.001)
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        assert translator.in_flight == 0
        gate.set()
        await translator.translate(request("b"))
    assert len(backend.batch_sizes) < 10


async def test_several_failing_sentences_are_one_named_error() -> None:
    class Broken(ScriptedBackend):
        def step(self, batch: StepBatch) -> Candidates:
            raise RuntimeError("out of memory")

    async with translating(Broken(shouting, make_limits())) as translator:
        with pytest.raises(BackendFailed) as caught:
            await translator.translate(request("a\nb\nc"))
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_a_long_sentence_is_split_and_nothing_of_it_is_lost() -> None:
    text = "ein wort und noch eins, " * 30
    async with translating() as translator:
        (translation,) = await translator.translate(request(text))
    assert translation.text == text.upper()
    assert not translation.truncated


async def test_a_word_the_model_cannot_read_is_refused_by_name() -> None:
    async with translating() as translator:
        with pytest.raises(SentenceTooLong, match="101 tokens; the model reads at most 64"):
            await translator.translate(request("kurz " + "a" * 100))


async def test_long_requests_are_prepared_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[str] = set()

    def noting(text: str, language: str, limit: TokenLimit) -> SegmentedText:
        threads.add(threading.current_thread().name)
        return segment(text, language, limit)

    monkeypatch.setattr("service.translation.translator.segment", noting)
    async with translating() as translator:
        await translator.translate(request("kurz."))
        assert threads == {threading.current_thread().name}
        await translator.translate(request("\n".join(["."] * 5000)))
    assert len(threads) == 2


async def test_a_language_into_itself_is_untouched() -> None:
    async with translating() as translator:
        pair = translator.pair("DE", "de")
        (translation,) = await translator.translate(TranslateRequest(("Ja.",), pair))
    assert (translation.text, translation.model) == ("Ja.", None)


async def test_half_a_surrogate_pair_is_refused_by_its_text() -> None:
    async with translating() as translator:
        with pytest.raises(InvalidText, match="text 2 is not valid Unicode"):
            await translator.translate(request("gut", "\ud83d"))


@given(st.lists(st.sampled_from([*"abc .!?,\n\t\r\u00a0😀", "das ist "]), max_size=40).map("".join))
def test_everything_but_the_sentences_comes_back_exactly(text: str) -> None:
    async def shout() -> str:
        async with translating() as translator:
            return (await translator.translate(request(text)))[0].text

    assert asyncio.run(shout()) == text.upper()
