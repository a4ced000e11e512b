"""Word alignment and confidence of a translation, from one teacher-forced pass over it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from service.catalogue.loaded_model import DirectedModel, LoadedModel, Tokenizer
from service.runtime.backend import AttentionMaps
from service.text.alignment import Alignment, Side, Span, align_words
from service.text.confidence import Confidence, confidence_of
from service.text.text_edits import Edit, moved
from service.text.words import words
from service.translation.decoder import ForcedPass
from service.translation.types import TranslatedSentence


def written_ids(directed: DirectedModel, target_ids: tuple[int, ...]) -> tuple[int, ...]:
    """The tokens that the decoder reads after ``bos``."""
    # A target of the network's full length leaves no room for bos in front of it.
    longest = directed.model.manifest.limits.target_length - 1
    return directed.written(target_ids)[:longest]


def forced_pass_of(model: LoadedModel, maps: AttentionMaps) -> ForcedPass:
    """The means and probabilities of all maps that alignments and confidences need."""
    source = model.manifest.alignment_source
    cross_HTS = maps.cross_LHTS[source.layer]
    cross_TS = cross_HTS.mean(0) if source.head is None else cross_HTS[source.head]
    return ForcedPass(cross_TS, maps.log_probs_T, maps.entropies_T)


def have_words(source_text: str, target_text: str) -> bool:
    """Whether both texts have words. Without words, an alignment needs no pass."""
    return bool(words(source_text) and words(target_text))


def align(
    directed: DirectedModel,
    forced: ForcedPass | None,
    source_ids: tuple[int, ...],
    target_ids: tuple[int, ...],
    source_text: str,
    target_text: str,
) -> Alignment:
    """The word alignment of two texts by the model's cross-attention.

    The ids encode the texts; those of the target may also be ids that decode to ``target_text``.
    Prefixes belong to no word. ``forced`` may be ``None`` unless both texts have words.
    """
    source_words, target_words = words(source_text), words(target_text)
    if not source_words or not target_words:
        nothing = np.zeros((len(target_words), len(source_words)), np.float32)
        return Alignment(source_words, target_words, nothing)
    assert forced is not None
    source_spans = directed.source_spans(source_text)
    if len(source_spans) != directed.text_tokens(source_ids):
        raise ValueError("source_ids are not the prefix, the tokens of source_text and eos")
    first_row = len(directed.direction.target_prefix)
    first_column = len(directed.direction.source_prefix)
    target_spans = target_spans_of(directed.model.tokenizers.target, target_text, target_ids)
    cross_TS = forced.cross_TS[first_row:, first_column:]
    if not directed.direction.source_eos:
        # The column of eos, which an alignment ignores.
        cross_TS = np.pad(cross_TS, ((0, 0), (0, len(source_spans) + 1 - cross_TS.shape[1])))
    return align_words(
        cross_TS,
        Side(source_words, source_spans),
        Side(target_words, target_spans[: len(written_ids(directed, target_ids)) - first_row]),
        shifted=directed.model.manifest.alignment_source.shifted,
    )


def target_spans_of(
    tokenizer: Tokenizer, target_text: str, target_ids: tuple[int, ...]
) -> tuple[Span, ...]:
    """Characters of each token of a text; raises ``ValueError`` for tokens of another text."""
    if tokenizer.decode(target_ids) == target_text:
        return tokenizer.decoded_spans(target_ids)
    if tokenizer.encode(target_text) == target_ids:
        return tokenizer.spans(target_text)
    raise ValueError("target_ids are not the tokens of target_text")


def sentence_confidence(
    directed: DirectedModel, forced: ForcedPass, sentence: TranslatedSentence
) -> Confidence:
    """The confidence of a sentence without markup."""
    decoded_spans = directed.model.tokenizers.target.decoded_spans(sentence.target_ids)
    text = sentence.hypotheses[0]
    spans = moved(decoded_spans, sentence.edits)
    if text != sentence.target:
        # A given beginning has its own blanks.
        edits = [_difference(sentence.target, text)]
        spans = tuple(span and moved([span], edits)[0] for span in spans)
    return confidence(directed, forced, sentence.target_ids, text, spans)


def confidence(
    directed: DirectedModel,
    forced: ForcedPass,
    target_ids: tuple[int, ...],
    text: str,
    spans: Sequence[Span | None],
) -> Confidence:
    """The confidence of ``text``, whose tokens have ``spans``; it lacks those without one."""
    free = len(directed.direction.target_prefix)
    # A truncated translation may have one token more than the graph reads.
    read = range(min(len(spans), len(written_ids(directed, target_ids)) - free))
    kept = [(token + free, span) for token in read if (span := spans[token]) is not None]
    at = [token for token, _ in kept]
    return confidence_of(
        text,
        [span for _, span in kept],
        forced.log_probs_T[at].tolist(),
        None if forced.entropies_T is None else forced.entropies_T[at].tolist(),
    )


def _difference(text: str, other: str) -> Edit:
    """The shortest edit that turns one text into the other."""
    start = _common(text, other)
    same = _common(text[start:][::-1], other[start:][::-1])
    return Edit(start, len(text) - same, other[start : len(other) - same])


def _common(text: str, other: str) -> int:
    """The number of characters with which both texts begin."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False))
    )
