"""Forces the beginning of a translation, given as text. Blocks."""

from __future__ import annotations

from dataclasses import replace

from service.catalogue.loaded_model import DirectedModel
from service.text.markup import Fragment, Markup
from service.text.segmentation import Splitting
from service.translation.errors import InvalidOption
from service.translation.preparing import Sentence, Text
from service.translation.target_sentences import divide

_TOKENS_BEYOND = 20
"""Tokens that a sentence may have after a beginning, at least."""


def begun(
    text: Text, prefix: str, directed: DirectedModel, splitting: Splitting, markup: Markup
) -> Text:
    """The text whose translation begins with ``prefix``.

    Sentences that ``prefix`` translates become a part of the first separator. Raises
    ``InvalidOption`` for a beginning longer than the model writes, or of a text without sentences.
    """
    if not text.sentences:
        raise InvalidOption("prefix needs a text that is translated; this one is copied")
    beginning = divide(prefix, text, directed, splitting, markup)
    first, *others = text.sentences[beginning.source :]
    sentence = begun_sentence(first, beginning.fragment, directed)
    if not sentence.options.samples:
        sentence = _completable(sentence, directed)
    separators = beginning.before, *text.separators[beginning.source + 1 :]
    return Text(separators, (sentence, *others))


def begun_sentence(sentence: Sentence, fragment: Fragment, directed: DirectedModel) -> Sentence:
    """The sentence whose translation begins with ``fragment``; raises ``InvalidOption``."""
    token_ids = directed.model.tokenizers.target.encode(fragment.text)
    longest = directed.model.manifest.limits.target_length
    written = directed.written(token_ids)
    if len(written) >= longest:
        raise InvalidOption(
            f"the beginning of the translation has {len(written)} tokens in one sentence; the "
            f"model writes at most {longest}"
        )
    options = replace(
        sentence.options,
        target_prefix=written,
        max_decoding_length=min(
            longest, max(sentence.options.max_decoding_length, len(written) + _TOKENS_BEYOND)
        ),
    )
    return replace(sentence, options=options, prefix=fragment.text, beginning=fragment)


def _completable(sentence: Sentence, directed: DirectedModel) -> Sentence:
    """The sentence, whose beginning may go on within its last word.

    Other tokens may then stand for that word.
    """
    token_ids = sentence.options.target_prefix[len(directed.written(())) :]
    completions = directed.model.vocabulary().completions(token_ids, sentence.prefix)
    return replace(sentence, options=replace(sentence.options, completions=completions))
