"""Immutable catalogue of loaded models. Routes a language pair to one model, or via a pivot."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from models.bundle.languages import canonical, display_name, without_region
from models.bundle.manifest import Manifest
from service.catalogue.errors import UnknownLanguage, UnknownModel, UnsupportedPair
from service.catalogue.loaded_model import DirectedModel, LoadedModel
from service.catalogue.permission import Permission
from service.text.types import Language, LanguagePair

Route = tuple[DirectedModel, ...]
Side = Literal["sources", "targets"]

_HASHED = 1000
"""Characters of a text by which it is given to a canary."""


@dataclass(frozen=True, slots=True)
class Preference:
    """The models of a pair that requests without a model get."""

    first: tuple[str, ...] = ()
    """Names of models that are taken before others."""
    canaries: Mapping[str, float] = field(default_factory=dict)
    """Percentages of the texts of their pairs that models get; for others they come last, also
    behind a pivot."""


NO_PREFERENCE = Preference()


@dataclass(frozen=True)
class Catalogue:
    """The models that clients may choose, and the bundles that failed to load.

    Derived values are cached: a model may have thousands of directions.
    """

    models: tuple[LoadedModel, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Maps the bundle directory to the reason."""
    preference: Preference = NO_PREFERENCE

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted({pair.source for pair in self._by_pair}))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        return tuple(sorted({pair.target for pair in self._by_pair}))

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The codes of all source and target languages."""
        return tuple(sorted({*self.sources, *self.targets}))

    @cached_property
    def languages(self) -> tuple[Language, ...]:
        """All source and target languages, sorted by name."""
        languages = (Language(c, display_name(c), self.targets_of(c)) for c in self.codes)
        return tuple(sorted(languages, key=lambda language: language.name))

    def permitted(self, permission: Permission | None) -> tuple[Language, ...]:
        """The languages that a caller may use, in ``languages``. Blocks for many pairs."""
        if permission is None:
            return self.languages
        models = tuple(model for model in self.models if permission.permits_model(model.name))
        languages = [
            replace(
                each,
                targets=tuple(
                    target
                    for target in each.targets
                    if permission.permits(LanguagePair(each.code, target))
                ),
            )
            for each in replace(self, models=models).languages
        ]
        targets = {target for each in languages for target in each.targets}
        return tuple(each for each in languages if each.targets or each.code in targets)

    def targets_of(self, source: str) -> tuple[str, ...]:
        """The other languages that ``source`` is translated to, directly or through a pivot."""
        direct = self._direct(source)
        indirect = {target for pivot in direct for target in self._direct(pivot)}
        return tuple(sorted((direct | indirect) - {source}))

    def direct_pairs(self, permission: Permission | None = None) -> tuple[LanguagePair, ...]:
        """The pairs that a caller may translate by one model, without a pivot."""
        pairs = sorted(self._by_pair)
        if permission is not None:
            pairs = [
                pair
                for pair in pairs
                if permission.permits(pair) and self._directed_model(pair, permission)
            ]
        return tuple(pairs)

    def route(
        self,
        pair: LanguagePair,
        name: str | None = None,
        permission: Permission | None = None,
        text: str = "",
    ) -> Route:
        """The models from source to target: one, or two through a pivot.

        Of several models for a pair, the one called ``name`` is taken, else the canary that
        ``text`` falls to by its hash, else the best whose engine is alive: by preference, then by
        the FLORES score of its card, then by name.
        English is the preferred pivot. Models without ``permission`` are passed over. Raises
        ``UnknownModel``, ``UnsupportedPair`` or ``NotPermitted``.
        """
        if permission is not None:
            permission.check(pair)
        if name is not None:
            if permission is not None:
                permission.check_model(name)
            model = self.named(name)
            for directed in self._by_pair.get(pair, ()):
                if directed.model is model:
                    return (directed,)
            offered = [str(directed.pair) for directed in model.directed]
            raise UnsupportedPair(pair.source, pair.target, offered, name)
        if canary := self._canary(pair, permission, text):
            return (canary,)
        direct = self._directed_model(pair, permission)
        if direct and direct.model.name not in self.preference.canaries:
            return (direct,)
        routes = [
            (first, second)
            for pivot in in_pivot_order(self._direct(pair.source))
            if (first := self._directed_model(LanguagePair(pair.source, pivot), permission))
            and (second := self._directed_model(LanguagePair(pivot, pair.target), permission))
        ]
        if routes:
            return next((r for r in routes if all(w.model.engine.alive for w in r)), routes[0])
        if direct:
            return (direct,)
        if permission is not None:
            for directed in self.route(pair):
                permission.check_model(directed.model.name)
        raise UnsupportedPair(pair.source, pair.target, self.targets_of(pair.source))

    def named(self, name: str) -> LoadedModel:
        """Raises ``UnknownModel``."""
        for model in self.models:
            if model.name == name:
                return model
        raise UnknownModel(name, sorted(model.name for model in self.models))

    def language(self, code: str, side: Side) -> str:
        """The canonical spelling of a code; raises ``UnknownLanguage`` if it is not on offer.

        The code of a region is its language, if no variant of that is on offer.
        """
        return _known(code, self.codes, getattr(self, side))

    def pair(self, source: str, target: str) -> LanguagePair:
        """The pair of two codes in any spelling. A language may be paired with itself.

        Raises ``UnknownLanguage``, or ``UnsupportedPair`` if there is no route.
        """
        pair = LanguagePair(self.language(source, "sources"), self.language(target, "targets"))
        if pair.source != pair.target and pair.target not in self.targets_of(pair.source):
            raise UnsupportedPair(pair.source, pair.target, self.targets_of(pair.source))
        return pair

    @cached_property
    def _by_pair(self) -> Mapping[LanguagePair, tuple[DirectedModel, ...]]:
        """The directed models of each pair, the best first."""
        by_pair: dict[LanguagePair, tuple[DirectedModel, ...]] = {}
        for directed in (each for model in self.models for each in model.directed):
            by_pair[directed.pair] = (*by_pair.get(directed.pair, ()), directed)
        return {pair: tuple(sorted(own, key=self._rank)) for pair, own in by_pair.items()}

    def _rank(self, directed: DirectedModel) -> tuple[bool, int, float, str]:
        return rank(directed.model.manifest, directed.pair, self.preference)

    @cached_property
    def _targets(self) -> Mapping[str, set[str]]:
        """The languages that each source is translated to without a pivot."""
        targets: dict[str, set[str]] = {}
        for pair in self._by_pair:
            targets.setdefault(pair.source, set()).add(pair.target)
        return targets

    def _direct(self, source: str) -> set[str]:
        return self._targets.get(source, set())

    def _fitting(
        self, pair: LanguagePair, permission: Permission | None
    ) -> tuple[DirectedModel, ...]:
        fitting = self._by_pair.get(pair, ())
        if permission is None:
            return fitting
        return tuple(w for w in fitting if permission.permits_model(w.model.name))

    def _directed_model(
        self, pair: LanguagePair, permission: Permission | None
    ) -> DirectedModel | None:
        fitting = self._fitting(pair, permission)
        return next((w for w in fitting if w.model.engine.alive), fitting[0] if fitting else None)

    def _canary(
        self, pair: LanguagePair, permission: Permission | None, text: str
    ) -> DirectedModel | None:
        """The canary that a text falls to, if its engine is alive."""
        if not text or not (canaries := self.preference.canaries):
            return None
        place = _place_of(text)
        for directed in self._fitting(pair, permission):
            place -= canaries.get(directed.model.name, 0.0)
            if place < 0:
                return directed if directed.model.engine.alive else None
        return None


def _place_of(text: str) -> float:
    """A number from 0 up to 100 by which texts are distributed evenly."""
    start = text[:_HASHED].encode(errors="surrogatepass")
    digest = hashlib.blake2b(start, digest_size=4).digest()
    return int.from_bytes(digest) / 2**32 * 100


def in_pivot_order(codes: Iterable[str]) -> list[str]:
    """Languages in the order in which they are tried as pivots."""
    return sorted(codes, key=lambda code: (code != "en", code))


def rank(
    manifest: Manifest, pair: LanguagePair, preference: Preference
) -> tuple[bool, int, float, str]:
    """Sorts the models of a pair, the best first."""
    name, first = manifest.name, preference.first
    place = first.index(name) if name in first else len(first)
    score = manifest.score(pair.source, pair.target) or 0.0
    return name in preference.canaries, place, -score, name


def _known(code: str, languages: Sequence[str], offered: Iterable[str]) -> str:
    try:
        language = canonical(code)
    except ValueError as error:
        raise UnknownLanguage(code, offered) from error
    if (found := nearest(language, languages)) is None:
        raise UnknownLanguage(code, offered)
    return found


def nearest(language: str, languages: Collection[str]) -> str | None:
    """``language``, or without its region if none of ``languages`` has one; ``None`` if neither is
    one of them."""
    if language in languages:
        return language
    base = without_region(language)
    if base in languages and not any(each.startswith(f"{base}-") for each in languages):
        return base
    return None
