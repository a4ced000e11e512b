"""``dragoman models``: finds, fetches, converts, lists, verifies and removes models."""

from __future__ import annotations

import argparse
import fcntl
import logging
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from models.bundle.bundle import Bundle, read_manifest
from models.bundle.languages import display_name
from models.bundle.manifest import Direction, InvalidBundle, Manifest, Score
from models.export.errors import ParityError
from models.fetching import firefox
from models.fetching.argos_index import fetch_package, find, read_index
from models.fetching.catalogue import (
    best_of,
    firefox_of,
    pairs,
    read_catalogue,
    read_firefox,
)
from models.fetching.errors import FetchFailed
from models.importing.refusals import ImportRefused
from service.commands.command import (
    DONE,
    FAILED,
    GET_ONE,
    CommandFailed,
    add_bundles,
    message_of,
    settings_of,
)
from service.commands.terminal import say
from service.loading.discovery import discover
from service.settings import Settings

HUB, ARGOS, FIREFOX = "hf:", "argos:", "firefox:"
PIVOT = "en"
"""Language between two models, for a pair that no table has."""
DOWNLOADS = ".downloads"
"""Directory beside the bundles of models that are being fetched."""
_PAIR = re.compile(r"[A-Za-z]{2,3}(_[A-Za-z]+)?-[A-Za-z]{2,3}(_[A-Za-z]+)?")
_ADDED = "a running service loads it within seconds; otherwise: dragoman serve"
_MOST_SHOWN = 6
"""Most directions listed for one bundle."""
_OF_LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*)=(.+)")


@dataclass(frozen=True, slots=True)
class Origin:
    """A model on disk, where it is from, and the name of its bundle."""

    path: Path
    name: str | None = None
    source: str | None = None
    """Repository or index of a fetched model, and its version; ``None`` for the user's path."""
    languages: tuple[str, str] | None = None
    """Its pair, if its origin says so."""
    scores: tuple[Score, ...] = ()
    """Published scores."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="action")
    listing = actions.add_parser("list", help="list the bundles and what they translate")
    add_bundles(listing)
    listing.set_defaults(run=_list)
    verify = actions.add_parser("verify", help="compare every file of the bundles with its hash")
    add_bundles(verify)
    verify.set_defaults(run=_verify)
    search = actions.add_parser("search", help="find models that can be added")
    search.add_argument(
        "codes", metavar="CODE", nargs="*", help="languages or a pair, such as: de en, or de-en"
    )
    search.set_defaults(run=_search)
    remove = actions.add_parser("remove", help="delete bundles")
    remove.add_argument("names", metavar="NAME", nargs="+")
    add_bundles(remove)
    remove.set_defaults(run=_remove)
    add = actions.add_parser(
        "add",
        help="make bundles of models",
        description="Make bundles of models: of a language pair (de-en, fetched from where the "
        "catalogue says), firefox:de-en, hf:REPOSITORY, argos:de-en, or on disk: a Hugging Face "
        "checkpoint of MarianMT (OPUS-MT), M2M100 or NLLB, a CTranslate2 model, a package of Argos "
        "Translate, a model of Marian or Firefox; a folder or a zip archive; a bundle is copied.",
    )
    add.add_argument(
        "models", metavar="MODEL", nargs="*", help="PAIR, firefox:PAIR, hf:…, argos:PAIR or PATH"
    )
    add.add_argument(
        "--missing",
        action="store_true",
        help="add pairs that no bundle translates; with no MODEL, those of DRAGOMAN_MODELS; what "
        "cannot be added is reported and does not fail the command",
    )
    add.add_argument(
        "--upgrade",
        action="store_true",
        help="add a pair also if a bundle translates it and the catalogue has a better model",
    )
    add.add_argument("--name", help="of the bundle (default: the directory's)")
    for option, dest, side in (("--from", "sources", "source"), ("--to", "targets", "target")):
        add.add_argument(
            option,
            dest=dest,
            metavar="CODE",
            nargs="+",
            default=[],
            help=f"{side} languages to offer (default: all that the model names)",
        )
    add.add_argument(
        "--languages",
        metavar="CODE",
        nargs="+",
        default=[],
        help="offer every pair of these, both ways",
    )
    add.add_argument(
        "--precisions",
        nargs="+",
        choices=("fp32", "int8", "fp16"),
        default=["int8"],
        help="what the bundle offers (default: int8)",
    )
    add.add_argument(
        "--calibrate",
        metavar="[CODE=]FILE",
        nargs="+",
        default=[],
        help="some hundred source sentences, one per line, which calibrate int8 and become "
        "examples (default: generated ones); with several source languages, say of which each is",
    )
    add_bundles(add)
    add.set_defaults(run=_add)


def _add(options: argparse.Namespace) -> int:
    if options.languages and (options.sources or options.targets):
        raise CommandFailed("--languages says both sides; --from and --to cannot, besides")
    settings = Settings.from_environment(bundles=options.bundles)
    with _alone(settings.bundles):
        _add_all(settings, options)
    return DONE


def _add_all(settings: Settings, options: argparse.Namespace) -> None:
    wanted = options.models
    if options.missing:
        names = ",".join(wanted or [settings.models]).replace(",", " ").split()
        wanted = _missing(names, settings.bundles, upgrade=options.upgrade)
        legs = list(dict.fromkeys(_legs(wanted)))
        if legs != wanted:
            wanted = _missing(legs, settings.bundles, upgrade=options.upgrade)
    elif not wanted:
        raise CommandFailed("name a model: a pair such as de-en, hf:REPOSITORY, argos:PAIR, a path")
    else:
        wanted = list(dict.fromkeys(_legs(wanted)))
        if options.upgrade:
            wanted = _missing(wanted, settings.bundles, upgrade=True)
    if options.name is not None and len(wanted) > 1:
        raise CommandFailed(f"--name is for one bundle, and {' and '.join(wanted)} are several")
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    # Not the root logger: HTTP clients would report every request.
    logging.getLogger("models").setLevel(logging.INFO)
    for model in wanted:
        try:
            _add_one(model, settings, options)
        except (FetchFailed, ImportRefused, InvalidBundle, ParityError, OSError) as error:
            if not options.missing:
                raise
            # A full disk or a name that is taken must not keep other models from being added.
            print(f"dragoman: {model} is not added: {message_of(error)}", file=sys.stderr)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until no other command adds models there: they would write the same files."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".adding").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another command is adding models; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _add_one(model: str, settings: Settings, options: argparse.Namespace) -> None:
    # onnx and safetensors are imported only by this action.
    from models.export.publication import described
    from models.importing.importing import import_model, licence_of, require_name

    if options.name is not None:
        require_name(options.name)
    try:
        origin = _origin(model, settings)
    except ImportError as error:
        # A proxy may need a package that is not installed.
        raise FetchFailed(f"{model} cannot be fetched: {error}") from error
    if origin.source is None and (origin.path / "manifest.json").is_file():
        _add_bundle(origin.path, settings.bundles, options.name)
        return
    if origin.source is not None:
        licence = licence_of(origin.path) or "not stated; see its origin"
        print(f"{origin.source}, licence: {licence}", file=sys.stderr)
    source, target = [[code] for code in origin.languages] if origin.languages else [[], []]
    bundle, proof = import_model(
        origin.path,
        settings.bundles,
        name=options.name or origin.name,
        origin=origin.source,
        sources=options.languages or options.sources or source,
        targets=options.languages or options.targets or target,
        precisions=tuple(options.precisions),
        texts=tuple(map(_text, options.calibrate)),
        scores=origin.scores,
    )
    if origin.path.parent == settings.bundles / DOWNLOADS:
        shutil.rmtree(origin.path) if origin.path.is_dir() else origin.path.unlink()
    print(proof)
    print(described(bundle).splitlines()[0])
    print(_ADDED)


def _add_bundle(path: Path, directory: Path, name: str | None) -> None:
    """Copy a bundle, after its hashes have been compared, as the model ``name``, if given."""
    manifest = Bundle.open(path).manifest
    target = directory / (name or manifest.name)
    if target.exists():
        raise CommandFailed(f"{target} exists; remove that bundle, or choose another --name")
    if name is not None:
        manifest = manifest.model_copy(update={"name": name})
    Bundle.write(target, manifest, {file: path / file for file in manifest.files})
    print(f"{target.name}: {_described(manifest)}")
    print(_ADDED)


def _origin(model: str, settings: Settings) -> Origin:
    """The model on disk, fetched if necessary; raises ``FetchFailed``."""
    if model.startswith(HUB):
        return _of_hub(model.removeprefix(HUB), settings)
    if model.startswith(ARGOS):
        return _of_argos(model.removeprefix(ARGOS), settings)
    if model.startswith(FIREFOX):
        return _of_firefox(model.removeprefix(FIREFOX), settings)
    if Path(model).exists() or not _PAIR.fullmatch(model):
        return Origin(Path(model))
    best = best_of(model)
    if best is None:
        return _of_argos(model, settings)
    origin = _origin(best.name, settings)
    if best.flores is None:
        return origin
    score = Score(
        metric="BLEU",
        value=best.flores,
        test_set=f"flores/devtest, {model}",
        precision="int8" if best.name.startswith(FIREFOX) else "fp32",
        beam_size=0,
        signature=best.publication,
    )
    return replace(origin, scores=(score,))


def _of_hub(repository: str, settings: Settings) -> Origin:
    # huggingface_hub is imported only to fetch.
    from models.fetching.hub import fetch_repository

    fetched = fetch_repository(repository, settings.bundles / DOWNLOADS)
    name = re.sub(r"[^a-z0-9._-]+", "-", repository.rpartition("/")[2].lower())
    return Origin(fetched.directory, name, f"{HUB}{repository} at {fetched.commit[:12]}")


def _of_argos(pair: str, settings: Settings) -> Origin:
    package = find(read_index(settings.argos_index), pair)
    path = fetch_package(package, settings.bundles / DOWNLOADS)
    name = re.sub(r"[^a-z0-9._-]+", "-", f"argos-{pair}".lower())
    return Origin(path, name, f"{ARGOS}{pair}, version {package.version}")


def _of_firefox(pair: str, settings: Settings) -> Origin:
    architectures = [entry.architecture for entry in firefox_of(pair)]
    model = firefox.find(firefox.read_records(settings.firefox_records), pair, architectures)
    downloads = settings.bundles / DOWNLOADS
    path = firefox.fetch_model(model, settings.firefox_attachments, downloads)
    name = re.sub(r"[^a-z0-9._-]+", "-", f"firefox-{pair}".lower())
    origin = f"{FIREFOX}{pair}, version {model.version} ({model.architecture})"
    return Origin(path, name, origin, (model.source, model.target))


def _legs(models: Sequence[str]) -> list[str]:
    """Models to add, with a pair that no table has as two through ``PIVOT``, if these are known."""
    known, found = pairs(), []
    for model in models:
        source, _, target = model.partition("-")
        legs = [f"{source}-{PIVOT}", f"{PIVOT}-{target}"]
        direct = model in known or not _PAIR.fullmatch(model) or Path(model).exists()
        if direct or not known.issuperset(legs):
            found.append(model)
            continue
        print(f"{model} is added as {' and '.join(legs)}", file=sys.stderr)
        found += legs
    return found


def _missing(models: Sequence[str], directory: Path, *, upgrade: bool) -> list[str]:
    """The requested models that no bundle in the directory has, by pair or by origin.

    With ``upgrade``, also pairs for which the catalogue has a better model. Reports the models that
    are left out.
    """
    found = [manifest for _, manifest in _manifests(directory)] if directory.is_dir() else []
    origins = {manifest.provenance.origin.partition(" ")[0].rstrip(",") for manifest in found}
    missing = []
    for model in models:
        serving = [
            (manifest, manifest.score(each.source, each.target))
            for manifest in found
            for each in manifest.directions
            if f"{each.source}-{each.target}" == model
        ]
        best = best_of(model)
        if model in origins or (best is not None and best.name in origins and serving):
            say(f"{model} is there already; not fetched")
        elif not serving:
            missing.append(model)
        else:
            manifest, score = max(serving, key=lambda each: each[1] or 0.0)
            better = best is not None and (best.flores or 0.0) > (score or 0.0)
            if better and upgrade:
                missing.append(model)
                continue
            scored = f"{manifest.name}, FLORES {'not known' if score is None else score}"
            offer = ""
            if better and best is not None:
                offer = f"; the catalogue has {best.name}, FLORES {best.flores}: --upgrade adds it"
            say(f"{model} is translated by {scored}; not fetched{offer}")
    return missing


def _manifests(directory: Path) -> list[tuple[str, Manifest]]:
    """The readable manifests of a directory, by the names of their bundles."""
    found = []
    for bundle in discover(directory):
        try:
            found.append((bundle.name, read_manifest(bundle.path)))
        except InvalidBundle as error:
            print(f"{bundle.name}: broken: {error}", file=sys.stderr)
    return found


def _list(options: argparse.Namespace) -> int:
    directory = settings_of(options).bundles
    found = _manifests(directory)
    for name, manifest in found:
        print(f"{name}: {_described(manifest)}")
    if not found:
        print(f"{directory} holds no bundle; {GET_ONE}")
    return DONE


def _verify(options: argparse.Namespace) -> int:
    directory = settings_of(options).bundles
    found = discover(directory)
    if not found:
        print(f"{directory} holds no bundle; {GET_ONE}")
    broken = 0
    for bundle in found:
        try:
            manifest = Bundle.open(bundle.path).manifest
            print(f"{bundle.name}: {_described(manifest)}")
        except InvalidBundle as error:
            broken += 1
            print(f"{bundle.name}: broken: {error}")
    return FAILED if broken else DONE


def _named(direction: Direction) -> str:
    names = f"{display_name(direction.source)} → {display_name(direction.target)}"
    return f"{names} ({direction.source}-{direction.target})"


def _described(manifest: Manifest) -> str:
    """Languages, version, precisions and size of a bundle."""
    directions = ", ".join(map(_named, manifest.directions[:_MOST_SHOWN]))
    if (others := len(manifest.directions) - _MOST_SHOWN) > 0:
        directions += f" and {others} more"
    megabytes = sum(file.size for file in manifest.files.values()) / 1e6
    return (
        f"{directions}, version {manifest.version}, "
        f"{', '.join(manifest.precisions)}, {megabytes:.1f} MB"
    )


def _search(options: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    codes = {code.lower() for code in options.codes}

    def matches(source: str, target: str) -> bool:
        source, target = source.lower(), target.lower()
        return codes <= {source, target, f"{source}-{target}"}

    rows = []
    for own in read_firefox():
        if matches(own.source, own.target):
            score = f"FLORES {own.flores}, COMET {own.comet}" if own.flores else "FLORES not known"
            rows.append(
                f"{own.pair}\t{FIREFOX}{own.pair}\t{own.architecture}, "
                f"{int(own.bytes) / 1e6:.0f} MB\t{firefox.LICENCE}\t{score}"
            )
    for entry in read_catalogue():
        if matches(entry.source, entry.target):
            licence = entry.licence or "licence: see its card"
            score = f"FLORES {entry.flores}" if entry.flores else "FLORES not known"
            rows.append(
                f"{entry.pair}\t{HUB}{entry.repository}\t{entry.architecture}\t{licence}\t{score}"
            )
    try:
        for package in read_index(settings.argos_index):
            if matches(package.source, package.target):
                rows.append(f"{package.pair}\t{ARGOS}{package.pair}\tversion {package.version}")
    except (FetchFailed, ImportError) as error:
        print(f"dragoman: {error}", file=sys.stderr)
    for row in rows:
        print(row)
    pair = "-".join(options.codes)
    # Two models through another language are reported by ``_legs``.
    if not rows and _legs([pair]) == [pair]:
        say(f"no model of {pair} is known")
    return DONE


def _remove(options: argparse.Namespace) -> int:
    directory = settings_of(options).bundles
    found = {bundle.name: bundle.path for bundle in discover(directory)}
    names = dict.fromkeys(options.names)
    for name in names:
        if name not in found:
            raise CommandFailed(f"{directory} has no bundle {name!r}")
    for name in names:
        # A running service sees the whole bundle or none.
        hidden = directory / f".removed-{name}-{uuid4().hex}"
        found[name].rename(hidden)
        if hidden.is_symlink():
            hidden.unlink()
        else:
            shutil.rmtree(hidden)
        print(f"removed {name}")
    return DONE


def _text(argument: str) -> tuple[str | None, Path]:
    found = _OF_LANGUAGE.fullmatch(argument)
    return (found[1], Path(found[2])) if found else (None, Path(argument))
