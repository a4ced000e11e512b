"""Forces the beginning of a translation, given as text. Blocks."""

from __future__ import annotations

from dataclasses import replace

from service.translation.errors import InvalidOption
from service.translation.loaded_model import DirectedModel
from service.translation.markup import Fragment, Markup
from service.translation.preparing import Sentence, Text
from service.translation.segmentation import Splitting
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
    sentence, *others = text.sentences[beginning.source :]
    separators = beginning.before, *text.separators[beginning.source + 1 :]
    return Text(separators, (begun_sentence(sentence, beginning.fragment, directed), *others))


def begun_sentence(sentence: Sentence, fragment: Fragment, directed: DirectedModel) -> Sentence:
    """The sentence whose translation begins with ``fragment``; raises ``InvalidOption``.

    A word at the end of ``fragment`` may go on, so other tokens may stand for that word.
    """
    token_ids = directed.model.tokenizers.target.encode(fragment.text)
    longest = directed.model.manifest.limits.target_length
    written = directed.written(token_ids)
    if len(written) >= longest:
        raise InvalidOption(
            f"the beginning of the translation has {len(written)} tokens in one sentence; the "
            f"model writes at most {longest}"
        )
    completions: tuple[frozenset[int], ...] = ()
    if not sentence.options.samples:
        completions = directed.model.vocabulary().completions(token_ids, fragment.text)
    options = replace(
        sentence.options,
        target_prefix=written,
        completions=completions,
        max_decoding_length=min(
            longest, max(sentence.options.max_decoding_length, len(written) + _TOKENS_BEYOND)
        ),
    )
    return replace(sentence, options=options, prefix=fragment.text, beginning=fragment)
