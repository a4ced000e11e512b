"""Pipeline stage ``export``: publishes a run's averaged network as a bundle.

Parity is proved on the test set; int8 is calibrated on validation and training text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from models.bundle.bundle import SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, Bundle
from models.bundle.manifest import (
    AlignmentSource,
    Corpus,
    Direction,
    Precision,
    Provenance,
    SentenceLimits,
)
from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import Tokenizers
from models.export.calibration import Pair as IdPair
from models.export.publication import (
    PROOF_SENTENCES,
    Proof,
    Publication,
    Sentence,
    commit,
    publish,
    today,
)
from models.transformer.transformer import Transformer
from training.data.corpus import CorpusError, Pair, read_pairs
from training.data.shards import Shards
from training.data.tags import source_prefix
from training.evaluation.scores import bleu_for
from training.export.conversion import check_conversion, numpy_network
from training.recipe import Corpus as RecipeCorpus
from training.recipe import InvalidRecipe, Recipe
from training.run_directory import RunDirectory
from training.search.settings import decoding_of

CALIBRATION_SENTENCES = 200
"""Sentences of the validation set, all directions together, and as many of the training set."""


def export(
    recipe: Recipe,
    run: RunDirectory,
    network: Transformer,
    bundles: Path,
    data_directory: Path,
    precisions: Sequence[Precision],
) -> tuple[Bundle, Proof]:
    """Publish the recipe's bundle in the given precisions, each of them proved.

    Raises ``ParityError``, and publishes nothing, if graphs and network disagree.
    """
    data, tokenizers = recipe.data, run.tokenizers()
    directions = tuple(
        Direction(
            source=source,
            target=target,
            source_prefix=source_prefix(data, target, tokenizers.source),
        )
        for source, target in data.directions
    )
    publication = Publication(
        name=recipe.bundle_name,
        network=numpy_network(network),
        directions=directions,
        tokenizers=tokenizers,
        tokenizer_files=_tokenizer_files(run),
        limits=SentenceLimits(
            # The network has no trained positions beyond this length.
            source_length=data.max_length + 1,
            target_length=network.config.max_length,
        ),
        decoding=decoding_of(recipe, run),
        provenance=Provenance(
            recipe=recipe.name,
            commit=commit(),
            created=today(),
            data=data_of(recipe, run),
            description=recipe.description,
            strength=recipe.strength,
        ),
        shortlist=_shortlist_of(run),
        alignment=_alignment_of(recipe, run),
    )
    fits = _Fitting(recipe, network.config.max_length, data_directory, tokenizers, directions)
    sentences = [
        Sentence(pair.source, i, pair.target)
        # Short sentences more often have a clear translation, which examples need.
        for i, pair in fits.pairs(data.test_set, PROOF_SENTENCES, short=PROOF_SENTENCES // 2)
    ]
    if not sentences:
        names = " and ".join(corpus.name for corpus in data.test_sets)
        raise CorpusError(
            f"no pair of {names} is short enough for the network to be proved with; name another "
            "test set"
        )
    check_conversion(network, publication.network, list(map(publication.source_ids, sentences)))
    calibration = _calibration(recipe, run, fits)
    return publish(publication, sentences, calibration, bundles, precisions, _bleu)


def _bleu(language: str, translations: Sequence[str], references: Sequence[str]) -> float:
    return float(bleu_for(language).corpus_score(translations, [references]).score)


class _Fitting:
    """Pairs of a recipe's corpora that fit the network's maximum lengths."""

    def __init__(
        self,
        recipe: Recipe,
        max_length: int,
        data_directory: Path,
        tokenizers: Tokenizers,
        directions: Sequence[Direction],
    ) -> None:
        self._recipe, self._max_length, self._data = recipe, max_length, data_directory
        self.tokenizers, self.directions = tokenizers, directions

    def pairs(
        self, set_of: Callable[[tuple[str, str]], RecipeCorpus], count: int, short: int = 0
    ) -> list[tuple[int, Pair]]:
        """At most ``count`` pairs over all directions, each with its direction.

        The first pairs of the set of the direction; ``short`` of them are the shortest of its
        remaining pairs.
        """
        data = self._recipe.data
        found: list[tuple[int, Pair]] = []
        first, rest = ((n // len(self.directions)) for n in (count - short, short))
        for i, direction in enumerate(self.directions):
            languages = direction.source, direction.target
            corpus = set_of(languages)
            pairs = list(read_pairs(corpus, *data.languages(corpus), self._data))
            if languages != data.languages(corpus):
                pairs = [Pair(*reversed(pair)) for pair in pairs]
            fitting = [pair for pair in pairs if self._fits(direction, pair)]
            shortest = sorted(fitting[first:], key=lambda pair: len(pair.source))[:rest]
            found += [(i, pair) for pair in (*fitting[:first], *shortest)]
        return found

    def _fits(self, direction: Direction, pair: Pair) -> bool:
        # Each sequence gets a bos or an eos; no source is longer than in training.
        longest = min(self._max_length - 1, self._recipe.data.max_length)
        source, target = self.tokenizers.source, self.tokenizers.target
        return (
            len(direction.source_prefix) + len(source.encode(pair.source)) <= longest
            and len(target.encode(pair.target)) < self._max_length
        )


def _calibration(recipe: Recipe, run: RunDirectory, fits: _Fitting) -> list[IdPair]:
    """Pairs of the validation set and of the training data: every direction, every corpus."""
    tokenizers, special = fits.tokenizers, fits.tokenizers.target.special_ids
    pairs: list[IdPair] = [
        (
            fits.directions[i].source_ids(tokenizers.source.encode(pair.source), special.eos),
            (special.bos, *tokenizers.target.encode(pair.target)),
        )
        for i, pair in fits.pairs(recipe.data.valid_set, CALIBRATION_SENTENCES)
    ]
    trained = Shards.open(run.shards("train"))
    # The stride is odd because directions alternate.
    stride = max(1, len(trained) // CALIBRATION_SENTENCES) | 1
    pairs += [
        (
            (*trained.source[i].tolist(), special.eos),
            (special.bos, *trained.target[i].tolist()),
        )
        for i in range(0, len(trained), stride)
    ]
    return pairs


def _tokenizer_files(run: RunDirectory) -> dict[str, Path]:
    if run.source_tokenizer.exists():
        return {SOURCE_TOKENIZER: run.source_tokenizer, TARGET_TOKENIZER: run.target_tokenizer}
    return {TOKENIZER: run.tokenizer}


def _alignment_of(recipe: Recipe, run: RunDirectory) -> AlignmentSource | None:
    """The head that guided alignment trained, here or in the bundle that is fine-tuned."""
    if recipe.optimisation.guided_alignment:
        return AlignmentSource(layer=recipe.network.decoder_layers - 1, head=0)
    if not recipe.vocabulary.inherited:
        return None
    report = json.loads(run.report.read_text(encoding="utf-8"))
    learned = report.get("initial", {}).get("alignment")
    return learned and AlignmentSource(**learned)


def _shortlist_of(run: RunDirectory) -> Path | None:
    """Raises ``InvalidBundle`` for a damaged one, which no service could load."""
    if not run.shortlist.exists():
        return None
    Shortlist.load(run.shortlist)
    return run.shortlist


def data_of(recipe: Recipe, run: RunDirectory) -> tuple[Corpus, ...]:
    """The corpora of a run and of the run or bundle it started from.

    All their licences apply to the weights. Raises ``InvalidRecipe`` if the run was prepared from
    other corpora than the recipe has.
    """
    report = json.loads(run.report.read_text(encoding="utf-8"))
    labels = [corpus.label for corpus in recipe.data.train]
    if set(labels) != report["train"].keys():
        raise InvalidRecipe(
            f"{run.path} was prepared from {', '.join(report['train'])}, and recipe "
            f"{recipe.name!r} has {', '.join(labels)}; export with its own, {run.recipe}"
        )
    own = tuple(
        Corpus(name=c.label, licence=c.licence, pairs=report["train"][c.label]["kept"])
        for c in recipe.data.train
        if report["train"][c.label]["kept"]
    )
    if recipe.initial is None:
        return own
    if "initial" in report:
        bundle = report["initial"]
        earlier_name = bundle["bundle"]
        earlier = tuple(Corpus(**corpus) for corpus in bundle["data"])
        directions = tuple((source, target) for source, target in bundle["directions"])
    else:
        initial = RunDirectory(run.path.parent / recipe.initial)
        earlier_recipe = Recipe.from_dict(json.loads(initial.recipe.read_text(encoding="utf-8")))
        earlier_name, directions = earlier_recipe.name, earlier_recipe.data.directions
        earlier = data_of(earlier_recipe, initial)
    same = {c.name for c in own} if directions == recipe.data.directions else set()
    found = {corpus.name: corpus for corpus in own}
    for corpus in earlier:
        # A corpus of a run before that one is named already.
        name = corpus.name if _IN in corpus.name else f"{corpus.name}{_IN}{earlier_name}"
        if corpus.name not in same:
            found.setdefault(name, corpus.model_copy(update={"name": name}))
    return tuple(found.values())


_IN = ", in "
"""Separates the name of a corpus from that of the earlier run it belongs to."""
