"""The beginning of a translation is kept character by character, whatever it is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.text.markup import Markup
from service.text.markup.types import PLAIN
from service.translation.errors import InvalidOption
from service.translation.local_translator import LocalTranslator
from service.translation.types import TranslateRequest
from tests.translation.test_translator import translating

HTML = Markup("html")
TEXTS = (
    "zwei hunde. ein haus!\nder baum",
    "  das ist so. ja",
    "eins\n\n12\nzwei drei. vier",
    "siehe https://example.org/x dort {name} und hier. gut so.",
    "ein satz",
)
MARKED = (
    "<p>zwei <b>hunde</b>. ein haus!</p><p>der <i>alte</i> baum</p>",
    "<p>ein <b>sehr <i>alter</i></b> baum &amp; mehr</p>",
    'so <a href="x">ist das</a>. ja<br>nein',
)
NONSENSE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


async def translated(
    translator: LocalTranslator, text: str, prefix: str = "", markup: Markup = PLAIN
) -> str:
    request = TranslateRequest((text,), "en", "de", prefix=prefix, markup=markup)
    (translation,) = await translator.translate(request)
    return translation.text


def check(drawn: Sequence[tuple[str, str]], markup: Markup = PLAIN) -> None:
    async def run() -> None:
        async with translating() as translator:
            alone = [await translated(translator, *each, markup) for each in drawn]
            together = await asyncio.gather(*(translated(translator, *e, markup) for e in drawn))
        assert alone == together
        for (_, prefix), translation in zip(drawn, alone, strict=True):
            assert translation.startswith(prefix)

    asyncio.run(run())


@st.composite
def beginnings(draw: st.DrawFn, texts: Sequence[str]) -> str:
    """A beginning of what the model makes of a text."""
    whole = draw(st.sampled_from(texts)).upper()
    return whole[: draw(st.integers(1, len(whole)))]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(TEXTS), beginnings(TEXTS) | NONSENSE), min_size=1, max_size=3
    )
)
def test_any_beginning_is_kept_alone_and_in_a_batch(drawn: list[tuple[str, str]]) -> None:
    check(drawn)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(MARKED), beginnings(TEXTS) | NONSENSE | st.sampled_from(MARKED)),
        min_size=1,
        max_size=2,
    )
)
def test_any_beginning_is_kept_with_markup(drawn: list[tuple[str, str]]) -> None:
    check(drawn, HTML)


@pytest.mark.parametrize("text", [*TEXTS, *MARKED])
async def test_every_beginning_of_the_own_translation_leads_to_it(text: str) -> None:
    markup = HTML if text in MARKED else PLAIN
    async with translating() as translator:
        whole = await translated(translator, text, markup=markup)
        solid = [match.span() for match in re.finditer(r"<.*?>|&.*?;|https:\S+|\{.*?\}", whole)]
        for length in range(1, len(whole), 2):
            if not any(start < length < end for start, end in solid):
                found = await translated(translator, text, whole[:length], markup)
                assert found == whole, whole[:length]


async def test_other_sentences_are_translated_after_another_beginning() -> None:
    async with translating() as translator:
        text = "eins zwei. Drei vier.\nacht"
        assert await translated(translator, text, "Q. ") == "Q. DREI VIER.\nACHT"
        assert (await translated(translator, text, "Q. XY")).startswith("Q. XY")
        assert (await translated(translator, text, "Q\n")) == "Q\nDREI VIER.\nACHT"


async def test_tags_of_the_beginning_are_not_written_again() -> None:
    async with translating() as translator:
        text = "das <b>alte</b> <i>haus</i> da"
        for prefix in ("X <b>YY</b>", "X <b>YY", "XX <i>Y</i> ", "<b><i>"):
            found = await translated(translator, text, prefix, HTML)
            assert found.startswith(prefix)
            for tag in ("<b>", "</b>", "<i>", "</i>"):
                assert found.count(tag) == 1, (prefix, found)


async def test_impossible_beginnings_are_refused_by_name() -> None:
    async with translating() as translator:
        with pytest.raises(InvalidOption, match="beginning of the translation has 200 tokens"):
            await translated(translator, "ein satz", "x" * 200)
        with pytest.raises(InvalidOption, match="prefix needs a text that is translated"):
            await translated(translator, "12", "x")
        with pytest.raises(InvalidOption, match="prefix needs two languages"):
            await translator.translate(TranslateRequest(("a",), "de", "de", prefix="x"))
