"""Registry of figures: name, description, inputs and file format of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from models.transformer.config import TransformerConfig
from models.transformer.layers import sinusoids
from training.evaluation.diagnostics import Bucket
from training.figures import material as of
from training.figures.attention import Kind, attention
from training.figures.by_length import bleu_by_length
from training.figures.curves import learning_curves
from training.figures.gradients import Norm, gradients, measure
from training.figures.lengths import lengths, wasted
from training.figures.masks import masks
from training.figures.material import Material
from training.figures.positions import positions
from training.figures.reversal import exact_by_length, reversal
from training.figures.schedules import Panel, schedules
from training.figures.smoothing import smoothing
from training.loop.schedule import constant, cosine, inverse_sqrt, linear, noam, schedule_of
from training.recipes.tensor2tensor import tensor2tensor_v1, tensor2tensor_v2
from training.refusal import Refusal

PAD = 0
SENTENCES = (
    ("<s>", "two", "dogs", "play", "in", "the", "snow"),
    ("<s>", "a", "man", "sings", "loudly"),
    ("<s>", "children", "laugh"),
)
"""Example sentences of the mask figure."""
NORMS: tuple[Norm, ...] = ("after", "before")
DEEP = TransformerConfig(
    source_vocabulary=1000,
    target_vocabulary=1000,
    encoder_layers=12,
    decoder_layers=12,
    width=256,
    heads=4,
    feed_forward=1024,
)
"""Network of the gradient figure."""
DIGITS = "3 1 4 1 5 9 2 6 5 3"
_MOST_PAIRS = 100_000
"""More sentence lengths do not change the figure visibly."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure by its name. ``draw`` raises ``Refusal`` if its input is missing."""

    name: str
    shows: str
    draw: Callable[[Material], Figure]


def figure_of_masks(material: Material) -> Figure:
    length = max(map(len, SENTENCES))
    # Any ids will do, except that padding must have its own.
    ids = [[t + 1 for t in range(len(s))] + [PAD] * (length - len(s)) for s in SENTENCES]
    pieces = [[*s, *["<pad>"] * (length - len(s))] for s in SENTENCES]
    return masks(torch.tensor(ids), PAD, pieces)


def figure_of_positions(material: Material) -> Figure:
    learned_PW = of.learned_positions(material.run)
    return positions(sinusoids(100, 128), learned_PW, material.name_of(material.run))


def figure_of_schedules(material: Material) -> Figure:
    paper = {
        f"width {width}, warm-up {warmup:,}": noam(width, warmup)
        for width, warmup in ((512, 4000), (512, 8000), (256, 4000))
    }
    peak, warmup, steps = 1e-3, 1000, 10_000
    ours = {
        "inverse_sqrt": inverse_sqrt(peak, warmup),
        "linear": linear(peak, warmup, steps),
        "cosine": cosine(peak, warmup, steps),
        "constant": constant(peak, warmup),
    }
    tensor2tensor = {
        "version 1: warm-up 4,000": schedule_of(tensor2tensor_v1()),
        "version 2: warm-up 8,000, doubled": schedule_of(tensor2tensor_v2()),
    }
    return schedules(
        Panel("noam: the paper's, with other widths and warm-ups", paper, 20_000),
        Panel("The others, each with a peak of its own", ours, steps),
        Panel("tensor2tensor's base, width 512", tensor2tensor, 40_000),
    )


def figure_of_smoothing(material: Material) -> Figure:
    return smoothing(torch.tensor([2, 1, 3, 4, 2]), 5, 0.4, PAD, (0.0, 0.05, 0.1, 0.2, 0.4))


def figure_of_gradients(material: Material) -> Figure:
    measured = {norm: measure(DEEP, norm) for norm in NORMS}
    return gradients(measured, f"{DEEP.decoder_layers} layers, width {DEEP.width}")


def figure_of_attention(kind: Kind) -> Callable[[Material], Figure]:
    def draw(material: Material) -> Figure:
        run = material.run
        reading = of.read(run, of.network_of(run), material.sentence, material.into)
        maps = [weights_BHQK[0] for weights_BHQK in getattr(reading.maps, kind)]
        layers = material.layers or tuple(range(1, len(maps) + 1))
        if max(layers) > len(maps):
            raise Refusal(f"{run.path} has {len(maps)} layers, and none is number {max(layers)}")
        rows = reading.source if kind == "encoder" else reading.target
        columns = reading.target if kind == "decoder" else reading.source
        return attention(kind, {layer: maps[layer - 1] for layer in layers}, rows, columns)

    return draw


def figure_of_reversal(material: Material) -> Figure:
    network = of.network_of(material.toy)
    reading = of.read(material.toy, network, DIGITS)
    cross = [weights_BHTS[0] for weights_BHTS in reading.maps.cross]
    exact = exact_by_length(network, material.toy.tokenizers())
    return reversal(cross, reading.target, reading.source, exact)


def figure_of_curves(material: Material) -> Figure:
    return learning_curves([of.history_of(run, material.name_of(run)) for run in material.runs])


def figure_of_lengths(material: Material) -> Figure:
    shards = of.shards_of(material.run)
    every = -(-len(shards) // _MOST_PAIRS)
    source, target = shards.source.lengths[::every], shards.target.lengths[::every]
    return lengths(source, target, wasted(source, target))


def figure_by_length(material: Material) -> Figure:
    buckets: dict[str, Sequence[Bucket]] = {}
    for run in material.runs:
        buckets.update(of.buckets_of(run, material.name_of(run), material.data))
    tests = dict.fromkeys(of.recipe_of(run).data.test.name for run in material.runs)
    return bleu_by_length(", ".join(tests), buckets)


FIGURES = {
    entry.name: entry
    for entry in (
        Entry("masks", "which positions attention may look at", figure_of_masks),
        Entry("positions", "sinusoids, and positions learned", figure_of_positions),
        Entry("schedules", "the learning rate over the steps", figure_of_schedules),
        Entry("smoothing", "smoothed targets, and what they cost", figure_of_smoothing),
        Entry("gradients", "the norm before and after, at the start", figure_of_gradients),
        Entry("attention-encoder", "where the encoder looks", figure_of_attention("encoder")),
        Entry("attention-decoder", "where the decoder looks", figure_of_attention("decoder")),
        Entry("attention-cross", "from target to source", figure_of_attention("cross")),
        Entry("reversal", "the toy problem's attention and answers", figure_of_reversal),
        Entry("learning-curves", "what the logs of runs tell", figure_of_curves),
        Entry("lengths", "lengths of sentences, and padding", figure_of_lengths),
        Entry("bleu-by-length", "BLEU of short and long sentences", figure_by_length),
    )
}
