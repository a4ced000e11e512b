"""The model card: the manifest in words, as the bundle's ``README.md``."""

from __future__ import annotations

from models.bundle.languages import display_name
from models.bundle.manifest import Manifest


def render_card(manifest: Manifest) -> str:
    """Markdown: what the model is, what it was made from, how good it is, two examples."""
    source, target = display_name(manifest.source), display_name(manifest.target)
    shape, provenance = manifest.dimensions, manifest.provenance
    lines = [
        f"# {manifest.name}",
        "",
        f"Translates {source} to {target}. Version {manifest.version}, made by the recipe "
        f"`{provenance.recipe}` at commit {provenance.commit} on {provenance.created}.",
        "",
        f"A Transformer with {shape.encoder_layers} encoder and {shape.decoder_layers} decoder "
        f"layers, width {shape.width}, {shape.heads} heads, feed-forward {shape.feed_forward}, "
        f"{shape.vocabulary_size} pieces; graphs in {', '.join(manifest.precisions)}. It reads "
        f"up to {manifest.limits.source_length} tokens of a sentence and writes up to "
        f"{manifest.limits.target_length}.",
        "",
        "It knows what its training text is about and little else; expect poor translations of "
        "anything far from it.",
        "",
        "## Data",
        "",
        "| corpus | pairs used | licence |",
        "|---|---|---|",
        *(f"| {c.name} | {c.pairs:,} | {c.licence} |" for c in provenance.data),
        "",
        "Whoever serves this model is bound by these licences.",
    ]
    if provenance.scores:
        lines += [
            "",
            "## Quality",
            "",
            "| test set | metric | score | precision | beam | signature |",
            "|---|---|---|---|---|---|",
            *(
                f"| {s.test_set} | {s.metric} | {s.value:.2f} | {s.precision} | {s.beam_size} | "
                f"`{_cell(s.signature)}` |"
                for s in provenance.scores
            ),
        ]
    if manifest.examples:
        lines += ["", "## Examples", ""]
        lines += [f"- {e.source}\n  → {e.target}" for e in manifest.examples]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    # Markdown ends a cell at every bar, in code or not.
    return text.replace("|", r"\|")
