from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.tokenizer import Span
from models.text import visible
from service.catalogue.errors import UnknownModel, UnsupportedPair
from service.engine.errors import BackendFailed, SentenceTooLong
from service.text.markup import Markup
from service.text.segmentation import Splitting, TokenLimit, segment
from service.text.types import Detection, LanguagePair, Term
from service.translation.decoding import DecodingOverrides
from service.translation.errors import (
    DeadlineExceeded,
    InvalidOption,
    Overloaded,
    TextTooLarge,
    UndetectedLanguage,
)
from service.translation.local_translator import LocalTranslator
from service.translation.request_reader import WrittenSentences
from service.translation.tasks import deadline
from service.translation.types import Part, TranslateRequest
from tests.engine.watching import GatedBackend
from tests.support.cycles import without_cycles
from tests.support.raising import raiser
from tests.support.toy import (
    ScriptedBackend,
    endless,
    make_limits,
    make_manifest,
    make_model,
    offering,
    shouting,
    translator_of,
)
from tests.support.waiting import cancelled, until

DE_EN = LanguagePair("de", "en")


@asynccontextmanager
async def translating(
    backend: ScriptedBackend | None = None,
    max_tokens: int = 10_000,
    pairs: Sequence[str] = ("de-en",),
    result_bytes: int = 0,
) -> AsyncIterator[LocalTranslator]:
    models = [
        await make_model(
            make_manifest(f"shout-{pair}", *pair.split("-")), backend, result_bytes=result_bytes
        )
        for pair in pairs
    ]
    async with offering(*models) as repository:
        try:
            yield translator_of(repository, max_tokens)
        finally:
            if isinstance(backend, GatedBackend):
                # After a failed assertion, the engine thread must not wait for ever.
                backend.gate.set()


def gated() -> GatedBackend:
    return GatedBackend(shouting, make_limits())


def broken(error: Exception) -> ScriptedBackend:
    """A backend whose steps raise this error."""
    backend = ScriptedBackend(shouting, make_limits())
    backend.step = raiser(error)  # type: ignore[method-assign]
    return backend


def request(*texts: str, **decoding: int) -> TranslateRequest:
    return TranslateRequest(texts, "en", "de", decoding=DecodingOverrides(**decoding))


async def test_translations_are_in_order_and_keep_the_text_around_sentences() -> None:
    async with translating() as translator:
        translations = await translator.translate(request(" ja.\r\n\r\n\tnein!\u00a0", "", "so"))
    assert [t.text for t in translations] == [" JA.\r\n\r\n\tNEIN!\u00a0", "", "SO"]


async def test_translation_has_model_pair_and_token_counts() -> None:
    async with translating() as translator:
        (translation,) = await translator.translate(request("abc.\nde."))
    assert (translation.model, translation.pair) == ("shout-de-en", DE_EN)
    assert (translation.source_tokens, translation.target_tokens) == (7, 7)
    assert not translation.truncated


async def test_alternatives_are_the_other_hypotheses() -> None:
    async with translating() as translator:
        (translation,) = await translator.translate(request("ab", num_hypotheses=3))
    assert translation.text == "AB"
    assert len(translation.alternatives) == 2
    assert {"aB", "Ab"} & set(translation.alternatives)


async def test_alternatives_have_no_duplicates() -> None:
    async with translating() as translator:
        (translation,) = await translator.translate(request("!", num_hypotheses=3))
    assert (translation.text, translation.alternatives) == ("!", ())


async def test_truncated_translation_is_flagged() -> None:
    async with translating(ScriptedBackend(endless, make_limits())) as translator:
        (translation,) = await translator.translate(request("a", max_decoding_length=5))
        whole, cut = await translator.translate(request("!", "a"))
    assert (translation.text, translation.truncated) == ("xxxxx", True)
    assert (whole.truncated, cut.truncated) == (False, True)


async def test_a_request_is_admitted_whole_or_not_at_all() -> None:
    backend = gated()
    async with translating(backend, max_tokens=8) as translator:
        first = asyncio.create_task(translator.translate(request("a\nb\nc")))
        await until(lambda: translator.in_flight >= 6)
        with pytest.raises(Overloaded):
            await translator.translate(request("d\ne"))
        assert translator.in_flight == 6
        last = asyncio.create_task(translator.translate(request("f")))
        await until(lambda: translator.in_flight >= 8)
        backend.gate.set()
        assert (await first)[0].text == "A\nB\nC"
        assert (await last)[0].text == "F"
        assert translator.in_flight == 0


async def test_wide_beams_and_minimum_lengths_count_as_more_tokens() -> None:
    backend = gated()
    async with translating(backend, max_tokens=100, pairs=("de-en", "en-fr")) as translator:
        for asked, tokens in (
            (request("abc"), 4),
            (request("abc", beam_size=1), 4),
            # The bundle's default beam size is 2.
            (request("abc", num_hypotheses=4), 8),
            (request("abc", beam_size=3), 6),
            (request("abc", sampling_topk=5, num_hypotheses=3), 7),
            (request("abc", sampling_topk=0, num_hypotheses=3), 12),
            (request("abc", min_decoding_length=10), 10),
            (request("abc", min_decoding_length=10, beam_size=4), 20),
            # Of two legs, only the second returns several hypotheses.
            (replace(request("abc", num_hypotheses=4), target="fr"), 4 + 8),
        ):
            task = asyncio.create_task(translator.translate(asked))
            await until(lambda: translator.in_flight)
            assert translator.in_flight == tokens
            await cancelled(task)
        with pytest.raises(TextTooLarge, match="counts as 104 tokens; at most 100"):
            await translator.translate(request("a" * 51, beam_size=4))
        backend.gate.set()


async def test_single_sentence_is_not_delayed_by_a_large_request() -> None:
    backend = ScriptedBackend(shouting, make_limits(slots=8, rows_per_slot=8))
    async with translating(backend, max_tokens=100_000) as translator:
        texts = [f"satz {number:4}" for number in range(1024)]
        large = asyncio.create_task(translator.translate(request(*texts, num_hypotheses=8)))
        await until(lambda: len(backend.batch_sizes) >= 30)
        before = len(backend.batch_sizes)
        assert (await translator.translate(request("ein satz")))[0].text == "EIN SATZ"
        # Sentences admitted together finish after one step per token and one more. Then the single
        # sentence is admitted.
        assert len(backend.batch_sizes) - before <= 4 * len("satz 1024")
        assert not large.done()
        await cancelled(large)


async def test_cancelled_request_releases_its_tokens_and_slots() -> None:
    backend = gated()
    async with translating(backend) as translator:
        abandoned = asyncio.create_task(translator.translate(request("a" * 60 + "\nb")))
        await until(lambda: translator.in_flight >= 2)
        await cancelled(abandoned)
        assert translator.in_flight == 0
        backend.gate.set()
        await translator.translate(request("b"))
    assert len(backend.batch_sizes) < 10


async def test_requests_leave_nothing_to_the_garbage_collector() -> None:
    backend = gated()
    backend.gate.set()
    async with translating(backend) as translator:
        sentences = request("a\nb c\nd")
        await translator.translate(sentences)

        async def leave() -> None:
            abandoned = asyncio.create_task(translator.translate(sentences))
            await until(lambda: translator.in_flight)
            abandoned.cancel()
            with suppress(asyncio.CancelledError):
                await abandoned

        async def closed() -> None:
            async with aclosing(translator.stream(sentences)) as stream:
                waiting = asyncio.ensure_future(anext(stream))
                await until(lambda: translator.in_flight)
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    await waiting

        with without_cycles():
            await translator.translate(sentences)
        backend.gate.clear()
        with without_cycles():
            await leave()
        with without_cycles():
            await closed()
        with without_cycles(), suppress(DeadlineExceeded):
            async with deadline(0.05):
                await translator.translate(sentences)
        backend.gate.set()


async def test_failed_request_leaves_nothing_to_the_garbage_collector() -> None:
    async with translating(broken(MemoryError())) as translator:
        with without_cycles(), suppress(BackendFailed):
            await translator.translate(request("a\nb\nc"))


async def test_missed_deadline_raises_deadline_exceeded_and_releases_tokens_and_slots() -> None:
    backend = gated()
    async with translating(backend) as translator:
        with pytest.raises(DeadlineExceeded, match=r"within 0\.05 seconds"):
            async with deadline(0.05):
                await translator.translate(request("a" * 60))
        assert translator.in_flight == 0
        # The engine gets the cancellation in the next round of the event loop.
        await asyncio.sleep(0)
        backend.gate.set()
        await translator.translate(request("b"))
    assert len(backend.batch_sizes) < 10


async def test_several_failing_sentences_raise_one_backend_failed() -> None:
    async with translating(broken(RuntimeError("out of memory"))) as translator:
        with pytest.raises(BackendFailed) as caught:
            await translator.translate(request("a\nb\nc"))
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_too_long_word_raises_sentence_too_long() -> None:
    async with translating() as translator:
        with pytest.raises(SentenceTooLong, match="101 tokens; the model reads at most 64"):
            await translator.translate(request("kurz " + "a" * 100))


async def test_long_requests_are_prepared_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()

    def noting(
        text: str,
        language: str,
        limit: TokenLimit,
        splitting: Splitting,
        copied: Callable[[str], bool],
    ) -> tuple[Span, ...]:
        threads.add(threading.current_thread().name)
        return segment(text, language, limit, splitting, copied)

    monkeypatch.setattr("service.translation.preparing.segment", noting)
    async with translating() as translator:
        await translator.translate(request("kurz."))
        assert threads == {threading.current_thread().name}
        await translator.translate(request("\n".join(["."] * 5000)))
    assert len(threads) == 2


async def test_repeated_sentences_of_a_text_are_decoded_once() -> None:
    backend = ScriptedBackend(shouting, make_limits())
    async with translating(backend) as translator:
        (translation,) = await translator.translate(request("\n".join(["abc"] * 20)))
    assert translation.text == "\n".join(["ABC"] * 20)
    assert backend.encode_sizes == [1]


async def test_a_recent_sentence_is_not_decoded_again() -> None:
    backend = ScriptedBackend(shouting, make_limits())
    async with translating(backend, result_bytes=1 << 20) as translator:
        first = await translator.translate(request("abc"))
        assert await translator.translate(request("abc")) == first
        await translator.translate(request("abc", num_hypotheses=2))
    assert sum(backend.encode_sizes) == 2


async def test_a_repeated_request_is_written_once_and_anew_if_its_results_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with translating(result_bytes=1 << 20) as translator, translator.decoders.opened() as its:
        wanted = replace(request("ein <b>hund</b>"), markup=Markup("html"))
        read = await translator.stages.read(wanted)
        prepared = replace(read, written=WrittenSentences(100))
        passes, force = [], its.teacher_force

        async def counted(*arguments: Any) -> Any:
            passes.append(arguments)
            return await force(*arguments)

        monkeypatch.setattr(its, "teacher_force", counted)
        translations = [await translator.stages.translate(prepared, its) for _ in range(5)]
        # The first results have durations, which an answer shows.
        assert len(passes) == 2
        assert translations == [translations[0]] * 5
        (directed,) = prepared.groups[0].route
        (sentence,) = prepared.groups[0].texts[0].sentences
        other = directed.source_ids("ein huhn"), sentence.options
        decoded = await its.decode(directed.model, [other])

        async def decode(*arguments: Any) -> Any:
            arguments[3](0, decoded[0])
            return decoded

        monkeypatch.setattr(its, "decode", decode)
        (translation,) = await translator.stages.translate(prepared, its)
        assert translation.text == "EIN <b>HUHN</b>"
        for most, kept in ((17, False), (18, True)):
            prepared = replace(read, written=(written := WrittenSentences(most)))
            await translator.stages.translate(prepared, its)
            assert (written.of(sentence, decoded[0]) is not None) == kept


@pytest.mark.parametrize("others", [(), ("de-cs", "cs-fr")], ids=["only pivot", "preferred pivot"])
async def test_pair_without_a_direct_model_is_translated_through_english(
    others: tuple[str, ...],
) -> None:
    async with translating(pairs=[*others, "de-en", "en-fr"]) as translator:
        (translation,) = await translator.translate(TranslateRequest(("ja. so",), "fr", "de"))
    assert translation.text == "JA. SO"
    assert translation.model == "shout-de-en+shout-en-fr"
    assert [str(leg.pair) for leg in translation.legs] == ["de-en", "en-fr"]
    assert [sentence.source for sentence in translation.legs[1].sentences] == ["JA.", "SO"]


async def test_alternatives_at_a_token_cost_nothing_before_the_last_leg() -> None:
    wanted = DecodingOverrides(return_alternatives=True, num_hypotheses=4)
    pivoted = TranslateRequest(("ab",), "fr", "de", decoding=wanted)
    pairs = ["de-en", "en-fr"]
    # Three tokens: once to the pivot, then a search and four alternatives.
    async with translating(pairs=pairs, max_tokens=18) as translator:
        await translator.translate(pivoted)
    async with translating(pairs=pairs, max_tokens=17) as translator:
        with pytest.raises(TextTooLarge, match="18 tokens"):
            await translator.translate(pivoted)


async def test_model_can_be_selected_by_name() -> None:
    async with translating(pairs=["de-en", "en-de"]) as translator:
        named = replace(request("ja"), model="shout-de-en")
        assert (await translator.translate(named))[0].model == "shout-de-en"
        with pytest.raises(UnknownModel, match="no model shout; on offer: shout-de-en"):
            await translator.translate(replace(named, model="shout"))
        with pytest.raises(UnknownModel):
            await translator.translate(TranslateRequest(("ja",), "de", "de", model="shout"))
        with pytest.raises(UnsupportedPair, match="with shout-en-de"):
            await translator.translate(replace(named, model="shout-en-de"))


async def test_language_is_detected_for_each_text() -> None:
    async with translating(pairs=["de-en", "fr-en"]) as translator:
        texts = ("fr oui", "de ja", "en yes", "123")
        translations = await translator.translate(TranslateRequest(texts, "en"))
    assert [t.text for t in translations] == ["FR OUI", "DE JA", "en yes", "123"]
    assert [t.model for t in translations] == ["shout-fr-en", "shout-de-en", None, None]
    detections = [t.detection for t in translations]
    assert detections[0] == Detection("fr", 0.9)
    assert detections[3] == Detection("en", 0.0)


@pytest.mark.parametrize("texts", [("???a",), ("???a", "???b")])
async def test_request_without_any_detected_language_is_refused(texts: tuple[str, ...]) -> None:
    async with translating() as translator:
        with pytest.raises(UndetectedLanguage) as raised:
            await translator.translate(TranslateRequest(texts, "en"))
    assert raised.value.number == 1


async def test_undetected_text_among_others_is_left_as_it_is_and_marked() -> None:
    async with translating() as translator:
        translations = await translator.translate(TranslateRequest(("de ja", "???a"), "en"))
    assert [t.text for t in translations] == ["DE JA", "???a"]
    assert [t.undetected for t in translations] == [False, True]


async def test_parts_come_in_order_and_make_up_the_translations() -> None:
    texts = (" lang und laenger. kurz.\n", "", "en same", "zwei. drei!  ")
    async with translating(pairs=["de-en", "en-de"]) as translator:
        wanted = TranslateRequest(texts, "en", "de")
        streamed = [each async for each in translator.stream(wanted)]
    *parts, translations = streamed
    assert isinstance(translations, list)
    numbers = [part.text for part in parts if isinstance(part, Part)]
    assert numbers == sorted(numbers)
    for number, translation in enumerate(translations):
        own = [p.target for p in parts if isinstance(p, Part) and p.text == number]
        assert "".join(own) == translation.text


async def test_closing_a_stream_releases_its_tokens() -> None:
    backend = gated()
    async with translating(backend) as translator:
        stream = translator.stream(request("a" * 60))
        waiting = asyncio.ensure_future(anext(stream))
        await until(lambda: translator.in_flight)
        await cancelled(waiting)
        await stream.aclose()
        assert translator.in_flight == 0
        backend.gate.set()


@given(st.lists(st.sampled_from([*"abc .!?,\n\t\r\u00a0😀", "das ist "]), max_size=40).map("".join))
def test_text_around_sentences_is_reproduced_exactly(text: str) -> None:
    async def shout() -> str:
        async with translating() as translator:
            return (await translator.translate(request(text)))[0].text

    def ends(line: str) -> tuple[str, str]:
        return line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :]

    found = asyncio.run(shout())
    # Blanks within sentences are normalised.
    assert visible(found) == visible(text.upper())
    assert list(map(ends, found.splitlines(True))) == list(map(ends, text.splitlines(True)))


async def test_alternatives_at_a_token_exclude_a_glossary() -> None:
    asked = replace(request("ein hund", return_alternatives=True), terms=(Term("hund", "hound"),))
    async with translating() as translator:
        with pytest.raises(InvalidOption, match="return_alternatives excludes a glossary"):
            await translator.translate(asked)


@pytest.mark.parametrize(
    "target",
    [
        "hound",
        pytest.param("hound" * 30, id="longer than the model writes"),
        pytest.param("a {b} c", id="like a placeholder"),
    ],
)
async def test_every_hypothesis_has_the_glossary_term_once(target: str) -> None:
    terms = (Term("hund", target), *(Term(f"x{number}", "y") for number in range(99)))
    async with translating() as translator:
        (translation,) = await translator.translate(
            replace(
                request("ein <b>hund</b> {name} und eine katze", num_hypotheses=2),
                terms=terms,
                markup=Markup("html"),
            )
        )
    assert len(translation.hypotheses) == 2
    for text in translation.hypotheses:
        assert text.count(target) == 1
        assert text.count("{name}") == text.count("<b>") == text.count("</b>") == 1
