"""Builds images with buildah and runs containers of them, without Docker and without a registry.

The base image is made by mmdebstrap. A container has its image's user, environment, entry point
and volumes, a read-only root, and its own process and mount namespaces. It shares the host's
network.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.programs import ROOT

PROGRAMS = ("buildah", "mmdebstrap", "nsenter", "unshare")
SUITE = "bookworm"
_IMAGE_BYTES = 3 << 30

_START = """
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for volume in $VOLUMES; do
    mount -t tmpfs -o "$(stat -c 'uid=%u,gid=%g,mode=%a' "$root/$volume")" tmpfs "$root/$volume"
done
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir -m 1777 "$root/dev/shm"
for device in null zero full random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""


def missing() -> str:
    """Why no image can be built here; empty if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "images are built by root on Linux"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


class Unreachable(Exception):
    """No Debian mirror is reachable."""


@dataclass(frozen=True, slots=True)
class Image:
    config: Mapping[str, Any]
    """The image's configuration as in Docker: ``User``, ``Env``, ``Entrypoint``, ``Cmd``, …"""
    root: Path

    @property
    def environment(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.config["Env"])


class Builder:
    """buildah with its own storage."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def base(self) -> str:
        """An image of Debian with Python."""
        container = self._buildah("from", "scratch")
        root = Path(self._buildah("mount", container))
        made = subprocess.run(
            # Its mounts are removed with the namespace, even after an interruption.
            [
                *["unshare", "--mount", "mmdebstrap", "--variant=minbase"],
                *["--include=python3,python3-venv", SUITE, str(root)],
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise Unreachable(f"mmdebstrap: {made.stderr.strip().splitlines()[-1]}")
        self._buildah("commit", "--quiet", "--rm", container, "base")
        return "localhost/base"

    def build(self, dockerfile: Path, **arguments: str) -> Image:
        name = "-".join([dockerfile.stem.lower(), *arguments.values()]).replace("/", "-")
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        options += _pip_volumes(self._directory)
        self._buildah(
            *["bud", "--isolation=chroot", "--format=docker", "--layers=false"],
            *[*options, f"--file={dockerfile}", f"--tag={name}", str(ROOT)],
        )
        container = self._buildah("from", name)
        described = json.loads(self._buildah("inspect", "--type=image", name))
        return Image(described["Docker"]["config"], Path(self._buildah("mount", container)))

    def _buildah(self, *arguments: str) -> str:
        storage = [f"--root={self._directory}/storage", f"--runroot={self._directory}/run"]
        ran = subprocess.run(
            ["buildah", *storage, "--storage-driver=vfs", *arguments],
            env=os.environ | {"TMPDIR": str(self._directory)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
        return ran.stdout.strip()


def _pip_settings() -> dict[str, str]:
    """This machine's pip settings, of which the environment overrides files."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    # The environment is listed first.
    pairs = [line.split("=", 1) for line in reversed(listed.stdout.splitlines())]
    return {name.rpartition(".")[2]: ast.literal_eval(value) for name, value in pairs}


def _pip_volumes(directory: Path) -> list[str]:
    """Options that give a build this machine's pip settings, and the files named by them."""
    settings = _pip_settings()
    configuration = directory / "pip.conf"
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    configuration.write_text(f"[global]\n{lines}", encoding="utf-8")
    # The files of an index are beside it.
    words = " ".join(settings.values()).split()
    paths = {Path(w.removeprefix("file://")).parent if "://" in w else Path(w) for w in words}
    existing = sorted(path for path in paths if path.is_absolute() and path.exists())
    volumes = {configuration: "/etc/pip.conf"} | {path: str(path) for path in existing}
    return [f"--volume={path}:{place}:ro" for path, place in volumes.items()]


@contextmanager
def builder() -> Iterator[Builder]:
    """A builder with storage in memory if there is room for three images, else on disk.

    Every layer is a full copy of the layers below, which takes minutes on a disk.
    """
    available = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0])
    memory = "/dev/shm" if available << 10 > 3 * _IMAGE_BYTES else None
    with tempfile.TemporaryDirectory(prefix="images", dir=memory) as directory:
        yield Builder(Path(directory))


@dataclass(frozen=True, slots=True)
class Container:
    image: Image
    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]
    log: Path

    @property
    def init(self) -> int:
        """Host process id of the container's first process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (numbers := children.read_text().split()):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.01)
        return int(numbers[0])

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the container as its user, like ``docker exec``."""
        return self._enter(_as_user(self.image, self.environment, command))

    def run_as_root(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._enter(command)

    def check(self) -> int:
        """Exit code of the health check."""
        kind, *command = self.image.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.run(*command).returncode

    def stop(self) -> int:
        """Stop the container as ``docker stop`` does; returns the exit code."""
        os.kill(self.init, getattr(signal, self.image.config["StopSignal"]))
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        """Kill all processes, unless it has ended: its process ids may be reused."""
        if self.process.poll() is None:
            os.kill(self.init, signal.SIGKILL)
            self.process.kill()

    def _enter(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        namespaces = ["--mount", "--pid", "--ipc", "--uts", "--root", "--wd"]
        return subprocess.run(
            ["nsenter", f"--target={self.init}", *namespaces, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@contextmanager
def running(image: Image, log: Path, *command: str, **variables: str) -> Iterator[Container]:
    """A container of ``image`` with additional environment variables."""
    environment = image.environment | variables
    program = [*image.config["Entrypoint"], *(command or image.config["Cmd"])]
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [
                    *["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"],
                    *["sh", "-euc", _START, "container", str(image.root)],
                    *_as_user(image, environment, program),
                ],
                env=os.environ | {"VOLUMES": " ".join(image.config.get("Volumes", {}))},
                stdout=stack.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
            )
        )
        container = Container(image, process, environment, log)
        stack.callback(container.kill)
        yield container


def _as_user(image: Image, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """``command`` without any privileges, with exactly this environment."""
    user, group = image.config["User"].split(":")
    return [
        *["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"],
        *["--bounding-set=-all", "--inh-caps=-all", "env", "-i", "-C", image.config["WorkingDir"]],
        *[f"{name}={value}" for name, value in environment.items()],
        *command,
    ]
