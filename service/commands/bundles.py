"""``dragoman bundles``: lists the bundles and verifies them."""

from __future__ import annotations

import argparse

from models.bundle.bundle import Bundle
from models.bundle.languages import display_name
from models.bundle.manifest import Direction, InvalidBundle, Manifest
from service.commands.command import DONE, FAILED, add_bundles, settings_of
from service.loading.discovery import discover

_MOST_SHOWN = 6
"""Most directions listed for one bundle."""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bundles = commands.add_parser("bundles", help="list the bundles and verify them")
    add_bundles(bundles)
    bundles.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = settings_of(options)
    found = discover(settings.bundles)
    if not found:
        print(f"{settings.bundles} holds no bundle")
    broken = 0
    for directory in found:
        try:
            manifest = Bundle.open(directory.path).manifest
            print(f"{manifest.name}: {described(manifest)}")
        except InvalidBundle as error:
            broken += 1
            print(f"{directory.name}: broken: {error}")
    return FAILED if broken else DONE


def _named(direction: Direction) -> str:
    names = f"{display_name(direction.source)} → {display_name(direction.target)}"
    return f"{names} ({direction.source}-{direction.target})"


def described(manifest: Manifest) -> str:
    """Languages, version, precisions and size of a bundle."""
    directions = ", ".join(map(_named, manifest.directions[:_MOST_SHOWN]))
    if (others := len(manifest.directions) - _MOST_SHOWN) > 0:
        directions += f" and {others} more"
    megabytes = sum(file.size for file in manifest.files.values()) / 1e6
    return (
        f"{directions}, version {manifest.version}, "
        f"{', '.join(manifest.precisions)}, {megabytes:.1f} MB"
    )
