"""Architecture rules: imports between packages, class names, environment, dependencies, size."""

from __future__ import annotations

import ast
import functools
import gc
import graphlib
import importlib.metadata
import re
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import ROOT, output_of, python

OURS = {"dragoman", "service", "training", "models", "benchmarks", "tools", "tests"}

MAY_IMPORT = {
    "dragoman": {"dragoman"},
    "tools": {"tools"},
    "examples": {"dragoman"},
    "models.bundle": {"models.bundle"},
    "models.text": {"models.text"},
    "models.transformer": {"models.transformer"},
    "models.reference": {"models.reference", "models.bundle", "models.transformer.config"},
    "models.export": {
        "models.export",
        "models.bundle",
        "models.reference",
        "models.transformer.config",
    },
    "models.fetching": {"models.fetching", "models.zstandard"},
    "models.importing": {
        "models.importing",
        "models.bundle",
        "models.export",
        "models.reference",
        "models.transformer.config",
        "models.zstandard",
    },
    "training": {"training", "models"},
    "service": {
        "service",
        "models.bundle",
        "models.export",
        "models.fetching",
        "models.importing",
        "models.text",
    },
    "service.bootstrap": {"service", "models.bundle"},
    "service.cli": {"service"},
    "service.commands.errors": {
        "service",
        "models.bundle.manifest",
        "models.export.errors",
        "models.fetching.errors",
        "models.importing.refusals",
    },
    "service.commands.lines": {"service", "dragoman", "models.bundle"},
    "service.commands.remote": {"service.commands", "dragoman"},
    "service.commands.models": {
        "service.loading.discovery",
        "models.fetching",
        "service.commands.command",
        "service.commands.terminal",
        "service.settings",
        "models.bundle",
        "models.export",
        "models.importing",
    },
    "service.settings": set[str](),
    "service.runtime": {
        "service.runtime",
        "models.bundle",
        "models.export.admission",
        "models.export.averages",
    },
    "service.threads": set[str](),
    "service.engine": {
        "service.engine",
        "service.runtime.backend",
        "service.threads",
        "models.bundle.manifest",
    },
    "service.observability": {
        "service.observability",
        "service.engine.iteration",
        "service.engine.types",
    },
    "service.translation": {
        "service.translation",
        "service.catalogue",
        "service.engine",
        "service.runtime.backend",
        "service.text",
        "service.threads",
        "models.bundle",
    },
    "service.text.markup": {
        "service.text.markup",
        "service.text.alignment",
        "service.text.errors",
        "service.text.words",
    },
    "service.text": {
        "service.text",
        "service.engine.errors",
        "models.text",
    },
    "service.catalogue": {
        "service.catalogue",
        "service.engine",
        "service.runtime.backend",
        "service.text",
        "service.threads",
        "models.bundle",
        "models.text",
    },
    "service.inspection": {
        "service.inspection",
        "service.catalogue",
        "service.engine",
        "service.runtime.backend",
        "service.text",
        "service.translation",
    },
    "service.helpers": {"service.helpers", "service.threads"},
    "service.documents": {
        "service.documents",
        "service.helpers",
        "service.translation.errors",
        "service.text.markup",
        "service.text",
    },
    "service.bulk": {
        "service.bulk",
        "service.engine.errors",
        "service.engine.types",
        "service.translation.decoding",
        "service.translation.errors",
        "service.translation.local_translator",
        "service.translation.tasks",
        "service.translation.types",
        "service.text",
    },
    "service.document_jobs": {
        "service.document_jobs",
        "service.documents",
        "service.engine.errors",
        "service.engine.types",
        "service.threads",
        "service.observability.metrics",
        "service.state",
        "service.translation",
        "service.catalogue",
        "service.text",
    },
    "service.loading": {
        "service.loading",
        "service.threads",
        "service.observability",
        "service.engine",
        "service.runtime",
        "service.settings",
        "service.translation",
        "models.bundle",
        "service.catalogue",
        "service.text",
    },
    "service.server": {
        "service.server",
        "service.threads",
        "service.api",
        "service.settings",
        "service.state",
        "service.observability.logging",
    },
    "service.workers": {
        "service.workers",
        "models.bundle",
        "service.api",
        "service.bootstrap",
        "service.catalogue",
        "service.engine.errors",
        "service.engine.types",
        "service.helpers",
        "service.inspection.kept_translations",
        "service.loading.tokenizers",
        "service.observability",
        "service.server",
        "service.settings",
        "service.text",
        "service.translation",
    },
    "service.ray": {
        "service.ray",
        "service.bootstrap",
        "service.local_models",
        "service.bulk",
        "service.commands.command",
        "service.commands.terminal",
        "service.engine.errors",
        "service.observability",
        "service.runtime.sessions",
        "service.server",
        "service.settings",
        "service.translation",
        "service.catalogue",
        "service.text",
    },
    "service.state": {
        "service.state",
        "service.translation.types",
        "models.bundle.languages",
        "service.text",
    },
    "service.figures": {
        "service.engine.errors",
        "service.engine.search_tree",
        "service.figures",
        "service.helpers",
        "service.translation",
        "service.inspection",
        "service.catalogue",
        "service.text",
    },
    "service.api": {
        "service.api",
        "service.document_jobs",
        "service.documents",
        "service.threads",
        "service.figures",
        "service.state",
        "service.translation",
        "service.engine.errors",
        "service.engine.search_tree",
        "service.engine.types",
        "service.observability",
        "models.bundle.languages",
        "service.catalogue",
        "service.inspection",
        "service.text",
    },
}
"""Packages of this project that each package may import; a longer name narrows a shorter one."""

NEVER_IMPORTS = {
    "models.bundle": {"torch", "onnx", "onnxruntime"},
    "models.text": {"torch", "onnx", "onnxruntime"},
    "models.transformer": {"onnx", "onnxruntime"},
    "models.reference": {"torch", "onnx", "onnxruntime"},
    "models.export": {"torch"},
    "models.fetching": {"torch", "transformers", "onnx"},
    "models.importing": {"torch", "transformers"},
    "service": {"torch", "onnx", "tensorboard"},
    "service.runtime": {"fastapi", "prometheus_client", "starlette"},
    "service.engine": {"fastapi", "onnxruntime", "prometheus_client", "sentencepiece", "starlette"},
    "service.translation": {"fastapi", "onnxruntime", "prometheus_client", "starlette"},
    "service.document_jobs": {"fastapi", "numpy", "onnxruntime", "starlette"},
    "service.loading": {"fastapi", "starlette"},
    "service.documents": {"fastapi", "numpy", "onnxruntime", "starlette"},
    "service.bulk": {"fastapi", "numpy", "onnxruntime", "prometheus_client", "starlette"},
    "service.state": {"fastapi", "numpy", "onnxruntime", "starlette"},
    "service.figures": {"fastapi", "onnxruntime", "prometheus_client", "starlette"},
    "service.api": {"numpy", "onnxruntime"},
}
"""Third-party distributions that each package must not import."""

MAY_STILL_IMPORT = {"service.api.fields.percent_encoding": {"numpy"}}
"""Exceptions: megabytes of escapes are decoded as an array of bytes."""

EXTRAS_OF = {
    "dragoman": (),
    "models.bundle": ("serve",),
    "models.export": ("cpu",),
    "models.fetching": ("cpu",),
    "models.importing": ("cpu",),
    "models.reference": ("cpu",),
    "models.text": (),
    "service": ("cpu",),
    "service.observability.device": ("gpu",),
    "service.observability.otlp": ("cpu", "tracing"),
    "service.api.oidc": ("cpu", "oidc"),
    "service.state.bounded_connection": ("cpu", "fleet"),
    "service.state.shared_rates": ("cpu", "fleet"),
    "service.state.redis_server": ("cpu", "fleet"),
    "service.ray.deployment": ("cpu", "ray"),
    "service.ray.data": ("cpu", "ray"),
}
"""Each package, and with which extras it can be imported; a longer name overrules a shorter one."""

ENTRY_POINTS = {
    "service.commands.serve",
    "service.ray.deployment",
    "service.workers.worker",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(package: str) -> list[Path]:
    directory = ROOT / package.replace(".", "/")
    found = (
        sorted(directory.rglob("*.py")) if directory.is_dir() else [directory.with_suffix(".py")]
    )
    assert found, f"{package} has no modules"
    return found


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = (f"{module}.{alias.name}" for alias in node.names)
            found.update(name if is_module(name) else module for name in names)
    return frozenset(found)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@functools.cache
def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        described: dict[str, Any] = tomllib.load(file)["project"]
    return described


def distribution(requirement: str) -> str:
    """``onnxruntime-gpu[cuda]==1`` is ``onnxruntime-gpu``."""
    return re.sub(r"[._]", "-", re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower())


@pytest.fixture(autouse=True, scope="module")
def no_garbage_collection() -> Iterator[None]:
    """A collection that runs Python code in ``ast.parse`` makes CPython 3.11 raise an error."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_permitted_packages(package: str) -> None:
    for path in modules_of(package):
        for module in imports_of(path):
            # The bare package is its name and version.
            if module.split(".")[0] in OURS and module != "service":
                longest = max((n for n in MAY_IMPORT if within(module_name(path), n)), key=len)
                assert any(within(module, allowed) for allowed in MAY_IMPORT[longest]), (
                    f"{path.relative_to(ROOT)} imports {module}"
                )


@pytest.mark.parametrize("package", NEVER_IMPORTS)
def test_packages_import_no_forbidden_distribution(package: str) -> None:
    for path in modules_of(package):
        forbidden = NEVER_IMPORTS[package] - MAY_STILL_IMPORT.get(module_name(path), set())
        for module in imports_of(path):
            assert module.split(".")[0] not in forbidden, (
                f"{path.relative_to(ROOT)} imports {module}"
            )


ROOMS = ("benchmarks", "dragoman", "models", "service", "tools", "training")


def test_imports_form_no_cycle() -> None:
    modules = {module_name(path): path for room in ROOMS for path in modules_of(room)}
    imports = {
        name: {module for module in imports_of(path) if module in modules and module != name}
        for name, path in modules.items()
    }
    # Raises CycleError, which names the modules.
    graphlib.TopologicalSorter(imports).prepare()


def test_no_class_name_is_used_twice_in_a_package() -> None:
    for directory in {path.parent for room in ROOMS for path in modules_of(room)}:
        classes = Counter(
            node.name
            for path in directory.glob("*.py")
            for node in tree_of(path).body
            if isinstance(node, ast.ClassDef)
        )
        assert [name for name, count in classes.items() if count > 1] == [], directory


def test_service_has_no_module_outside_of_its_rooms_but_the_entries() -> None:
    loose = {path.stem for path in (ROOT / "service").glob("*.py")}
    assert loose == {"__init__", "__main__", "bootstrap", "cli", "local_models", "settings"}


def test_only_entry_points_import_the_composition_root() -> None:
    for path in modules_of("service"):
        if module_name(path) not in ENTRY_POINTS:
            assert "service.bootstrap" not in imports_of(path), path.relative_to(ROOT)


def test_only_the_settings_read_the_environment() -> None:
    for path in modules_of("service"):
        if module_name(path) == "service.settings":
            continue
        for node in ast.walk(tree_of(path)):
            touched = node.attr if isinstance(node, ast.Attribute) else ""
            imported = [a.name for a in node.names] if isinstance(node, ast.ImportFrom) else []
            assert not {"environ", "environb", "getenv"} & {touched, *imported}, (
                f"{path.relative_to(ROOT)} reads the environment"
            )


def required_distributions(extras: tuple[str, ...]) -> set[str]:
    """Direct requirements of this project with these extras, and without any."""
    requirements = list(project()["dependencies"])
    for extra in extras:
        requirements += project()["optional-dependencies"][extra]
    ours = [each for each in requirements if distribution(each) == project()["name"]]
    nested = [name for each in ours for name in re.findall(r"[a-z]+(?=[,\]])", each)]
    found = {distribution(each) for each in requirements} - {project()["name"]}
    return found | required_distributions(tuple(nested)) if nested else found


@functools.cache
def providers() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@pytest.mark.parametrize(
    "package",
    [
        "dragoman",
        "models.bundle",
        "models.export",
        "models.fetching",
        "models.importing",
        "models.reference",
        "models.text",
        "service",
    ],
)
def test_a_package_imports_only_what_its_extras_install(package: str) -> None:
    for path in modules_of(package):
        longest = max((n for n in EXTRAS_OF if within(module_name(path), n)), key=len)
        installed = required_distributions(EXTRAS_OF[longest])
        for module in imports_of(path):
            top = module.split(".")[0]
            if top in OURS or top in sys.stdlib_module_names:
                continue
            known = {distribution(name) for name in providers().get(top, [top])}
            assert installed & known, (
                f"{path.relative_to(ROOT)} imports {module}, which {EXTRAS_OF[longest]} lacks"
            )


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import service.bootstrap, service.cli", {"torch", "onnx"}),
        ("import dragoman", {"numpy", "service"}),
        ("import service.local_models", {"fastapi", "sqlalchemy", "service.api", "service.state"}),
        (
            "import models.importing.importing, models.export.publication",
            {"torch", "transformers", "service", "training"},
        ),
        (
            "import models.bundle.bundle, models.bundle.graphs",
            {"torch", "onnx", "onnxruntime", "service", "training"},
        ),
    ],
)
def test_heavy_distributions_are_not_imported_indirectly(program: str, absent: set[str]) -> None:
    check = f"{program}; import sys; print(sorted({absent!r} & set(sys.modules)))"
    assert python("-c", check).strip() == "[]"


def test_lock_pins_every_direct_requirement() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[a-z0-9.]+", pin) for pin in pins)
    pinned = {distribution(pin) for pin in pins}
    groups = [project()["dependencies"], *project()["optional-dependencies"].values()]
    asked = {distribution(requirement) for group in groups for requirement in group}
    assert asked - {project()["name"]} <= pinned
    assert "torch==2.13.0" in pins


def test_a_clone_is_small() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so nothing says which files belong to it")
    files = [ROOT / name for name in output_of("git", "ls-files", "-z").split("\0") if name]
    size = sum(file.lstat().st_size for file in files if file.is_symlink() or file.exists())
    assert size < 32 * 2**20, f"the tracked files have {size / 2**20:.1f} MiB together"
