"""Text of a hypothesis: replaces unknown tokens and removes an added full stop."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.types import Hypothesis
from service.translation.alignment import Alignment
from service.translation.attention import TokenPair, align
from service.translation.edits import Edit, Edited, applied, edited, original_position
from service.translation.loaded_model import DirectedModel, Tokenizer
from service.translation.preparing import Sentence
from service.translation.unknown_tokens import (
    Replacement,
    match_unknown,
    replace_unknown,
    unknown_in,
)

_FINAL = frozenset(
    ".!?…:;\u203c\u2047\u2048\u2049"
    "\u3002\uff61\uff0e\uff01\uff1f\uff1a\uff1b"  # Chinese and Japanese
    "\u061b\u061f\u06d4\u0964\u0965\u0589\u1362"  # Arabic, Devanagari, Armenian, Ethiopic
)
_FULL_STOPS = frozenset(".\u3002\uff61\uff0e")
_ABBREVIATION = re.compile(r"(?:.*[^\w.])?(?:[^\W\d_]{1,2}\.){2,}", re.DOTALL)
"""Matches a text that ends with an abbreviation such as U.S. or p.m."""


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text of a hypothesis, without markup."""

    decoded: str
    """Output of the tokenizer, before ``edits``."""
    edits: tuple[Edit, ...] = ()
    alignment: Alignment | None = None
    """Of ``decoded``, if it has been computed."""

    @property
    def text(self) -> str:
        return applied(self.decoded, self.edits)


async def output_text(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    prefix: str,
    caller: str = "",
) -> OutputText:
    """The text of a hypothesis without unknown tokens.

    ``prefix`` is the forced beginning; unknown tokens in it stand for its own characters. Runs the
    attention graph if there are more unknown tokens and the source has characters for them. Raises
    the errors of ``AttentionReader.read``.
    """
    tokenizers, token_ids = directed.model.tokenizers, hypothesis.token_ids
    unk = directed.model.manifest.special_ids.unk
    decoded = tokenizers.target.decode(token_ids)
    if unk not in token_ids:
        return OutputText(decoded)
    spans = tokenizers.target.decoded_spans(token_ids)
    places = [span for span, token_id in zip(spans, token_ids, strict=True) if token_id == unk]
    replacements: dict[tuple[int, int], Replacement] = {}
    prefix_ids = tokenizers.target.encode(prefix)
    if token_ids[: len(prefix_ids)] == prefix_ids:
        for token in tokenizers.target.unknown(prefix):
            replacements[spans[token.index]] = Replacement(token.text)
    alignment = None
    open_places = [place for place in places if place not in replacements]
    found = unknown_in(sentence.text, tokenizers)
    if open_places and found:
        tokens = TokenPair(directed, sentence.source_ids, token_ids, caller)
        alignment = await align(tokens, sentence.text, decoded)
        replacements |= match_unknown(open_places, found, alignment)
    return OutputText(decoded, replace_unknown(decoded, places, replacements), alignment)


def with_beginning(
    output: OutputText, token_ids: Sequence[int], beginning: str, tokenizer: Tokenizer
) -> OutputText:
    """The output with the characters of ``beginning`` where its tokens spell them differently.

    ``token_ids`` are those of the output. Normalisation and unknown characters change a text.
    """
    if output.text.startswith(beginning):
        return output
    count = len(tokenizer.encode(beginning))
    spans = tokenizer.decoded_spans(tuple(token_ids))
    end = spans[count - 1][1] if count else 0
    later = [edit for edit in output.edits if edit.start >= end]
    return OutputText(output.decoded, (Edit(0, end, beginning), *later), output.alignment)


def without_added_full_stop(output: OutputText, sentence: Sentence, prefix: str) -> OutputText:
    """The output without a final full stop that the source lacks.

    A full stop of ``prefix`` or of a glossary term is kept. With scores every full stop is kept,
    because the score includes it.
    """
    text = output.text
    if sentence.options.return_scores or any(
        text.endswith(s.term.target) for s in sentence.occurrences
    ):
        return output
    found = added_full_stop(sentence.text, text)
    if found is None or found < len(prefix):
        return output
    position = original_position(output.edits, found)
    if position is None:
        return output
    edits = sorted((*output.edits, Edit(position, position + 1, "")), key=lambda edit: edit.start)
    return OutputText(output.decoded, tuple(edits), output.alignment)


async def aligned(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    output: OutputText,
    caller: str = "",
) -> Edited:
    """The text of the output and its word alignment with the source."""
    alignment = output.alignment
    if alignment is None:
        tokens = TokenPair(directed, sentence.source_ids, hypothesis.token_ids, caller)
        alignment = await align(tokens, sentence.text, output.decoded)
    return edited(output.decoded, alignment, output.edits)


def added_full_stop(source: str, target: str) -> int | None:
    """The offset of a final full stop in ``target`` that ``source`` lacks, or ``None``.

    Closing quotation marks and brackets may follow it. The result is ``None`` if the source ends
    with a mark that ends sentences or clauses (``. ! ? … : ;``). The dots of an ellipsis, of an
    abbreviation (``U.S.``), and of an ordinal number (``der 3.`` for ``the third``) do not count.
    """
    end = _without_closing(target)
    if end < 2 or target[end - 1] not in _FULL_STOPS:
        return None
    before = target[end - 2]
    source_end = _without_closing(source)
    if source_end and source[source_end - 1] in _FINAL:
        return None
    if before.isspace() or before in _FINAL or _ABBREVIATION.fullmatch(target[:end]):
        return None
    if before.isdecimal() and not (source_end and source[source_end - 1].isdecimal()):
        return None
    return end - 1


def ends_sentence(text: str) -> bool:
    """Whether a text ends with a mark that ends sentences or clauses."""
    end = _without_closing(text)
    return bool(end) and text[end - 1] in _FINAL


def _without_closing(text: str) -> int:
    """The end of a text before trailing blanks, closing quotation marks and closing brackets."""
    end = len(text)
    while end and (
        text[end - 1].isspace()
        or text[end - 1] in "\"'"
        or unicodedata.category(text[end - 1]) in ("Pe", "Pf", "Pi")
    ):
        end -= 1
    return end
