"""Writes the translation of a decoded sentence: characters, glossary terms, markup. Strings only.

Some hypotheses need the word alignment, from one teacher-forced pass each: those with markup, with
glossary terms, or with unknown tokens that stand for characters of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from models.bundle.tokenizer import UnknownToken
from service.catalogue.loaded_model import DirectedModel, Tokenizer
from service.engine.types import Decoded, DecodingOptions, FinishReason, Hypothesis
from service.text.alignment import Alignment, Span
from service.text.capitals import lost_capital
from service.text.faithfulness import added_full_stop, closest_by_figures, corrected_time
from service.text.glossary.term_insertion import insert_terms
from service.text.text_edits import Edit, applied, edited, original_position
from service.translation.decoder import Decoder, ForcedPass
from service.translation.forced_pass import align, have_words, written_ids
from service.translation.preparing import Sentence
from service.translation.types import TranslatedSentence
from service.translation.unknown_tokens import (
    Replacement,
    match_unknown,
    replace_unknown,
    spelled_out,
    unknown_in,
)


@dataclass(frozen=True, slots=True)
class SentenceOutput:
    """A hypothesis as text: with ``edits`` applied, but without terms and markup."""

    decoded: str
    """Output of the tokenizer, before ``edits``."""
    edits: tuple[Edit, ...] = ()
    alignment: Alignment | None = None
    """Word alignment of the source and ``decoded``, if it has been computed."""

    @property
    def text(self) -> str:
        return applied(self.decoded, self.edits) if self.edits else self.decoded


def chosen(
    directed: DirectedModel, sentence: Sentence, options: DecodingOptions, decoded: Decoded
) -> Decoded:
    """An engine's result without the direction's prefix, best hypothesis by the figures first."""
    if forced := options.forced_prefix_length:
        hypotheses = (replace(h, token_ids=h.token_ids[forced:]) for h in decoded.hypotheses)
        decoded = replace(decoded, hypotheses=tuple(hypotheses))
    if options.all_finished:
        return _best_by_figures(sentence.text, decoded, directed.model.tokenizers.target)
    return decoded


def _best_by_figures(source: str, decoded: Decoded, tokenizer: Tokenizer) -> Decoded:
    """The hypothesis that keeps the figures of the source, of a search for one hypothesis."""
    texts = (tokenizer.decode(each.token_ids) for each in decoded.hypotheses)
    number = closest_by_figures(source, texts)
    best = (decoded.hypotheses[number],)
    if number:
        return replace(decoded, hypotheses=best, finish_reason=FinishReason.COMPLETE)
    return replace(decoded, hypotheses=best)


async def forced_passes(
    directed: DirectedModel, sentence: Sentence, decoded: Decoded, decoder: Decoder
) -> list[ForcedPass | None]:
    """A teacher-forced pass for each hypothesis that needs one; ``None`` for the others.

    Raises the errors of ``Decoder.teacher_force``.
    """
    return [
        await decoder.teacher_force(
            directed.model, sentence.source_ids, written_ids(directed, hypothesis.token_ids)
        )
        if needs_pass(directed, sentence, hypothesis)
        else None
        for hypothesis in decoded.hypotheses
    ]


def needs_pass(directed: DirectedModel, sentence: Sentence, hypothesis: Hypothesis) -> bool:
    """Whether the word alignment of a hypothesis decides how it is written."""
    if sentence.needs_alignment:
        target = directed.model.tokenizers.target
        return have_words(sentence.text, target.decode(hypothesis.token_ids))
    if directed.model.manifest.special_ids.unk not in hypothesis.token_ids:
        return False
    unknown = _Unknown.of(directed, sentence, hypothesis, sentence.prefix)
    return bool(unknown.open and unknown.found)


def translated_sentence(
    directed: DirectedModel,
    sentence: Sentence,
    decoded: Decoded,
    options: DecodingOptions,
    passes: Sequence[ForcedPass | None],
) -> TranslatedSentence:
    """The translation of a sentence that ``chosen`` returned, decoded with ``options``.

    ``passes`` are those of ``forced_passes``.
    """
    outputs = [
        sentence_output(directed, sentence, hypothesis, sentence.prefix, forced)
        for hypothesis, forced in zip(decoded.hypotheses, passes, strict=True)
    ]
    rendered = [
        rendered_text(directed, sentence, hypothesis, output, forced)
        for hypothesis, output, forced in zip(decoded.hypotheses, outputs, passes, strict=True)
    ]
    return TranslatedSentence(
        source=sentence.text,
        target=outputs[0].text,
        source_ids=sentence.source_ids,
        target_ids=decoded.hypotheses[0].token_ids,
        hypotheses=tuple(rendered),
        scores=tuple(hypothesis.score for hypothesis in decoded.hypotheses),
        finish_reason=decoded.finish_reason,
        options=options,
        match=sentence.match,
        edits=outputs[0].edits,
        durations=decoded.durations,
    )


def sentence_output(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    prefix: str,
    forced: ForcedPass | None,
) -> SentenceOutput:
    """The text of a hypothesis as users get it, but for glossary terms and markup.

    ``prefix`` is the forced beginning; unknown tokens in it stand for its own characters.
    """
    output = _without_unknown(directed, sentence, hypothesis, prefix, forced)
    output = _with_beginning(output, hypothesis.token_ids, sentence.beginning.text, directed)
    output = _with_corrected_time(output, sentence, prefix)
    output = _without_added_full_stop(output, sentence, prefix)
    return output if prefix or not sentence.capital else _with_capital(output, sentence.text)


def rendered_text(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    output: SentenceOutput,
    forced: ForcedPass | None,
) -> str:
    """The text of a hypothesis with its glossary terms and the markup of the source."""
    beginning = sentence.beginning
    if not sentence.needs_alignment:
        return sentence.marked.render(output.text, None, beginning=beginning)
    alignment = output.alignment
    if alignment is None:
        alignment = _aligned(directed, sentence, hypothesis, output.decoded, forced)
    found = edited(output.decoded, alignment, output.edits)
    if sentence.occurrences:
        prefix = spelled_out(sentence.prefix, directed.model.tokenizers.target)
        found = insert_terms(found.text, sentence.occurrences, found.alignment, prefix)
    return sentence.marked.render(found.text, found.alignment, found.written, beginning)


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The unknown tokens of a hypothesis."""

    places: list[Span]
    """Spans of the decoded text."""
    known: dict[Span, Replacement]
    """Replacements of the tokens that the forced beginning has."""
    found: tuple[UnknownToken, ...]
    """Tokens of the source for characters that a vocabulary lacks."""

    @property
    def open(self) -> list[Span]:
        """Places that only the word alignment can fill."""
        return [place for place in self.places if place not in self.known]

    @classmethod
    def of(
        cls, directed: DirectedModel, sentence: Sentence, hypothesis: Hypothesis, prefix: str
    ) -> _Unknown:
        tokenizers, token_ids = directed.model.tokenizers, hypothesis.token_ids
        unk = directed.model.manifest.special_ids.unk
        spans = tokenizers.target.decoded_spans(token_ids)
        places = [span for span, token_id in zip(spans, token_ids, strict=True) if token_id == unk]
        known: dict[Span, Replacement] = {}
        prefix_ids = tokenizers.target.encode(prefix)
        if token_ids[: len(prefix_ids)] == prefix_ids:
            for token in tokenizers.target.unknown(prefix):
                known[spans[token.index]] = Replacement(token.text)
        return cls(places, known, unknown_in(sentence.text, tokenizers))


def _without_unknown(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    prefix: str,
    forced: ForcedPass | None,
) -> SentenceOutput:
    decoded = directed.model.tokenizers.target.decode(hypothesis.token_ids)
    if directed.model.manifest.special_ids.unk not in hypothesis.token_ids:
        return SentenceOutput(decoded)
    unknown = _Unknown.of(directed, sentence, hypothesis, prefix)
    replacements, alignment = unknown.known, None
    if unknown.open and unknown.found:
        alignment = _aligned(directed, sentence, hypothesis, decoded, forced)
        replacements = replacements | match_unknown(unknown.open, unknown.found, alignment)
    return SentenceOutput(
        decoded, replace_unknown(decoded, unknown.places, replacements), alignment
    )


def _with_beginning(
    output: SentenceOutput, token_ids: Sequence[int], beginning: str, directed: DirectedModel
) -> SentenceOutput:
    """The output with the characters of ``beginning`` where its tokens spell them differently.

    ``token_ids`` are those of the output. Normalisation and unknown characters change a text.
    """
    if not beginning or output.text.startswith(beginning):
        return output
    tokenizer = directed.model.tokenizers.target
    count = len(tokenizer.encode(beginning))
    spans = tokenizer.decoded_spans(tuple(token_ids))
    end = spans[count - 1][1] if count else 0
    later = [edit for edit in output.edits if edit.start >= end]
    return SentenceOutput(output.decoded, (Edit(0, end, beginning), *later), output.alignment)


def _with_corrected_time(output: SentenceOutput, sentence: Sentence, prefix: str) -> SentenceOutput:
    """The output with the time of day of the source, but for times in ``prefix``.

    With scores it stays, because the score is that of what was written.
    """
    found = None if sentence.options.return_scores else corrected_time(sentence.text, output.text)
    if found is None or found.start < len(prefix):
        return output
    return _with_edit(output, found)


def _without_added_full_stop(
    output: SentenceOutput, sentence: Sentence, prefix: str
) -> SentenceOutput:
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
    return _with_edit(output, Edit(found, found + 1, ""))


def _with_capital(output: SentenceOutput, source: str) -> SentenceOutput:
    """The output with a capital letter at the beginning."""
    text = output.text
    found = lost_capital(source, text)
    if found is None:
        return output
    return _with_edit(output, Edit(found, found + 1, text[found].title()))


def _with_edit(output: SentenceOutput, edit: Edit) -> SentenceOutput:
    """The output after an edit of its text, or as it was if an earlier edit has written there."""
    places = edit.start, edit.end - 1
    first, last = (original_position(output.edits, place) for place in places)
    if first is None or last is None or last - first != places[1] - places[0]:
        return output
    moved = replace(edit, start=first, end=last + 1)
    edits = sorted((*output.edits, moved), key=lambda each: each.start)
    return SentenceOutput(output.decoded, tuple(edits), output.alignment)


def _aligned(
    directed: DirectedModel,
    sentence: Sentence,
    hypothesis: Hypothesis,
    decoded: str,
    forced: ForcedPass | None,
) -> Alignment:
    return align(
        directed, forced, sentence.source_ids, hypothesis.token_ids, sentence.text, decoded
    )
