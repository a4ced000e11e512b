"""Finds bundles in a directory and fingerprints their files for change detection."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from errno import EINVAL
from pathlib import Path

from models.bundle.bundle import MANIFEST, read_manifest
from models.bundle.manifest import InvalidBundle
from service.catalogue.catalogue import NO_PREFERENCE, Preference, in_pivot_order, rank
from service.catalogue.repository import FoundBundle, Stamp
from service.text.types import LanguagePair


def discover(directory: Path) -> list[FoundBundle]:
    """The bundles in a directory, sorted by name: entries that have a manifest and are not hidden.

    A bundle whose manifest cannot be read is listed too, so that loading reports the error.
    Blocks. Raises ``OSError`` if the directory itself cannot be listed, is a bundle, or went away
    meanwhile.
    """
    if (directory / MANIFEST).exists():
        raise OSError(EINVAL, "is a bundle; name the directory that contains it", str(directory))
    found = []
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        try:
            (path / MANIFEST).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            found.append(FoundBundle(path.name, path))
        else:
            found.append(FoundBundle(path.name, path, _stamp(path), _model_of(path)))
    # Bundles of a directory that went away in the meantime are not removed ones.
    directory.stat()
    return found


def _model_of(path: Path) -> str | None:
    try:
        return read_manifest(path).name
    except InvalidBundle:
        return None


def _stamp(bundle: Path) -> Stamp:
    """Covers all files, because a copy in progress may have written the manifest first."""
    stamp = []
    for directory, _, names in os.walk(bundle):
        for path in (Path(directory, name) for name in names):
            name = str(path.relative_to(bundle))
            try:
                status = path.stat()
            except OSError:
                # The file was deleted during the walk, or is a dangling link.
                stamp.append((name, 0, 0, 0))
            else:
                stamp.append((name, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(sorted(stamp))


def only(bundles: Iterable[FoundBundle], pair: LanguagePair) -> list[FoundBundle]:
    """The bundles for one pair. Keeps unreadable ones, so that loading reports the error."""
    found = ((bundle, pairs_of(bundle)) for bundle in bundles)
    return [bundle for bundle, pairs in found if pairs is None or pair in pairs]


def for_pair(
    bundles: Sequence[FoundBundle],
    pair: LanguagePair,
    preference: Preference = NO_PREFERENCE,
    model: str | None = None,
) -> list[FoundBundle]:
    """The bundle that a catalogue takes for a pair, or the two for a route through a pivot.

    The one of the model called ``model``, if given. Unreadable bundles stand for a pair that no
    other has, so that loading reports the error.
    """
    if model is not None:
        bundles = [bundle for bundle in bundles if bundle.model == model]
    direct = only(bundles, pair)
    if any(bundle.model not in preference.canaries for bundle in direct):
        return _best(direct, pair, preference)
    known = _pairs_of_all(bundles)
    pivots = {
        leg.target
        for leg in known
        if leg.source == pair.source and LanguagePair(leg.target, pair.target) in known
    }
    for pivot in in_pivot_order(pivots)[:1]:
        legs = (LanguagePair(pair.source, pivot), LanguagePair(pivot, pair.target))
        return [each for leg in legs for each in _best(only(bundles, leg), leg, preference)]
    return _best(direct, pair, preference)


def _best(
    bundles: Sequence[FoundBundle], pair: LanguagePair, preference: Preference
) -> list[FoundBundle]:
    readable = {bundle.name: bundle for bundle in bundles if pairs_of(bundle) is not None}
    if not readable:
        return list(bundles)
    ranks = {
        name: rank(read_manifest(bundle.path), pair, preference)
        for name, bundle in readable.items()
    }
    return [readable[min(ranks, key=ranks.__getitem__)]]


def _pairs_of_all(bundles: Iterable[FoundBundle]) -> frozenset[LanguagePair]:
    return frozenset[LanguagePair]().union(*(pairs_of(bundle) or () for bundle in bundles))


def sources_of(bundles: Iterable[FoundBundle], target: str) -> tuple[str, ...]:
    """The languages that the bundles translate to ``target``, directly or through a pivot."""
    known = _pairs_of_all(bundles)
    direct = {pair.source for pair in known if pair.target == target}
    indirect = {pair.source for pair in known if pair.target in direct}
    return tuple(sorted((direct | indirect) - {target}))


def pairs_of(bundle: FoundBundle) -> frozenset[LanguagePair] | None:
    """The language pairs in a bundle's manifest; ``None`` if it cannot be read."""
    try:
        manifest = read_manifest(bundle.path)
    except InvalidBundle:
        return None
    return frozenset(LanguagePair(d.source, d.target) for d in manifest.directions)
