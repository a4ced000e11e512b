"""Tests of the Compose files that need no Docker."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import SecretStr

from service.cli import parser
from service.settings import PREFIX, Settings
from service.workers.worker import TRANSLATED
from tests.docker.support import (
    COMPOSE,
    COMPOSE_CPU,
    COMPOSE_FLEET,
    Dockerfile,
    compose,
    filled_in,
    variables,
)
from tests.support.programs import ROOT

PROJECT = compose(COMPOSE)
PROJECT_CPU = compose(COMPOSE, COMPOSE_CPU)
SERVICES: dict[str, dict[str, Any]] = PROJECT["services"]
FLEET: dict[str, dict[str, Any]] = compose(COMPOSE, COMPOSE_CPU, COMPOSE_FLEET)["services"]
WITH_DOCKER = (
    (ROOT / "docs" / "operations.md")
    .read_text(encoding="utf-8")
    .partition("\n## With Docker\n")[2]
    .partition("\n## ")[0]
)
SERVICE_DOCKERFILE = Dockerfile.read(ROOT / "docker" / "service.Dockerfile")

each_service = pytest.mark.parametrize("name", SERVICES)
each_built = pytest.mark.parametrize(
    "built", [each for each in SERVICES.values() if "build" in each], ids=lambda each: each["image"]
)


def mounts(name: str) -> dict[str, dict[str, Any]]:
    """Volumes of a service by target: source, type and whether it is read-only."""
    found: dict[str, dict[str, Any]] = {}
    for volume in SERVICES[name]["volumes"]:
        if isinstance(volume, str):
            source, target, *rest = volume.split(":")
            kind = "bind" if source.startswith((".", "/")) else "volume"
            volume = {"type": kind, "source": source, "target": target, "read_only": rest == ["ro"]}
        found[volume["target"]] = volume
    return found


@pytest.mark.parametrize("path", [COMPOSE, COMPOSE_CPU, COMPOSE_FLEET], ids=str)
def test_files_conform_to_the_specification(path: Path) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(path), json.loads(vendored.read_text(encoding="utf-8")))


def test_service_and_training_have_every_gpu_and_none_in_the_cpu_file() -> None:
    assert PROJECT_CPU["services"].keys() == SERVICES.keys()
    for name, service in PROJECT_CPU["services"].items():
        assert not service["deploy"]["resources"].get("reservations", {}).get("devices"), name
    for name in ("training", "service"):
        (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
        assert device["capabilities"] == ["gpu"]
    assert device["count"] == Settings().gpus == "all"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    gpu, cpu = (each["services"]["service"] for each in (PROJECT, PROJECT_CPU))
    assert [each["build"]["args"]["EXTRA"] for each in (gpu, cpu)] == ["gpu", "cpu"]
    assert {"gpu", "cpu"} <= project["optional-dependencies"].keys()
    assert gpu["image"] != cpu["image"]
    assert gpu["environment"]["DRAGOMAN_DEVICE"] == "${DRAGOMAN_DEVICE:-cuda}"
    assert cpu["environment"]["DRAGOMAN_DEVICE"] == "${DRAGOMAN_DEVICE:-auto}"


@each_built
def test_dockerfiles_and_build_arguments_exist(built: dict[str, Any]) -> None:
    path = ROOT / built["build"]["context"] / built["build"]["dockerfile"]
    dockerfile = Dockerfile.read(path)
    assert all(dockerfile.declares(argument) for argument in built["build"].get("args", {}))
    assert built["pull_policy"] == "build"


@pytest.mark.parametrize("name", FLEET)
def test_images_are_pinned_and_containers_have_minimal_privileges(name: str) -> None:
    service = FLEET[name]
    assert "build" in service or re.fullmatch(r"[\w./-]+:v?\d+\.\d+(\.\d+)?", service["image"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "/var/run/docker.sock" not in json.dumps(service)
    limits = service["deploy"]["resources"]["limits"]
    assert {"memory", "pids"} <= limits.keys()
    assert {"max-size", "max-file"} <= service["logging"]["options"].keys()


@each_service
def test_host_mounts_exist_and_are_read_only(name: str) -> None:
    for target, mount in mounts(name).items():
        if mount["type"] == "bind":
            writers = {("training", "/bundles"), ("models", "/bundles")}
            assert mount.get("read_only") or (name, target) in writers
            if "$" not in mount["source"]:
                assert (ROOT / mount["source"]).exists(), mount["source"]


def test_volumes_are_declared_and_used() -> None:
    used = {
        mount["source"]
        for name in SERVICES
        for mount in mounts(name).values()
        if mount["type"] == "volume"
    }
    assert used == set(PROJECT["volumes"])


def test_every_setting_is_passed_through_and_unset_by_default() -> None:
    environment = SERVICES["service"]["environment"]
    named = {name for name in environment if name.startswith(PREFIX)}
    assert named == {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}
    fixed = {name for name in named if environment[name] is not None}
    own = ("HOST", "PORT", "BUNDLES", "STATE", "MODELS", "DEVICE")
    assert fixed == {f"{PREFIX}{name}" for name in own}


def test_models_are_fetched_into_the_bundles_of_the_service() -> None:
    models, service = SERVICES["models"], SERVICES["service"]
    for each in (PROJECT, PROJECT_CPU):
        found = each["services"]
        assert found["models"]["image"] == found["service"]["image"]
        assert found["models"]["build"]["args"] == found["service"]["build"]["args"]
    assert parser().parse_args(models["command"]).missing
    where = models["environment"][f"{PREFIX}BUNDLES"]
    assert mounts("models")[where]["source"] == mounts("service")["/bundles"]["source"]
    assert models["environment"][f"{PREFIX}MODELS"] is None
    assert service["environment"][f"{PREFIX}MODELS"] == ""


def test_environment_agrees_with_the_image() -> None:
    environment = {
        name: value
        for name, value in SERVICES["service"]["environment"].items()
        if value is not None and name != "DRAGOMAN_DEVICE"
    }
    settings = Settings.from_environment(environment)
    image = SERVICE_DOCKERFILE.final
    assert settings == Settings.from_environment(image.last("ENV").assignments)
    assert mounts("service")[str(settings.bundles)]["source"] == "./bundles"
    assert mounts("service")[str(settings.state)]["type"] == "volume"
    assert published("service") == image.last("EXPOSE").text == str(settings.port)


def published(name: str) -> str:
    (port,) = SERVICES[name]["ports"]
    return str(port.rpartition(":")[2])


@each_service
def test_ports_are_published_on_localhost_by_default(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert filled_in(port).startswith("127.0.0.1:")


def test_files_contain_no_secrets_and_env_files_are_optional_and_not_committed() -> None:
    assert SERVICES["service"]["env_file"] == [{"path": ".env", "required": False}]
    assert "/.env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|_KEY$", name):
                assert value is None or filled_in(value) == ""


def test_variables_for_compose_are_documented_with_their_defaults() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", WITH_DOCKER, re.MULTILINE))
    text = COMPOSE.read_text(encoding="utf-8")
    for name, default in re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", WITH_DOCKER, re.MULTILINE):
        assert f"${{{name}:-{default}}}" in text
    assert documented == variables(PROJECT) - {"DRAGOMAN_DEVICE"}
    # The service also reads .env, and rejects unknown settings at start.
    assert not any(name.startswith(PREFIX) for name in documented)


def test_services_start_in_order_of_health() -> None:
    healthy = {"condition": "service_healthy"}
    # ``up --wait`` takes the end of a container for a failure, unless another one waits for it.
    ended = {"condition": "service_completed_successfully", "required": False}
    for name, before in {
        "service": {},
        "prometheus": {"service": healthy},
        "grafana": {"prometheus": healthy, "models": ended},
    }.items():
        assert SERVICES[name].get("depends_on", {}) == before
    assert SERVICE_DOCKERFILE.final.all("HEALTHCHECK")
    assert {"healthcheck"} <= SERVICES["prometheus"].keys() & SERVICES["grafana"].keys()


def test_grace_period_covers_draining() -> None:
    grace = filled_in(SERVICES["service"]["stop_grace_period"])
    assert int(grace.removesuffix("s")) > Settings().shutdown_seconds


def test_training_starts_only_on_request() -> None:
    assert [name for name, each in SERVICES.items() if each.get("profiles")] == ["training"]
    image = Dockerfile.read(ROOT / "docker" / "training.Dockerfile").final
    assert image.last("ENV").assignments["TRAINING_DATA"] in mounts("training")
    assert image.last("WORKDIR").text == "/"
    assert {"/runs", "/bundles"} <= mounts("training").keys()


def test_prometheus_finds_its_files_and_the_service() -> None:
    arguments = dict(each.split("=", 1) for each in SERVICES["prometheus"]["command"])
    configuration = Path(arguments["--config.file"])
    directory = ROOT / mounts("prometheus")[str(configuration.parent)]["source"]
    read = yaml.safe_load((directory / configuration.name).read_text(encoding="utf-8"))
    assert all((directory / name).is_file() for name in read["rule_files"])
    (job,) = (each for each in read["scrape_configs"] if each["job_name"] == "dragoman")
    port = int(published("service"))
    assert job["dns_sd_configs"] == [{"names": ["service"], "type": "A", "port": port}]
    assert arguments["--storage.tsdb.path"] in mounts("prometheus")
    assert f"http://127.0.0.1:{published('prometheus')}" in json.dumps(
        SERVICES["prometheus"]["healthcheck"]
    )


def test_grafana_finds_its_files_and_prometheus() -> None:
    provisioning = ROOT / mounts("grafana")["/etc/grafana/provisioning"]["source"]
    (sources,) = (provisioning / "datasources").iterdir()
    (source,) = yaml.safe_load(sources.read_text(encoding="utf-8"))["datasources"]
    assert source["url"] == f"http://prometheus:{published('prometheus')}"
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    scraped = yaml.safe_load((ROOT / "docker/prometheus/prometheus.yml").read_text("utf-8"))
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]
    (providers,) = (provisioning / "dashboards").iterdir()
    for provider in yaml.safe_load(providers.read_text(encoding="utf-8"))["providers"]:
        directory = ROOT / mounts("grafana")[provider["options"]["path"]]["source"]
        assert list(directory.glob("*.json"))
    settings = grafana_settings()
    home = Path(settings["dashboards"]["default_home_dashboard_path"])
    assert (ROOT / mounts("grafana")[str(home.parent)]["source"] / home.name).is_file()


def test_grafana_login_requires_a_configured_password() -> None:
    settings = grafana_settings()
    assert settings["auth.anonymous"]["org_role"] == "Viewer"
    assert settings["auth"].getboolean("disable_login_form")
    assert not settings["auth.basic"].getboolean("enabled")
    assert settings["security"].getboolean("disable_initial_admin_creation")
    # Without GRAFANA_ADMIN_PASSWORD these overriding variables are empty, hence unset.
    for name, value in SERVICES["grafana"]["environment"].items():
        assert variables(value) == {"GRAFANA_ADMIN_PASSWORD"}, name
        assert filled_in(value) == ""


def test_replicas_of_a_fleet_share_their_state_behind_the_only_public_port() -> None:
    added = FLEET.keys() - SERVICES.keys()
    assert added == {"upgrade", "balancer", "database", "valkey"}
    for name in added | {"service"}:
        ports = [filled_in(port) for port in FLEET[name].get("ports", [])]
        assert ports == (["127.0.0.1:8000:8000"] if name == "balancer" else [])
        for mount in FLEET[name].get("volumes", []):
            if isinstance(mount, str) and mount.startswith("."):
                assert (ROOT / mount.partition(":")[0]).exists() and mount.endswith(":ro")
    named = {
        name: filled_in(value)
        for name, value in FLEET["service"]["environment"].items()
        if value is not None
    }
    settings = Settings.from_environment(named)
    assert isinstance(settings.state, SecretStr)
    assert settings.state.get_secret_value().endswith("@database/dragoman")
    assert settings.redis is not None and "valkey" in settings.redis.get_secret_value()
    state = f"{PREFIX}STATE"
    assert FLEET["upgrade"]["environment"][state] == FLEET["service"]["environment"][state]
    assert parser().parse_args(FLEET["upgrade"]["command"])
    assert "fleet" in filled_in(FLEET["service"]["build"]["args"]["EXTRA"]).split(",")
    grace = int(filled_in(FLEET["service"]["stop_grace_period"]).removesuffix("s"))
    assert grace > settings.leave_seconds + settings.shutdown_seconds
    balancer = (ROOT / "docker/fleet/haproxy.cfg").read_text(encoding="utf-8")
    assert f" service:{settings.port} " in balancer and "uri /readyz" in balancer
    lines = (line.split() for line in balancer.splitlines() if "acl repeatable path " in line)
    assert {path for line in lines for path in line[3:]} >= TRANSLATED


def grafana_settings() -> configparser.ConfigParser:
    settings = configparser.ConfigParser()
    path = ROOT / mounts("grafana")["/etc/grafana/grafana.ini"]["source"]
    settings.read_string(path.read_text(encoding="utf-8"))
    return settings
