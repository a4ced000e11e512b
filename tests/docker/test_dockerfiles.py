"""Tests of the Dockerfiles that need no build."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import service
from service.settings import Settings
from tests.docker.support import DOCKERFILES, Dockerfile, Ignored
from tests.support.programs import ROOT, output_of

IGNORED = Ignored((ROOT / ".dockerignore").read_text(encoding="utf-8"))

each_dockerfile = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)


def in_repository() -> list[str]:
    """Files that a clone has, and those about to be added."""
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    return output_of(*command).splitlines()


@each_dockerfile
def test_base_images_are_pinned_and_configurable(path: Path) -> None:
    dockerfile = Dockerfile.read(path)
    image, _, tag = dockerfile.arguments["PYTHON_IMAGE"].partition(":")
    assert image == "python"
    version = re.match(r"3\.(\d+)-slim-", tag)
    assert version is not None
    assert int(version[1]) >= 11
    names = {stage.name for stage in dockerfile.stages}
    assert {stage.base for stage in dockerfile.stages} <= {"${PYTHON_IMAGE}", *names}


@each_dockerfile
def test_image_runs_as_an_unprivileged_user_below_an_init(path: Path) -> None:
    final = Dockerfile.read(path).final
    assert final.last("ENTRYPOINT").exec[:2] == ["tini", "--"]
    assert final.last("STOPSIGNAL").text == "SIGTERM"
    labels = final.last("LABEL").assignments
    assert labels["org.opencontainers.image.version"] == service.__version__
    assert [each.text for each in final.all("USER")] == ["10001:10001"]
    assert "useradd --uid 10001" in final.last("RUN").text


@each_dockerfile
def test_copied_files_are_in_the_repository_and_not_ignored(path: Path) -> None:
    files = [file for file in in_repository() if file not in IGNORED]
    copies = [
        copy
        for stage in Dockerfile.read(path).stages
        for copy in stage.all("COPY")
        if "from" not in copy.flags
    ]
    assert copies
    for copy in copies:
        for source in copy.words[:-1]:
            assert any(f"{file}/".startswith(f"{source.rstrip('/')}/") for file in files), source


@each_dockerfile
def test_dependencies_are_installed_from_the_lock_before_the_code_is_copied(path: Path) -> None:
    (stage,) = [each for each in Dockerfile.read(path).stages if each.name == "build"]
    before = []
    for each in stage.instructions:
        if each.name == "COPY":
            before += each.words[:-1]
        elif "pip" in each.text and " install " in each.text:
            break
    assert before == ["pyproject.toml", "requirements.lock"]
    assert "-c requirements.lock" in each.text


@each_dockerfile
def test_extras_exist(path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = path.read_text(encoding="utf-8").replace("${EXTRA}", "cpu,gpu")
    asked_for = {
        extra.strip() for found in re.findall(r'"\.\[([^]]+)]"', text) for extra in found.split(",")
    }
    assert asked_for
    assert asked_for <= set(project["optional-dependencies"])


def test_settings_in_the_image_agree_with_its_port_and_paths() -> None:
    final = Dockerfile.read(ROOT / "docker" / "service.Dockerfile").final
    environment = final.last("ENV").assignments
    settings = Settings.from_environment(environment)
    assert str(settings.port) == final.last("EXPOSE").text
    assert str(settings.state) == final.last("VOLUME").text
    assert str(settings.bundles) in [copy.words[-1] for copy in final.all("COPY")]
    assert settings.host == "0.0.0.0"
    assert "/readyz" in final.last("HEALTHCHECK").exec[-1]


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".git/config",
        ".venv/bin/python",
        "bundles/secret/manifest.json",
        "docker-compose.yml",
        "runs/reverse/log",
        "service/__pycache__/cli.cpython-312.pyc",
        "state/dragoman.db",
        "tests/conftest.py",
    ],
)
def test_dockerignore_excludes_unneeded_files(path: str) -> None:
    assert path in IGNORED
