from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.types import DecodingOptions, FinishReason
from service.inspection.translation_store import TranslationStore, UnknownTranslation, size_of
from service.text.types import LanguagePair
from service.translation.types import Leg, TranslatedSentence, Translation

PAIR = LanguagePair("de", "en")


def make(characters: int = 40, tokens: int = 12, sentences: int = 1, seed: int = 0) -> Translation:
    """A translation whose parts share no objects."""

    def text(n: int) -> str:
        return chr(0x391 + (seed + n) % 20) * characters

    def ids(n: int) -> tuple[int, ...]:
        return tuple(range(1000 + n + seed, 1000 + n + seed + tokens))

    done = tuple(
        TranslatedSentence(
            source=text(2 * n),
            target=text(2 * n + 1),
            source_ids=ids(n),
            target_ids=ids(-n),
            hypotheses=(text(2 * n + 2),),
            scores=(-0.5 - n,),
            finish_reason=FinishReason.COMPLETE,
            options=DecodingOptions(target_prefix=ids(n)[:3], max_decoding_length=300 + n),
        )
        for n in range(sentences)
    )
    separators = ("", *[" "] * (sentences - 1), "")
    return Translation(PAIR, (Leg("m", "1", PAIR, separators, done, tokens * sentences),))


def test_stored_translations_are_found_by_their_id() -> None:
    store = TranslationStore(1)
    translations = [make(seed=1), make(seed=2)]
    one, other = store.put(translations), store.put([make(seed=3)])
    assert one != other
    assert store.get(one) == tuple(translations)
    assert store.get(other) == (make(seed=3),)


def test_unknown_id_error_names_the_remedy() -> None:
    with pytest.raises(UnknownTranslation, match=r"no translation abc.*POST /attention"):
        TranslationStore(1).get("abc")
    with pytest.raises(UnknownTranslation) as caught:
        TranslationStore(1).get("x" * 10_000)
    assert len(str(caught.value)) < 250


def test_least_recently_used_translations_are_evicted_first() -> None:
    store = TranslationStore(1)
    first, second = store.put([make()]), store.put([make()])
    for _ in range((1 << 20) // size_of([make()]) - 2):
        store.put([make()])
    store.get(first)
    store.put([make()])
    assert store.get(first)
    with pytest.raises(UnknownTranslation):
        store.get(second)


def test_entry_larger_than_the_store_is_not_kept_and_evicts_no_entry() -> None:
    changes: list[dict[str, Any]] = []
    store = TranslationStore(1, lambda **facts: changes.append(facts))
    small = store.put([make()])
    large = store.put([make(characters=1 << 20)])
    with pytest.raises(UnknownTranslation):
        store.get(large)
    assert store.get(small)
    assert changes[-1] == {"entries": 1, "size": size_of([make()]), "evicted": 0}


@given(st.lists(st.integers(1, 120_000), max_size=30))
def test_the_bound_holds_and_the_latest_that_fit_are_kept(lengths: list[int]) -> None:
    changes: list[dict[str, Any]] = []
    store = TranslationStore(1, lambda **facts: changes.append(facts))
    kept = [(store.put([translation]), translation) for translation in map(make, lengths)]
    assert all(change["size"] <= 1 << 20 for change in changes)
    size = 0
    for translation_id, translation in reversed(kept):
        if size_of([translation]) > 1 << 20:
            continue
        size += size_of([translation])
        if size > 1 << 20:
            break
        assert store.get(translation_id) == (translation,)


@pytest.mark.parametrize(
    "shape", [(40, 12, 1), (400, 120, 1), (60, 15, 50)], ids=["short", "long", "many"]
)
def test_size_estimate_is_near_the_measured_memory(shape: tuple[int, int, int]) -> None:
    if sys.implementation.name != "cpython":
        pytest.skip("estimates are CPython's")
    make(*shape)
    tracemalloc.start()
    kept = [make(*shape, seed=seed) for seed in range(50)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    estimated = sum(size_of([translation]) for translation in kept)
    assert taken * 0.8 < estimated < taken * 4
