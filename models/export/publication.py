"""Publishes a network as a bundle: graphs, parity proof, manifest, examples."""

from __future__ import annotations

import datetime
import json
import logging
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from models.bundle.bundle import MODEL_CARD, SHORTLIST, Bundle, graph_file, sha256_of, weights_file
from models.bundle.card import render_card
from models.bundle.manifest import (
    GRAPHS,
    AlignmentSource,
    DecodingDefaults,
    Direction,
    Example,
    Manifest,
    Precision,
    Provenance,
    SentenceLimits,
    SpecialIds,
)
from models.bundle.tokenizer import Tokenizers
from models.export.calibration import Pair, calibrate
from models.export.errors import ParityError
from models.export.fp16_range import LARGEST, largest_activation
from models.export.graphs import build_graph, dimensions_of
from models.export.parity import (
    Translated,
    attend,
    check_attention,
    check_translations,
    search_all,
    translate_all,
)
from models.export.resident import MOST_ROWS, build_resident
from models.export.weights import Integers, collect_weights
from models.reference.beam import searching_of
from models.reference.decoding import ReferenceDecoder
from models.reference.transformer import ReferenceTransformer

logger = logging.getLogger(__name__)

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8", "fp16")
FP16_SENTENCES = 32
"""Sentences whose values are compared with the range of fp16."""
PROOF_SENTENCES = 200
ATTENTION_SENTENCES = 16
EXAMPLES = 4
"""Examples per direction in a bundle of one or two directions; with more directions, one each."""
MOST_EXAMPLES = 16
"""The service translates every example before it serves a bundle, which limits their number."""
EXAMPLE_MARGIN = 0.05
"""Least score margin of an example over the second-best hypothesis, and least margin of every step
of its search: CPUs and batches round differently."""


Scorer = Callable[[str, Sequence[str], Sequence[str]], float]
"""BLEU of a target language's translations against their references."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence that proves a bundle, and may become an example."""

    source: str
    direction: int = 0
    reference: str | None = None
    shown: bool = True
    """Whether it may become an example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """All of a bundle except its graphs."""

    name: str
    network: ReferenceTransformer
    directions: tuple[Direction, ...]
    tokenizers: Tokenizers
    tokenizer_files: Mapping[str, Path]
    """Paths of the tokenizers' models, by file name in the bundle."""
    limits: SentenceLimits
    decoding: DecodingDefaults
    provenance: Provenance
    shortlist: Path | None = None
    integers: Integers | None = None
    """int8 matrices that the network was read from. Without them int8 is calibrated."""
    alignment: AlignmentSource | None = None
    proof_length: int | None = None
    """Length limit of the translations that prove the bundle; by default the network's positions.
    """

    def source_ids(self, sentence: Sentence) -> tuple[int, ...]:
        tokenizer = self.tokenizers.source
        direction = self.directions[sentence.direction]
        return direction.source_ids(tokenizer.encode(sentence.source), tokenizer.special_ids.eos)


@dataclass(frozen=True, slots=True)
class Proof:
    """Results of the parity proof."""

    sentences: int
    differing: dict[Precision, int]
    bleu: dict[str, float] = field(default_factory=dict)
    """BLEU of the sentences with a reference, if any; by direction if there are several."""

    def __str__(self) -> str:
        differing = ", ".join(f"{count} in {name}" for name, count in self.differing.items())
        scores = ", ".join(f"{name} {score:.1f}" for name, score in self.bleu.items())
        return (
            f"proved on {self.sentences} sentences; other translations than the network's: "
            f"{differing}{'; BLEU: ' if scores else ''}{scores}"
        )


def publish(
    publication: Publication,
    sentences: Sequence[Sentence],
    calibration: Sequence[Pair],
    bundles: Path,
    precisions: Sequence[Precision],
    scorer: Scorer | None = None,
) -> tuple[Bundle, Proof]:
    """Publish ``bundles/<name>`` in the given precisions, each of them proved.

    With int8, graphs in fp16 that share its weights are added, so that the bundle runs on a GPU.
    ``calibration`` may be empty except for int8 without ``integers``. ``scorer`` scores sentences
    with references.
    Raises ``ParityError``, and publishes nothing, if graphs and network disagree. The network is
    released, so it cannot compute afterwards.
    """
    network, special = publication.network, publication.tokenizers.target.special_ids
    # fp32 is compared with the network, and the published precisions with fp32.
    shares = "int8" in precisions and "fp16" not in precisions
    if shares:
        precisions = (*precisions, "fp16")
    written: tuple[Precision, ...] = tuple(p for p in PRECISIONS if p in {"fp32", *precisions})
    stored: dict[Precision, Precision] = {p: p for p in written}
    if shares:
        stored["fp16"] = "int8"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        integers = publication.integers
        quantises = "int8" in written and integers is None
        ranges = calibrate(network, calibration) if quantises else None
        version = ""
        for precision in written:
            logger.info("writing graphs in %s", precision)
            # fp16 may read the weights of int8, which precedes it.
            if stored[precision] == precision:
                weights = collect_weights(network, precision, ranges, integers)
                weights.write(directory / weights_file(precision))
            for graph in GRAPHS:
                model = build_graph(graph, weights, network.config, precision)
                onnx.save(model, directory / graph_file(graph, precision))
            rows = publication.decoding.beam_size
            if precision == "fp16" and rows <= MOST_ROWS:
                resident = build_resident(weights, network.config, precision, rows, special)
                onnx.save(resident, directory / graph_file("resident", precision))
            # Hash the fp32 weights, which always exist: the version depends on weights alone.
            version = version or sha256_of(directory / weights_file(precision))[:12]
        # The proof opens graphs of the same size.
        del weights
        translated = _prove(publication, directory, stored, sentences, half_is_optional=shares)
        written, precisions = (
            tuple(p for p in each if p in translated[0].graphs) for each in (written, precisions)
        )
        proof = _proof(publication, sentences, translated, written, scorer)
        manifest = Manifest(
            name=publication.name,
            version=version,
            directions=publication.directions,
            dimensions=dimensions_of(network.config),
            special_ids=special,
            limits=publication.limits,
            precisions=tuple(precisions),
            int8_fits_16_bits=integers is None,
            decoding=publication.decoding,
            alignment=publication.alignment,
            examples=_examples(publication, sentences, translated, precisions),
            provenance=publication.provenance,
        )
        card = directory / MODEL_CARD
        card.write_text(render_card(manifest), encoding="utf-8")
        published = {**publication.tokenizer_files, MODEL_CARD: card}
        if publication.shortlist is not None:
            published[SHORTLIST] = publication.shortlist
        for precision in precisions:
            names = [graph_file(graph, precision) for graph in GRAPHS]
            names.append(weights_file(stored[precision]))
            if (directory / graph_file("resident", precision)).exists():
                names.append(graph_file("resident", precision))
            published |= {name: directory / name for name in names}
        return Bundle.write(bundles / publication.name, manifest, published), proof


def _require_fp16_range(
    directory: Path,
    special: SpecialIds,
    pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    """Raises ``ParityError`` if values of the network exceed the range of fp16, as on a GPU."""
    largest = largest_activation(directory, special, pairs[:FP16_SENTENCES])
    if largest > LARGEST:
        raise ParityError(
            f"the network computes {largest:.0f}, and fp16 is used for values up to {LARGEST:.0f}; "
            "--precisions int8 or fp32 has no such limit"
        )


def _prove(
    publication: Publication,
    directory: Path,
    stored: Mapping[Precision, Precision],
    sentences: Sequence[Sentence],
    *,
    half_is_optional: bool,
) -> list[Translated]:
    """Proved translations in the order of ``sentences``. Releases the network.

    An optional fp16 is left out if values of the network exceed its range.

    ``stored`` has the precision of the weights that the graphs of each precision read. The network
    computes all that the proof needs before any graph is opened, because opening graphs needs two
    to three times the memory of the network.
    """
    network, special = publication.network, publication.tokenizers.target.special_ids
    limit = publication.proof_length or network.config.max_length
    sources = [publication.source_ids(sentence) for sentence in sentences]
    searchings = [
        searching_of(publication.decoding, special, direction.target_prefix)
        for direction in publication.directions
    ]
    places = [
        [place for place, sentence in enumerate(sentences) if sentence.direction == i]
        for i in range(len(searchings))
    ]
    by_network = [
        search_all(
            ReferenceDecoder(network), "network", [sources[i] for i in own], searching, limit
        )
        for own, searching in zip(places, searchings, strict=True)
    ]
    targets = {
        place: (*searching.target_prefix, *best[0].token_ids)
        for own, searching, found in zip(places, searchings, by_network, strict=True)
        for place, (best, _) in zip(own, found, strict=True)
    }
    attended = [
        attend(network, sources[place], targets[place], special)
        for place in range(0, len(sources), max(1, len(sources) // ATTENTION_SENTENCES))
    ]
    network.release()
    if "fp16" in stored:
        # The graph reads ``bos`` before the target.
        longest = network.config.max_length - 1
        pairs = [(sources[place], target[:longest]) for place, target in targets.items()]
        try:
            _require_fp16_range(directory, special, pairs)
        except ParityError as error:
            if not half_is_optional:
                raise
            logger.warning("the bundle has no graphs in fp16 for GPUs: %s", error)
            stored = {p: weights for p, weights in stored.items() if p != "fp16"}
    proved: dict[int, Translated] = {}
    for own, searching, found in zip(places, searchings, by_network, strict=True):
        translated = translate_all(
            found,
            directory,
            dimensions_of(network.config),
            tuple(stored),
            [sources[i] for i in own],
            searching,
            limit,
        )
        proved |= dict(zip(own, translated, strict=True))
    ordered = [proved[place] for place in range(len(sentences))]
    check_translations(ordered, stored)
    for precision, weights in stored.items():
        check_attention(attended, directory, special, precision, weights)
    return ordered


def _proof(
    publication: Publication,
    sentences: Sequence[Sentence],
    translated: Sequence[Translated],
    precisions: Sequence[Precision],
    scorer: Scorer | None,
) -> Proof:
    decode = publication.tokenizers.target.decode
    originals = [sentence.network[0].token_ids for sentence in translated]
    outputs: dict[str, list[tuple[int, ...]]] = {"network": originals}
    for precision in precisions:
        outputs[precision] = [each.graphs[precision][0].token_ids for each in translated]
    bleu: dict[str, float] = {}
    for i, direction in enumerate(publication.directions):
        places = [
            place
            for place, sentence in enumerate(sentences)
            if sentence.direction == i and sentence.reference is not None
        ]
        if scorer is None or not places:
            continue
        references = [sentences[place].reference or "" for place in places]
        several = len(publication.directions) > 1
        where = f" {direction.source}-{direction.target}" if several else ""
        for system, ids in outputs.items():
            texts = [decode(ids[place]) for place in places]
            bleu[f"{system}{where}"] = scorer(direction.target, texts, references)
    return Proof(
        sentences=len(sentences),
        differing={p: sum(map(tuple.__ne__, originals, outputs[p])) for p in precisions},
        bleu=bleu,
    )


def _examples(
    publication: Publication,
    sentences: Sequence[Sentence],
    translated: Sequence[Translated],
    precisions: Sequence[Precision],
) -> tuple[Example, ...]:
    """Sentences of every direction whose translation has a clear margin in every precision."""
    decode = publication.tokenizers.target.decode
    room = [EXAMPLES if len(publication.directions) <= 2 else 1] * len(publication.directions)
    chosen: list[Example] = []
    for sentence, each in zip(sentences, translated, strict=True):
        beyond_doubt = all(_is_clear(each, precision) for precision in precisions)
        if not (sentence.shown and beyond_doubt and room[sentence.direction]):
            continue
        room[sentence.direction] -= 1
        chosen.append(
            Example(
                source=sentence.source,
                target=decode(each.graphs[precisions[0]][0].token_ids),
                source_ids=each.source_ids,
                target_ids={p: each.graphs[p][0].token_ids for p in precisions},
                direction=sentence.direction,
            )
        )
    if not chosen:
        logger.warning(
            "no sentence is translated clearly enough to be an example of %s, with which the "
            "service would verify it",
            publication.name,
        )
    chosen.sort(key=lambda example: example.direction)
    return tuple(chosen[:MOST_EXAMPLES])


def _is_clear(translated: Translated, precision: Precision) -> bool:
    """Whether rounding cannot change the translation."""
    best, *others = translated.graphs[precision]
    return translated.margins[precision] > EXAMPLE_MARGIN and all(
        best.score - other.score > EXAMPLE_MARGIN for other in others[:1]
    )


def described(bundle: Bundle) -> str:
    """Size of a published bundle, and the commands that use it."""
    manifest = bundle.manifest
    megabytes = sum(path.stat().st_size for path in bundle.path.iterdir()) / 1e6
    direction = manifest.directions[0]
    shown = [each.source for each in manifest.examples if each.direction == 0]
    body = json.dumps(
        {
            "q": shown[0] if shown else "...",
            "source": direction.source,
            "target": direction.target,
            "model": manifest.name,
        },
        ensure_ascii=False,
    )
    parent = bundle.path.parent
    elsewhere = "" if str(parent) == "bundles" else shlex.quote(str(parent))
    place = f"DRAGOMAN_BUNDLES={elsewhere} " if elsewhere else ""
    scored = f"{manifest.name} --record" + (f" --bundles {elsewhere}" if elsewhere else "")
    return (
        f"published {bundle.path}: {megabytes:.1f} MB, {', '.join(manifest.precisions)}\n"
        f"{place}make serve, then\n"
        "curl localhost:8000/translate -H 'Content-Type: application/json' "
        f"-d {shlex.quote(body)}\n"
        f"make bench-quality ARGS={shlex.quote(scored)} writes scores into its card"
    )


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def commit() -> str:
    """The commit of this code; ``unknown`` in an image, which has no repository."""
    if shutil.which("git") is None:
        return "unknown"
    found = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else "unknown"
