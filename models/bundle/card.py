"""Renders the model card, the bundle's ``README.md``, from the manifest."""

from __future__ import annotations

from models.bundle.languages import display_name
from models.bundle.manifest import Manifest

_MOST_LISTED = 6
"""Directions listed one by one; with more, the card lists the languages."""


def render_card(manifest: Manifest) -> str:
    """The card in Markdown: architecture, data, scores and examples."""
    shape, provenance = manifest.dimensions, manifest.provenance
    lines = [
        f"# {manifest.name}",
        "",
        f"Translates {_directions(manifest)}. Version {manifest.version}, made by the recipe "
        f"`{provenance.recipe}` at commit {provenance.commit} on {provenance.created}.",
        "",
        f"A Transformer with {shape.encoder_layers} encoder and {shape.decoder_layers} decoder "
        f"layers, width {shape.width}, {shape.heads} heads, feed-forward {shape.feed_forward}, "
        f"{_pieces(manifest)}; graphs in {', '.join(manifest.precisions)}. It reads "
        f"up to {manifest.limits.source_length} tokens of a sentence and writes up to "
        f"{manifest.limits.target_length}.",
        "",
        provenance.description
        or "It knows what its training text is about and little else; expect poor translations of "
        "anything far from it.",
    ]
    if provenance.strength < 1:
        lines += [
            "",
            f"The weights are {provenance.strength:.0%} those of this training and "
            f"{1 - provenance.strength:.0%} those that it began with.",
        ]
    if provenance.data:
        lines += [
            "",
            "## Data",
            "",
            "| corpus | pairs used | licence |",
            "|---|---|---|",
            *(f"| {_cell(c.name)} | {c.pairs:,} | {c.licence} |" for c in provenance.data),
            "",
            "Anyone who serves this model is bound by these licences.",
        ]
    if provenance.scores:
        lines += [
            "",
            "## Quality",
            "",
            "| test set | metric | score | precision | beam | signature |",
            "|---|---|---|---|---|---|",
            *(
                f"| {s.test_set} | {s.metric} | {s.value:.2f} | {s.precision} | "
                f"{s.beam_size or 'not known'} | "
                f"`{_cell(s.signature)}` |"
                for s in provenance.scores
            ),
        ]
    if manifest.examples:
        lines += ["", "## Examples", ""]
        lines += [f"- {e.source}\n  → {e.target}" for e in manifest.examples]
    return "\n".join(lines) + "\n"


def _directions(manifest: Manifest) -> str:
    """E.g. ``German to English and English to German``."""
    if len(manifest.directions) > _MOST_LISTED:
        languages = {code for each in manifest.directions for code in (each.source, each.target)}
        named = ", ".join(sorted(map(display_name, languages)))
        count = len(manifest.directions)
        return f"between {len(languages)} languages in {count:,} directions: {named}"
    pairs = [f"{display_name(d.source)} to {display_name(d.target)}" for d in manifest.directions]
    return " and ".join([", ".join(pairs[:-1]), pairs[-1]] if len(pairs) > 1 else pairs)


def _pieces(manifest: Manifest) -> str:
    shape = manifest.dimensions
    if shape.source_vocabulary_size is None:
        return f"{shape.vocabulary_size} pieces"
    return f"{shape.source_vocabulary_size} source and {shape.vocabulary_size} target pieces"


def _cell(text: str) -> str:
    # Markdown ends a table cell at every bar, within code, too.
    return text.replace("|", r"\|")
