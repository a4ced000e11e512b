"""The pretrained network that ``Recipe.initial`` names: of another run, or of a published bundle.

Both kinds provide tokenizers, a configuration and weights. A run is looked for first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from models.bundle.bundle import MANIFEST, SOURCE_TOKENIZER, TARGET_TOKENIZER, TOKENIZER, Bundle
from models.bundle.tokenizer import Tokenizers
from models.importing.network import HIDDEN
from models.importing.vocabulary import parse, protocol
from models.transformer.config import TransformerConfig
from training import checkpoint
from training.data.tags import tag_of
from training.data.translate import NoTranslator, find_translator
from training.initial.bundle_weights import read_network
from training.loop.resuming import vocabulary_of
from training.recipe import InvalidRecipe, Recipe, Vocabulary
from training.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class PretrainedRun:
    """The averaged network of another run."""

    recipe: Recipe
    """The recipe whose ``initial`` names the run."""
    run: RunDirectory

    @property
    def label(self) -> str:
        return f"the run {self.recipe.initial!r}"

    @property
    def path(self) -> Path:
        """The directory of the tokenizers."""
        return self.run.path

    @property
    def origin(self) -> None:
        """A run has a report and a recipe of its own."""
        return None

    def tokenizers(self) -> Tokenizers:
        return self.run.tokenizers()

    def allows_sharing(self, shared: bool) -> bool:
        """Whether both sides may share a vocabulary, or may have two, in a run that starts here.

        Raises ``InvalidRecipe`` if this run is not prepared.
        """
        return self._prepared_recipe().vocabulary.shared == shared

    def has_directions_of(self, recipe: Recipe) -> bool:
        return self._prepared_recipe().data.directions == recipe.data.directions

    def has_vocabulary_of(self, recipe: Recipe) -> bool:
        """Whether the vocabulary is described as in ``recipe``."""
        return self._prepared_recipe().vocabulary == recipe.vocabulary

    def network(self) -> tuple[TransformerConfig, dict[str, Tensor]]:
        """Configuration and state dict. Raises ``InvalidRecipe`` if they are missing or stale."""
        initial, name = self.recipe.initial, self.recipe.name
        if not self.run.averaged.exists():
            raise InvalidRecipe(
                f"recipe {name!r} starts from the run {initial!r}, and {self.run.averaged} does "
                f"not exist; run `python -m training run {initial}` first, or let `initial` be the "
                "path of the bundle that the run has published"
            )
        document = checkpoint.load(self.run.averaged)
        if document.get("vocabulary") != vocabulary_of(self.run):
            raise InvalidRecipe(
                f"{self.path} was prepared with another vocabulary than it had been trained with; "
                f"run `python -m training run {initial}` again before {name!r} starts from it"
            )
        return TransformerConfig(**document["config"]), document["network"]

    def require_prepared(self) -> None:
        """Raise ``InvalidRecipe`` if the run has not been prepared."""
        if not self.run.recipe.exists() or not self.run.data.is_dir():
            raise InvalidRecipe(
                f"recipe {self.recipe.name!r} starts from the run {self.recipe.initial!r}, and "
                f"{self.path} has not been prepared; run `python -m training run "
                f"{self.recipe.initial}` first"
            )

    def _prepared_recipe(self) -> Recipe:
        self.require_prepared()
        return Recipe.from_dict(json.loads(self.run.recipe.read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class PretrainedBundle:
    """The network of a published bundle."""

    recipe: Recipe
    """The recipe whose ``initial`` names the bundle."""
    bundle: Bundle

    @property
    def label(self) -> str:
        return f"the bundle {self.recipe.initial!r}"

    @property
    def path(self) -> Path:
        """The directory of the tokenizers."""
        return self.bundle.path

    @property
    def origin(self) -> dict[str, Any]:
        """Description of the initial bundle in the report of ``prepare``, because the bundle may be
        replaced later."""
        manifest = self.bundle.manifest
        alignment = manifest.alignment and manifest.alignment.model_dump()
        return {
            "bundle": manifest.name,
            "version": manifest.version,
            "directions": [[each.source, each.target] for each in manifest.directions],
            "data": [corpus.model_dump(mode="json") for corpus in manifest.provenance.data],
            **({"alignment": alignment} if alignment else {}),
        }

    def tokenizers(self) -> Tokenizers:
        return self.bundle.tokenizers()

    def allows_sharing(self, shared: bool) -> bool:
        """Whether both sides may share a vocabulary, or may have two, in a run that starts here.

        An imported bundle may have the same pieces in two tokenizers.
        """
        if not shared:
            return TOKENIZER not in self.bundle.manifest.files
        both = self.tokenizers()
        source, target = (
            each.pieces(range(each.vocabulary_size)) for each in (both.source, both.target)
        )
        return source == target

    def has_directions_of(self, recipe: Recipe) -> bool:
        """Whether directions and the prefixes that select them are those of ``recipe``."""
        return has_directions(self.bundle, recipe.data.directions)

    def has_vocabulary_of(self, recipe: Recipe) -> bool:
        """Whether the tokenizers are described as in ``recipe``.

        A manifest does not have the recipe, so the SentencePiece models describe themselves.
        """
        shared = TOKENIZER in self.bundle.manifest.files
        names = (TOKENIZER,) if shared else (SOURCE_TOKENIZER, TARGET_TOKENIZER)
        described = {_described(self.path / name, shared) for name in names}
        # A tokenizer does not tell how much text it was learned from.
        return described == {replace(recipe.vocabulary, sample=Vocabulary().sample)}

    def network(self) -> tuple[TransformerConfig, dict[str, Tensor]]:
        """Configuration and state dict. Raises ``InvalidBundle`` if the graph has others."""
        return read_network(self.bundle)


Pretrained: TypeAlias = PretrainedRun | PretrainedBundle


def find_pretrained(recipe: Recipe, run: RunDirectory, bundles: Path) -> Pretrained:
    """The run beside ``run`` that ``recipe.initial`` names, or else the bundle.

    A bundle is named by its name in ``bundles``, or by its path. Raises ``InvalidRecipe`` if there
    is neither or the run has not been prepared, and ``InvalidBundle`` if the bundle is damaged.
    """
    assert recipe.initial is not None
    beside = run.path.parent / recipe.initial
    if beside.is_dir() and not (beside / MANIFEST).exists():
        found = PretrainedRun(recipe, RunDirectory(beside))
        found.require_prepared()
        return found
    try:
        bundle = find_translator(recipe.initial, bundles)
    except NoTranslator as error:
        raise InvalidRecipe(
            f"recipe {recipe.name!r} starts from {recipe.initial!r}: there is no run {beside} and "
            f"no bundle {bundles / recipe.initial}; run `python -m training run {recipe.initial}` "
            "first, or name other directories with --runs and --bundles"
        ) from error
    return PretrainedBundle(recipe, Bundle.open(bundle))


def unwritable_ids(weights: Mapping[str, Tensor]) -> frozenset[int]:
    """The target ids whose bias in a state dict keeps the network from ever writing them.

    Imported networks have such ids: pieces of the tokenizer that the checkpoint has no row for.
    """
    bias_V = weights.get("generator.bias")
    if bias_V is None:
        return frozenset()
    return frozenset(torch.nonzero(bias_V < HIDDEN / 2).flatten().tolist())


def has_directions(bundle: Bundle, directions: Sequence[tuple[str, str]]) -> bool:
    """Whether a bundle has these directions, and selects them as training does.

    Training writes a tag before each source if there are two directions, and nothing if there is
    one. Imported networks may need other tokens, also at the beginning of the translation.
    """
    pieces = bundle.tokenizers().source.pieces
    found = {
        (each.source, each.target): (pieces(each.source_prefix), each.target_prefix)
        for each in bundle.manifest.directions
    }
    wanted: dict[tuple[str, str], tuple[tuple[str, ...], tuple[int, ...]]] = {
        (source, target): ((tag_of(target),) if len(directions) > 1 else (), ())
        for source, target in directions
    }
    return found == wanted


def _described(path: Path, shared: bool) -> Vocabulary:
    """The description of a tokenizer, as its SentencePiece model records it."""
    spec = parse(path.read_bytes(), str(path)).trainer_spec
    kind = protocol.TrainerSpec.ModelType.Name(spec.model_type).lower()
    return Vocabulary(
        size=spec.vocab_size,
        kind=cast(Literal["unigram", "bpe", "word"], kind),
        shared=shared,
        # SentencePiece stores fp32.
        character_coverage=round(spec.character_coverage, 6),
        lossless=spec.byte_fallback,
    )
