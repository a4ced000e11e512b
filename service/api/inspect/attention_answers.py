"""Answers of the attention routes: maps, alignments and scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from service.api.fields.schemas import Answer
from service.api.libretranslate.languages import DetectionAnswer, detected
from service.api.responses import encoded_each
from service.inspection.attention import Maps, numbered
from service.inspection.inspector import AlignedPair, LegView, TextView
from service.inspection.scoring import Score
from service.text.alignment import Span

_DECIMALS = 6


class Layers(Answer):
    encoder: int = Field(examples=[3])
    decoder: int = Field(examples=[3])


class SentenceAnswer(Answer):
    source: str = Field(examples=["Zwei Hunde."])
    target: str = Field(examples=["Two dogs."])
    source_pieces: list[str] = Field(examples=[["▁Zwei", "▁Hunde", ".", "</s>"]])
    target_pieces: list[str] = Field(examples=[["▁Two", "▁dogs", ".", "</s>"]])
    score: float | None = Field(
        description="Log-probability of a token, as the search normalised it; null if it had none."
    )


class LegAnswer(Answer):
    model: str = Field(examples=["general-de-en"])
    version: str
    source: str = Field(examples=["de"])
    target: str = Field(examples=["en"])
    layers: Layers
    heads: int = Field(examples=[4])
    sentences: list[SentenceAnswer]


class TextAnswer(Answer):
    translatedText: str = Field(examples=["Two dogs."])
    source: str = Field(examples=["de"])
    target: str = Field(examples=["en"])
    detectedLanguage: DetectionAnswer | None = Field(
        None, description="Only if the source was to be detected."
    )
    legs: list[LegAnswer] = Field(
        description="What each model did: two where there is a pivot, none where source and target "
        "are one language."
    )


class KeptTranslationAnswer(Answer):
    id: str
    texts: list[TextAnswer]


class MapAnswer(Answer):
    layer: int | Literal["mean"]
    head: int | Literal["mean"]
    weights: list[list[float]] = Field(description="Each row sums to 1, but for rounding.")


class Word(Answer):
    text: str = Field(examples=["Hunde"])
    start: int = Field(description="Characters before it.", examples=[5])
    end: int = Field(examples=[10])


class LinkAnswer(Answer):
    source: int = Field(description="Number of a source word, from 0.")
    target: int = Field(description="Number of a target word, from 0.")
    weight: float = Field(description="Share of the target word's attention to words.")


class AlignmentAnswer(Answer):
    source: str = Field(examples=["Zwei Hunde."])
    target: str = Field(examples=["Two dogs."])
    source_words: list[Word]
    target_words: list[Word]
    links: list[LinkAnswer]


class AttentionAnswer(Answer):
    model: str = Field(examples=["general-de-en"])
    kind: Literal["cross", "encoder", "decoder"]
    rows: list[str] = Field(description="Query piece of each row of weights.")
    columns: list[str] = Field(description="Key piece of each column of weights.")
    layers: list[int] | Literal["mean"]
    heads: list[int] | Literal["mean"]
    maps: list[MapAnswer] = Field(description="By layer, then by head.")


class AttentionOfPairAnswer(AttentionAnswer):
    alignment: AlignmentAnswer | None = Field(None, description="Only if requested.")


class TokenAnswer(Answer):
    piece: str = Field(examples=["▁dogs"])
    log_prob: float = Field(examples=[-0.21])


class WordConfidenceAnswer(Word):
    probability: float = Field(
        ge=0, le=1, description="Product of the probabilities of its pieces.", examples=[0.74]
    )
    entropy: float | None = Field(
        ge=0,
        description="In nats, of the distribution of its first piece; null if the model's bundle "
        "has no entropies.",
        examples=[0.9],
    )


class ConfidenceAnswer(Answer):
    words: list[WordConfidenceAnswer] = Field(description="Words of the target, in order.")
    mean: float | None = Field(
        description="Geometric mean of the words' probabilities; null without words."
    )
    lowest: float | None = Field(description="Lowest of them; null without words.")


class ScoreAnswer(Answer):
    log_prob: float = Field(description="Of the whole target, the end of it counted.")
    score: float = Field(description="The same per token.")
    perplexity: float
    tokens: list[TokenAnswer]
    confidence: ConfidenceAnswer | None = Field(None, description="Only if requested.")


class ScoresAnswer(Answer):
    scores: list[ScoreAnswer] = Field(description="One for each pair, in order.")


def map_answers(maps: Maps) -> Iterator[MapAnswer]:
    """Each map of an ``AttentionAnswer``.

    Weights have six decimals, so rows sum to 1 within rounding. All maps of a long sentence are
    hundreds of thousands of numbers, so rows are encoded one by one and not validated.
    """
    for layer, of_layer_HRC in zip(numbered(maps.layers), maps.weights_LHRC, strict=True):
        for head, weights_RC in zip(numbered(maps.heads), of_layer_HRC, strict=True):
            rows = weights_RC.astype("float64").round(_DECIMALS).tolist()
            yield MapAnswer.model_construct(layer=layer, head=head, weights=encoded_each(rows))


def alignment_answer(aligned: AlignedPair) -> AlignmentAnswer:
    pair, alignment = aligned.pair, aligned.alignment
    return AlignmentAnswer(
        source=pair.source_text,
        target=pair.target_text,
        source_words=_words(pair.source_text, alignment.source_words),
        target_words=_words(pair.target_text, alignment.target_words),
        links=[
            LinkAnswer(source=link.source, target=link.target, weight=round(link.weight, _DECIMALS))
            for link in alignment.links()
        ],
    )


def score_answer(score: Score) -> ScoreAnswer:
    given: dict[str, Any] = {}
    if score.confidence is not None:
        given["confidence"] = ConfidenceAnswer.model_validate(
            score.confidence, from_attributes=True
        )
    return ScoreAnswer(
        log_prob=score.log_prob,
        score=score.score,
        perplexity=score.perplexity,
        tokens=[TokenAnswer(piece=each.piece, log_prob=each.log_prob) for each in score.tokens],
        **given,
    )


def text_answer(text: TextView) -> TextAnswer:
    translation = text.translation
    given: dict[str, Any] = {}
    if translation.detection is not None:
        given["detectedLanguage"] = detected(translation.detection)
    return TextAnswer(
        translatedText=translation.text,
        source=translation.pair.source,
        target=translation.pair.target,
        legs=[_leg(leg) for leg in text.legs],
        **given,
    )


def _leg(view: LegView) -> LegAnswer:
    leg = view.leg
    return LegAnswer(
        model=leg.model,
        version=leg.version,
        source=leg.pair.source,
        target=leg.pair.target,
        layers=Layers(encoder=view.encoder_layers, decoder=view.decoder_layers),
        heads=view.heads,
        sentences=[
            SentenceAnswer(
                source=each.sentence.source,
                target=each.sentence.target,
                source_pieces=list(each.source_pieces),
                target_pieces=list(each.target_pieces),
                score=None if math.isnan(each.sentence.score) else each.sentence.score,
            )
            for each in view.sentences
        ],
    )


def _words(text: str, spans: Sequence[Span]) -> list[Word]:
    return [Word(text=text[start:end], start=start, end=end) for start, end in spans]
