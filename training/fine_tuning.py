"""Fine-tuning of a bundle on translation memories: division of the text, and the recipe.

General text is mixed in, because a network that learns one subject alone forgets others
(catastrophic forgetting). Both kinds of text have a part to test with.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from models.bundle.bundle import TOKENIZER, Bundle
from models.bundle.languages import canonical, without_region
from training.data.corpus import OWN_CORPORA, CorpusError, Pair, find_side, read_pairs
from training.data.memories import Memory
from training.data.seen import Seen
from training.disk import writing
from training.initial.bundle_weights import read_network
from training.initial.pretrained import has_directions
from training.recipe import (
    Budget,
    Corpus,
    Data,
    InvalidRecipe,
    Network,
    Optimisation,
    Recipe,
    Vocabulary,
)

if TYPE_CHECKING:
    from training.evaluation.document import Section

LEAST_PAIRS = 50
TEST_PAIRS, TEST_SHARE = 500, 0.2
"""Pairs of each kind of text to test with, and the largest share of one's own text."""
VALID_PAIRS, VALID_SHARE = 200, 0.1
LEAST_GENERAL = 1_000
"""General pairs that are mixed in at least; otherwise as many as there are of one's own."""
OWN, GENERAL = "own", "general"
_TOKENS_PER_BATCH = 2_000
_PIECES_PER_WORD = 1.6
"""Pieces per word of both committed bundles on text of other subjects, rounded up."""
_EPOCHS = 1.25
"""More steps learn more of one's own text, and forget more (docs/own-data.md)."""
_STEPS = range(60, 3_001)


@dataclass(frozen=True, slots=True)
class Divided:
    """Numbers of pairs in the parts of a text."""

    train: int
    valid: int
    test: int
    words: int
    """Words of the longer sides of the training part."""


def divide(pairs: Iterable[Pair], directory: Path, source: str, target: str) -> Divided:
    """Write ``train``, ``valid`` and ``test`` of one's own text below ``directory``.

    A hash of the source sentence decides, so that the parts are the same each time, and a source
    with several translations is in one part. Raises ``CorpusError`` if there is too little text.
    """
    everything = directory / "all"
    _write(everything, pairs, source, target)
    total = sum(1 for _ in _read(everything, source, target))
    if total < LEAST_PAIRS:
        raise CorpusError(
            f"the memories have {total} pairs from {source} to {target}; at least {LEAST_PAIRS} "
            "are needed to learn from them and to test"
        )
    test = min(TEST_SHARE, TEST_PAIRS / total)
    valid = min(VALID_SHARE, VALID_PAIRS / total)

    def part_of(pair: Pair) -> str:
        place = _place(pair.source)
        return "test" if place < test else "valid" if place < test + valid else "train"

    counts = {
        part: _write(
            directory / part,
            (pair for pair in _read(everything, source, target) if part_of(pair) == part),
            source,
            target,
        )
        for part in ("train", "valid", "test")
    }
    words = sum(_words(pair) for pair in _read(directory / "train", source, target))
    return Divided(counts["train"], counts["valid"], counts["test"], words)


def sample_general(
    texts: Iterable[Iterable[Pair]],
    tests: Iterable[Iterable[Pair]],
    most: int,
    directory: Path,
    source: str,
    target: str,
) -> Divided | None:
    """Write a sample of general text, at most ``most`` pairs, and a test set; ``None`` if empty.

    The test set is of ``tests``, or if these are empty held out of ``texts``.
    """
    test = _smallest(tests, TEST_PAIRS)
    sample = _smallest(texts, most + (0 if test else TEST_PAIRS))
    if not test:
        sample, test = sample[TEST_PAIRS:], sample[:TEST_PAIRS]
    if not sample or not test:
        return None
    _write(directory / "train", sample, source, target)
    _write(directory / "test", test, source, target)
    return Divided(len(sample), 0, len(test), sum(map(_words, sample)))


def corpora_of(bundle: Bundle, directory: Path, *, tests: bool) -> list[str]:
    """Corpora in a directory that the bundle's card says it learned from, or was tested with.

    Those that come with the project are of letters only, and stand for no general text.
    """
    provenance = bundle.manifest.provenance
    named = (
        # The scores of a bundle with two directions name the direction after a comma.
        [score.test_set.partition(",")[0] for score in provenance.scores]
        if tests
        else [corpus.name for corpus in provenance.data]
    )
    first = bundle.manifest.directions[0]
    found = []
    for name in dict.fromkeys(named):
        try:
            paths = [find_side(name, each, directory) for each in (first.source, first.target)]
        except CorpusError:
            # The card also names texts that are on other machines, or that a bundle translated.
            continue
        if not any(path.is_relative_to(OWN_CORPORA) for path in paths):
            found.append(name)
    return found


def direction_from(bundle: Bundle, source: str | None) -> tuple[str, str]:
    """The first direction of a bundle, or the one from the language ``source``.

    A region that the bundle does not name is ignored. Raises ``InvalidRecipe`` if no direction
    reads the language.
    """
    directions = [(each.source, each.target) for each in bundle.manifest.directions]
    if source is None:
        return directions[0]
    try:
        code = canonical(source)
    except ValueError as error:
        raise InvalidRecipe(f"--from: {error}") from error
    for wanted in (code, without_region(code)):
        if found := [each for each in directions if each[0] == wanted]:
            return found[0]
    sources = " or ".join(dict.fromkeys(each[0] for each in directions))
    raise InvalidRecipe(f"--from {source}: {bundle.path} translates from {sources}; name that")


def require_trainable(bundle: Bundle, direction: tuple[str, str]) -> Network:
    """The network of a bundle as recipes describe it.

    Raises ``InvalidRecipe``, which names the reason, if such a bundle cannot be fine-tuned on pairs
    of a direction.
    """
    manifest = bundle.manifest
    directions = [(each.source, each.target) for each in manifest.directions]
    if directions not in ([direction], [direction, direction[::-1]], [direction[::-1], direction]):
        offered = ", ".join(map("-".join, directions))
        raise InvalidRecipe(
            f"{bundle.path} translates {offered}; a bundle is fine-tuned if it has one direction, "
            "or both of one pair"
        )
    if len(directions) > 1 and TOKENIZER not in manifest.files:
        raise InvalidRecipe(
            f"{bundle.path} has two directions and a tokenizer for each language; a bundle with "
            "two tokenizers is fine-tuned if it has one direction"
        )
    if not has_directions(bundle, directions):
        raise InvalidRecipe(
            f"{bundle.path} selects its languages by tokens that training does not write, such as "
            ">>fra<< of OPUS-MT or __fr__ of M2M100, and cannot be fine-tuned"
        )
    if not all(each.source_eos for each in manifest.directions):
        raise InvalidRecipe(
            f"{bundle.path} reads sentences without a token at their end, which training writes, "
            "and cannot be fine-tuned"
        )
    config, _ = read_network(bundle)
    network = Network(**{field: getattr(config, field) for field in Network.__slots__})
    described = network.config(config.source_vocabulary, config.target_vocabulary)
    if different := [
        f"{field}={getattr(config, field)}"
        for field in config.__slots__
        if getattr(config, field) != getattr(described, field)
    ]:
        raise InvalidRecipe(
            f"{bundle.path} has a network that no recipe describes ({', '.join(different)}), and "
            "cannot be fine-tuned"
        )
    return network


def recipe_for(
    name: str,
    bundle: Bundle,
    direction: tuple[str, str],
    own: Divided,
    general: Divided | None,
    strength: float = 1.0,
    steps: int | None = None,
) -> Recipe:
    """The recipe of a run that starts from a bundle; its corpora are those that were divided.

    ``steps`` are by default those of 1.25 epochs. Raises ``InvalidRecipe`` as
    ``require_trainable``.
    """
    manifest, network = bundle.manifest, require_trainable(bundle, direction)
    directions = manifest.directions
    words = own.words + (general.words if general else 0)
    epoch = math.ceil(words * len(directions) * _PIECES_PER_WORD / _TOKENS_PER_BATCH)
    steps = steps or min(max(round(_EPOCHS * epoch), _STEPS[0]), _STEPS[-1])
    kept = 3
    mixed = (Corpus(name=f"{GENERAL}/train", licence=_licence(bundle), domain=GENERAL),)
    tests = (f"{OWN}/test", f"{OWN}/valid", *((f"{GENERAL}/test",) if general else ()))
    return Recipe(
        name=name,
        data=Data(
            source=direction[0],
            target=direction[1],
            train=(
                Corpus(name=f"{OWN}/train", licence="the owner's", domain=OWN),
                *(mixed if general else ()),
            ),
            valid=Corpus(name=f"{OWN}/valid", licence="the owner's"),
            test=Corpus(name=f"{OWN}/test", licence="the owner's"),
            bidirectional=len(directions) > 1,
            max_length=min(128, network.max_length - 1),
            held_out=tests,
        ),
        vocabulary=Vocabulary(inherited=True),
        network=network,
        optimisation=Optimisation(
            tokens_per_batch=_TOKENS_PER_BATCH,
            schedule="linear",
            peak_learning_rate=3e-4,
            warmup=steps // 10,
        ),
        budget=Budget(
            steps=steps,
            validate_every=max(1, steps // 4),
            save_every=max(1, steps // 10),
            keep_checkpoints=kept,
        ),
        average=kept,
        strength=strength,
        # The text of a memory lacks most pieces that other text needs.
        shortlist=False,
        initial=str(bundle.path.resolve()),
        decoding=manifest.decoding.model_dump(exclude_none=True),
        description=f"{manifest.name}, fine-tuned on {own.train:,} pairs of translation memories.",
    )


def forgotten(sections: Iterable[Section]) -> list[str]:
    """The directions in which general text became significantly worse, with both scores."""
    return [
        f"{section.source} to {section.target}, {compared.metric} {compared.system:.1f} "
        f"instead of {compared.baseline:.1f}"
        for section in sections
        if section.test_set == f"{GENERAL}/test"
        for comparison in section.comparisons
        for compared in comparison.metrics
        if compared.metric == "BLEU" and compared.verdict == "worse"
    ]


def new_pairs(memories: Iterable[Memory]) -> Iterator[Pair]:
    """The pairs of all memories, each once."""
    seen = Seen()
    for memory in memories:
        for pair in memory.read():
            if seen.add("\t".join(pair)):
                yield pair
            else:
                memory.left_out["duplicate"] += 1


def corpus_pairs(name: str, source: str, target: str, directory: Path) -> Iterator[Pair]:
    return read_pairs(Corpus(name=name), source, target, directory)


def _licence(bundle: Bundle) -> str:
    licences = dict.fromkeys(corpus.licence for corpus in bundle.manifest.provenance.data)
    return "; ".join(licences) or "unstated"


def _place(text: str) -> float:
    """A number from 0 to 1 that a text always has."""
    digest = blake2b(text.casefold().encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _smallest(texts: Iterable[Iterable[Pair]], most: int) -> list[Pair]:
    """A sample of all texts together, which holds no more than itself in memory."""
    pairs = (pair for text in texts for pair in text if pair.is_full)
    return heapq.nsmallest(most, pairs, key=lambda pair: _place(pair.source))


def _words(pair: Pair) -> int:
    return max(len(side.split()) for side in pair) + 1


def _read(path: Path, source: str, target: str) -> Iterator[Pair]:
    return read_pairs(Corpus(name=path.name), source, target, path.parent)


def _write(path: Path, pairs: Iterable[Pair], source: str, target: str) -> int:
    """Write both sides of a corpus; returns the number of pairs."""
    count = 0
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        first, second = (path.with_name(f"{path.name}.{code}") for code in (source, target))
        with first.open("w", encoding="utf-8") as a, second.open("w", encoding="utf-8") as b:
            for count, pair in enumerate(pairs, start=1):  # noqa: B007
                a.write(pair.source + "\n")
                b.write(pair.target + "\n")
    return count
