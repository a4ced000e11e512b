"""Translates test sets with bundles through the service, and builds the sections of a report."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.bundle.bundle import Bundle
from models.bundle.languages import canonical, display_name
from models.bundle.manifest import Manifest
from training.data.bundle_translator import translate_file
from training.data.corpus import find_side, has_sides, read_lines
from training.evaluation.bitext import Bitext, check_aligned, find_bitext
from training.evaluation.document import Facts, Section, make_section
from training.refusal import Refusal

Pair = tuple[str, str]
"""Source and target."""


class NothingToTranslate(Refusal):
    """No bundle translates the requested direction."""


@dataclass(frozen=True, slots=True)
class Translating:
    """How bundles translate for a report, and the directory that caches their translations."""

    data: Path
    kept: Path
    beam_size: int | None = None
    threads: int = 0

    def translations(self, bundle: Bundle, bitext: Bitext) -> list[str]:
        """One translation for each source. Translations of these sources by a bundle of the same
        files and decoding defaults are read from the cache. Raises ``TranslationFailed``."""
        manifest, sources = bundle.manifest, bitext.sources
        assert sources is not None
        beam = self.beam_size or manifest.decoding.beam_size
        # The version identifies the weights only, neither their precision nor the decoding.
        system = manifest.model_dump_json(include={"files", "decoding"})
        content = hashlib.sha256("\n".join([system, *sources]).encode()).hexdigest()[:8]
        name = f"{bitext.name.replace('/', '.')}.{bitext.direction}.{content}.beam{beam}.txt"
        output = self.kept / f"{manifest.name}-{manifest.version}" / name
        if not output.exists():
            output.parent.mkdir(parents=True, exist_ok=True)
            translate_file(
                bundle.path,
                bitext.source,
                bitext.target,
                find_side(bitext.name, bitext.source, self.data),
                output,
                beam_size=self.beam_size,
                threads=self.threads,
                skip=True,
            )
        lines = list(read_lines(output))
        check_aligned(output, lines, find_side(bitext.name, bitext.target, self.data), sources)
        return lines


def directions_among(
    bundles: Sequence[Bundle], source: str | None, target: str | None
) -> list[Pair]:
    """The directions of the report: the named ones, or all that the bundles translate.

    Raises ``NothingToTranslate`` if a bundle has none of them.
    """
    wanted = tuple(None if code is None else _language(code) for code in (source, target))
    found: list[Pair] = []
    for bundle in bundles:
        own = [
            pair
            for pair in directions_of(bundle.manifest)
            if all(w is None or w == has for w, has in zip(wanted, pair, strict=True))
        ]
        if not own:
            supported = ", ".join("-".join(pair) for pair in directions_of(bundle.manifest))
            named = "-".join(code or "*" for code in wanted)
            raise NothingToTranslate(
                f"{bundle.path} does not translate {named}; it has {supported}: leave it out, or "
                "name another direction with --from and --to"
            )
        found += [pair for pair in own if pair not in found]
    return found


def directions_of(manifest: Manifest) -> list[Pair]:
    return [(direction.source, direction.target) for direction in manifest.directions]


def sections(
    bundles: Sequence[Bundle],
    test_sets: Iterable[str],
    directions: Sequence[Pair],
    translating: Translating,
) -> list[Section]:
    """One section for each test set and direction that it has, with the bundles that translate it.

    Raises ``CorpusError`` for a test set that has no direction.
    """
    names = labels(bundles)
    made = []
    # Read all test sets first: a missing one fails before hours of translating.
    bitexts = [
        find_bitext(name, *pair, translating.data)
        for name in test_sets
        for pair in [each for each in directions if has_sides(name, each, translating.data)]
        or directions
    ]
    for bitext in bitexts:
        pair = bitext.source, bitext.target
        named = [
            (name, translating.translations(bundle, bitext))
            for name, bundle in zip(names, bundles, strict=True)
            if pair in directions_of(bundle.manifest)
        ]
        made.append(make_section(bitext, named))
    return made


def labels(bundles: Sequence[Bundle]) -> list[str]:
    """The shortest distinct labels of bundles in a report."""
    names = [bundle.manifest.name for bundle in bundles]
    if len(set(names)) < len(names):
        names = [f"{b.manifest.name} {b.manifest.version}" for b in bundles]
    if len(set(names)) < len(names):
        names = [str(bundle.path) for bundle in bundles]
    if len(set(names)) < len(names):
        raise NothingToTranslate("a bundle is named twice; name each once")
    return names


def facts_of(label: str, bundle: Bundle) -> Facts:
    """The main facts of the model card."""
    manifest = bundle.manifest
    shape, provenance, decoding = manifest.dimensions, manifest.provenance, manifest.decoding
    pieces = f"{shape.vocabulary_size}"
    if shape.source_vocabulary_size is not None:
        pieces = f"{shape.source_vocabulary_size} and {pieces}"
    size = sum(file.size for file in manifest.files.values())
    spoken = [f"{display_name(a)} to {display_name(b)}" for a, b in directions_of(manifest)]
    facts = [
        ("translates", ", ".join(spoken)),
        ("version", manifest.version),
        ("layers", f"{shape.encoder_layers} in the encoder, {shape.decoder_layers} in the decoder"),
        ("width", f"{shape.width}, {shape.heads} heads, {shape.feed_forward} feed-forward"),
        ("pieces", pieces),
        ("precisions", ", ".join(manifest.precisions)),
        (
            "decoding",
            f"beam {decoding.beam_size}, length penalty {decoding.length_penalty} "
            f"({decoding.length_normalisation})",
        ),
        ("size", f"{size / 1e6:.1f} MB"),
        ("recipe", f"{provenance.recipe}, {provenance.created}, commit {provenance.commit}"),
    ]
    for corpus in provenance.data:
        facts.append(("learned from", f"{corpus.name}, {corpus.pairs} pairs: {corpus.licence}"))
    return Facts(label, tuple(facts))


def _language(code: str) -> str:
    try:
        return canonical(code)
    except ValueError as error:
        raise NothingToTranslate(str(error)) from error
