"""Tests of built images in containers: unprivileged user, read-only root, content, size."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.docker import containers
from tests.docker.containers import Builder, Container, Image
from tests.support.checkpoints import write_marian
from tests.support.hub import running_hub
from tests.support.programs import ROOT, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(containers.missing()), reason=containers.missing()),
]

GERMAN = "Zwei junge Männer spielen Fußball auf einer Wiese."
CPU_MEGABYTES = 450
"""Size limit of the CPU service without its base image."""


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    with containers.builder() as builder:
        yield builder


@pytest.fixture(scope="module")
def base(builder: Builder) -> str:
    try:
        return builder.base()
    except containers.Unreachable as unreachable:
        pytest.skip(str(unreachable))


@pytest.fixture(scope="module")
def image(builder: Builder, base: str) -> Image:
    dockerfile = ROOT / "docker" / "service.Dockerfile"
    return builder.build(dockerfile, PYTHON_IMAGE=base, EXTRA="cpu")


@pytest.fixture(scope="module")
def service(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    log = tmp_path_factory.mktemp("service") / "log"
    with containers.running(image, log, DRAGOMAN_PORT=str(free_port())) as container:
        wait(container, "/readyz", 200)
        yield container


def address(container: Container) -> str:
    return f"http://127.0.0.1:{container.environment['DRAGOMAN_PORT']}"


def wait(container: Container, path: str, status: int) -> None:
    """Wait until ``path`` returns ``status``."""
    while True:
        assert container.process.poll() is None, container.log.read_text()
        with suppress(httpx.TransportError):
            if httpx.get(address(container) + path).status_code == status:
                return
        time.sleep(0.05)


def status_of(process: str) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def megabytes(directory: Path) -> float:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def test_service_translates_and_draws_attention(service: Container) -> None:
    question = {"q": GERMAN, "source": "auto", "target": "en", "attention": True}
    answer = httpx.post(f"{address(service)}/translate", json=question, timeout=60)
    assert answer.status_code == 200, answer.text
    assert "young men" in answer.json()["translatedText"]
    # Drawing starts a process, which caches the fonts it has found.
    url = f"{address(service)}/translations/{answer.json()['id']}/attention"
    picture = httpx.get(url, params={"format": "png"}, timeout=60)
    assert picture.content.startswith(b"\x89PNG")


def test_every_process_is_unprivileged_and_stays_so(service: Container) -> None:
    (child,) = Path(f"/proc/{service.init}/task/{service.init}/children").read_text().split()
    for process in (str(service.init), child):
        status = status_of(process)
        assert set(status["Uid"].split()) == {"10001"}
        assert set(status["Gid"].split()) == {"10001"}
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"
    assert status_of(str(service.init))["Name"] == "tini"
    assert service.run("id", "--user", "--name").stdout == "dragoman\n"


def test_root_file_system_is_read_only_even_for_root(service: Container) -> None:
    for directory in ("/", "/opt/dragoman", "/bundles", "/etc"):
        written = service.run_as_root("touch", f"{directory}/anything")
        assert "Read-only file system" in written.stderr


def test_state_is_private_to_its_user(service: Container) -> None:
    assert service.run("dragoman", "keys", "add", "some-client").returncode == 0
    assert "some-client" in service.run("dragoman", "keys", "list").stdout
    assert service.run("stat", "--format=%a %U", "/state").stdout == "700 dragoman\n"


def test_image_has_required_packages_and_no_others(service: Container) -> None:
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    wanted = ("service", "onnxruntime", "opentelemetry.sdk")
    unwanted = ("torch", "training", "pip", "pytest")
    assert [service.run("python", "-c", look, name).returncode for name in wanted] == [0] * 3
    assert [service.run("python", "-c", look, name).returncode for name in unwanted] == [1] * 4


def test_imported_modules_are_compiled(service: Container) -> None:
    log = service.run("python", "-v", "-c", "import service.bootstrap").stderr
    read = re.findall(r"^# code object from '?([^'\n]+?)'?$", log, re.MULTILINE)
    assert any(path.startswith("/opt/dragoman") for path in read)
    assert [path for path in read if path.endswith(".py")] == []


def test_telemetry_of_onnx_runtime_is_off(service: Container) -> None:
    assert httpx.get(f"{address(service)}/readyz").status_code == 200
    # ONNX Runtime stores a machine identifier and pending telemetry in these files.
    kept = service.run("find", "/tmp", "-ipath", "*microsoft*", "-o", "-name", ".ses")
    assert kept.stdout == kept.stderr == ""


def test_container_is_healthy_while_ready(service: Container) -> None:
    assert service.check() == 0


def test_container_without_models_is_unhealthy_and_stops_cleanly(
    image: Image, tmp_path: Path
) -> None:
    variables = {"DRAGOMAN_BUNDLES": "/srv", "DRAGOMAN_PORT": str(free_port())}
    with containers.running(image, tmp_path / "log", **variables) as container:
        wait(container, "/readyz", 503)
        assert container.check() == 1
        assert container.stop() == 0


def test_ready_container_stops_cleanly(image: Image, tmp_path: Path) -> None:
    with containers.running(image, tmp_path / "log", DRAGOMAN_PORT=str(free_port())) as container:
        wait(container, "/readyz", 200)
        assert container.stop() == 0


def test_unknown_setting_stops_the_container(image: Image, tmp_path: Path) -> None:
    with containers.running(image, tmp_path / "log", DRAGOMAN_PROT="8000") as container:
        assert container.process.wait(timeout=60) == 2
        assert "did you mean DRAGOMAN_PORT?" in container.log.read_text()


def test_models_are_fetched_by_the_image(image: Image, tmp_path: Path) -> None:
    write_marian(tmp_path / "checkpoint", taught=True, languages=("spa", "eng"))
    log = tmp_path / "log"
    with running_hub() as hub:
        hub.repositories["Helsinki-NLP/opus-mt-es-en"] = tmp_path / "checkpoint"
        # The base image has no /etc/hosts, which Docker would add.
        hub.other_host = "127.0.0.1"
        variables = {"DRAGOMAN_MODELS": "es-en", "HF_ENDPOINT": hub.address}
        command = ("models", "add", "--missing", "--bundles", "/tmp/bundles")
        with containers.running(image, log, *command, **variables) as container:
            assert container.process.wait(timeout=300) == 0
    assert "published /tmp/bundles/opus-mt-es-en" in log.read_text()


def test_cpu_image_is_small(image: Image) -> None:
    assert megabytes(image.root / "opt") + megabytes(image.root / "bundles") < CPU_MEGABYTES
