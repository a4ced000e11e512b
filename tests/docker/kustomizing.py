"""Subset of kustomize that docker/kubernetes uses, for machines without kubectl."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

_WITHOUT_NAMESPACE = {"Namespace"}


def loaded(path: Path) -> list[Manifest]:
    """The objects of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def rendered(directory: Path) -> list[Manifest]:
    """The output of ``kubectl kustomize``; raises ``AssertionError`` for unsupported features."""
    (kustomization,) = loaded(directory / "kustomization.yaml")
    known = {"apiVersion", "kind", "namespace", "resources", "components", "images", "patches"}
    assert set(kustomization) <= known, f"{directory}: {set(kustomization) - known}"
    objects: list[Manifest] = []
    for name in kustomization.get("resources", ()):
        path = directory / name
        objects += rendered(path) if path.is_dir() else loaded(path)
    for name in kustomization.get("components", ()):
        apply(directory / name, objects)
    apply(directory, objects)
    for each in objects:
        if "namespace" in kustomization and each["kind"] not in _WITHOUT_NAMESPACE:
            each["metadata"]["namespace"] = kustomization["namespace"]
        for image in kustomization.get("images", ()):
            for container in containers(each):
                if container["image"] == image["name"]:
                    container["image"] = f"{image['newName']}:{image['newTag']}"
    return objects


def apply(directory: Path, objects: list[Manifest]) -> None:
    """Apply the patches of a kustomization, and add the resources of a component."""
    (kustomization,) = loaded(directory / "kustomization.yaml")
    if kustomization["kind"] == "Component":
        objects += [
            o for name in kustomization.get("resources", ()) for o in loaded(directory / name)
        ]
    for patch in kustomization.get("patches", ()):
        target = patch["target"]["kind"], patch["target"]["name"]
        hit = [each for each in objects if (each["kind"], each["metadata"]["name"]) == target]
        assert len(hit) == 1, f"{directory}: there are {len(hit)} of {target}"
        for operation in yaml.safe_load(patch["patch"]):
            change(hit[0], operation)


def change(document: Any, operation: dict[str, Any]) -> None:
    """Apply one operation of a JSON patch (RFC 6902)."""
    *way, last = operation["path"].removeprefix("/").split("/")
    for step in way:
        document = document[int(step) if isinstance(document, list) else step]
    value = copy.deepcopy(operation.get("value"))
    match operation["op"], document:
        case "add", list() if last == "-":
            document.append(value)
        case "replace", list():
            document[int(last)] = value
        case "replace", dict():
            assert last in document, operation["path"]
            document[last] = value
        case "remove", dict():
            del document[last]
        case _:
            raise AssertionError(f"unknown operation: {operation}")


def containers(manifest: Manifest) -> list[dict[str, Any]]:
    template = manifest.get("spec", {}).get("template", {})
    found: list[dict[str, Any]] = template.get("spec", {}).get("containers", [])
    return found
