"""Tests of the Kubernetes and KubeRay manifests that need no cluster."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from service.observability.metrics import Metrics
from service.ray.options import FULL_BATCH, Arguments, plan_of
from service.settings import PREFIX, Settings
from tests.support.programs import ROOT, output_of, python

KUBERNETES = ROOT / "docker" / "kubernetes"
RAY = ROOT / "docker" / "ray"
OVERLAYS = {"gpu": KUBERNETES, "cpu": KUBERNETES / "cpu"}

Manifest = dict[str, Any]

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def loaded(path: Path) -> list[Manifest]:
    """The objects of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


@cache
def rendered(directory: Path) -> list[Manifest]:
    """The objects of a kustomization."""
    shown = output_of("kubectl", "kustomize", str(directory), timeout=60)
    return list(yaml.safe_load_all(shown))


def the(objects: list[Manifest], kind: str) -> Manifest:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def valid(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def ray_service() -> Manifest:
    return the(loaded(RAY / "rayservice.yaml"), "RayService")


def ray_pods() -> dict[str, Manifest]:
    """The pods that KubeRay makes of the templates, by container name."""
    cluster = ray_service()["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", **group["template"], "metadata": {"name": "pod"}}
        for group in groups
    ]
    return {pod["spec"]["containers"][0]["name"]: pod for pod in pods}


def pod_specs() -> dict[str, dict[str, Any]]:
    specs = {
        name: the(rendered(directory), "Deployment")["spec"]["template"]["spec"]
        for name, directory in OVERLAYS.items()
    }
    return specs | {name: pod["spec"] for name, pod in ray_pods().items()}


every_pod = pytest.mark.parametrize("pod", ["gpu", "cpu", "ray-head", "ray-worker"])


@every_overlay
def test_every_object_and_ray_pod_conforms_to_the_kubernetes_schema(overlay: str) -> None:
    objects = rendered(OVERLAYS[overlay])
    for manifest in [*objects, *ray_pods().values()]:
        valid(manifest)
    assert {each["kind"] for each in objects} == {
        *("Namespace", "Deployment", "Service"),
        *("HorizontalPodAutoscaler", "PodDisruptionBudget"),
    }


def with_component(name: str, directory: Path, below: str = "../base") -> list[Manifest]:
    """The valid objects of an overlay of one's own, above another one, with a component."""
    shutil.copytree(KUBERNETES, directory / "kubernetes")
    overlay = directory / "kubernetes" / "mine"
    overlay.mkdir()
    kustomization = {
        "resources": [below],
        "components": [f"../{name}"],
        "kind": "Kustomization",
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    objects = rendered(overlay)
    for manifest in objects:
        valid(manifest)
    return objects


@pytest.mark.parametrize("below", ["../base", "../cpu"])
def test_pods_share_their_state_and_upgrade_it_first(tmp_path: Path, below: str) -> None:
    objects = with_component("state", tmp_path, below)
    spec = the(objects, "Deployment")["spec"]["template"]["spec"]
    (first,), (container,) = spec["initContainers"], spec["containers"]
    given = {each["name"]: each for each in container["env"]}
    assert given["DRAGOMAN_DOCUMENTS"]["value"] == "true"
    assert first["env"] == [given["DRAGOMAN_STATE"]]
    secret = given["DRAGOMAN_STATE"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "dragoman-database-app", "key": "uri"}
    assert first["image"] == container["image"]
    assert first["securityContext"] == container["securityContext"]
    assert "--state" in python("-m", "service", *first["args"], "--help")
    assert given.keys() <= {PREFIX + field.upper() for field in Settings.model_fields}


def test_bundles_are_mounted_from_a_volume(tmp_path: Path) -> None:
    objects = with_component("bundles", tmp_path)
    claim = the(objects, "PersistentVolumeClaim")["metadata"]["name"]
    spec = the(objects, "Deployment")["spec"]["template"]["spec"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "bundles"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["/bundles"]["name"] == "bundles"


@every_pod
def test_pods_have_minimal_privileges(pod: str) -> None:
    spec = pod_specs()[pod]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] == image_user()
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    # Kubernetes would add variables with the prefix of the settings.
    assert spec["enableServiceLinks"] is False


@every_pod
def test_every_variable_is_a_setting_with_a_valid_value(pod: str) -> None:
    (container,) = pod_specs()[pod]["containers"]
    given = {each["name"]: each.get("value", "4") for each in container["env"]}
    settings = Settings.from_environment({k: v for k, v in given.items() if k.startswith(PREFIX)})
    assert settings.log_format == "json"
    assert all(name.startswith((PREFIX, "RAY_")) for name in given)


@every_pod
def test_written_paths_are_volumes(pod: str) -> None:
    spec = pod_specs()[pod]
    volumes = {each["name"] for each in spec["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in spec["containers"][0]["volumeMounts"]}
    assert set(mounts.values()) == volumes
    # The image's state directory, and the directory of temporary files.
    assert {image_variable("DRAGOMAN_STATE"), image_variable("HOME")} <= set(mounts)


@every_overlay
def test_probes_and_service_use_the_ports_of_the_image(overlay: str) -> None:
    objects = rendered(OVERLAYS[overlay])
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": int(image_variable("DRAGOMAN_PORT"))}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/readyz", "port": "http"}
    (port,) = the(objects, "Service")["spec"]["ports"]
    assert port["targetPort"] == "http"


@every_overlay
def test_pod_has_enough_time_to_drain(overlay: str) -> None:
    spec = pod_specs()[overlay]
    (container,) = spec["containers"]
    (seconds,) = [
        int(each["value"])
        for each in container["env"]
        if each["name"] == "DRAGOMAN_SHUTDOWN_SECONDS"
    ]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] > waits + seconds
    liveness = container["livenessProbe"]
    # A draining pod is not ready, but must not be restarted as dead.
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > waits + seconds
    replica = plan_of(Arguments(gpus=1), Settings()).shutdown_seconds
    assert pod_specs()["ray-worker"]["terminationGracePeriodSeconds"] > replica


@every_overlay
def test_every_selector_matches_the_pods_of_the_deployment(overlay: str) -> None:
    objects = rendered(OVERLAYS[overlay])
    deployment = the(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    monitor = the(loaded(KUBERNETES / "monitoring" / "podmonitor.yaml"), "PodMonitor")
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        the(objects, "Service")["spec"]["selector"],
        the(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        monitor["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    target = the(objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert target["name"] == deployment["metadata"]["name"]
    namespaces = {o["metadata"].get("namespace", o["metadata"]["name"]) for o in objects}
    assert namespaces == {monitor["metadata"]["namespace"]}


def test_prometheus_job_has_the_name_in_the_alerts() -> None:
    (rules,) = loaded(ROOT / "docker" / "prometheus" / "prometheus.yml")
    (job,) = [each["job_name"] for each in rules["scrape_configs"] if "drago" in each["job_name"]]
    pods = the(rendered(KUBERNETES), "Deployment")["spec"]["template"]["metadata"]["labels"]
    worker = ray_service()["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]
    monitored = {
        KUBERNETES / "monitoring" / "podmonitor.yaml": pods,
        RAY / "rayservice.yaml": worker["metadata"]["labels"],
    }
    for path, labels in monitored.items():
        assert labels[the(loaded(path), "PodMonitor")["spec"]["jobLabel"]] == job


@every_overlay
def test_autoscaler_uses_series_that_the_service_has(overlay: str) -> None:
    series = {metric.name for metric in Metrics().registry.collect()}
    scaler = the(rendered(OVERLAYS[overlay]), "HorizontalPodAutoscaler")["spec"]
    (adapter,) = loaded(KUBERNETES / "monitoring" / "prometheus-adapter.yaml")
    offered = {}
    for rule in adapter["rules"]["custom"]:
        queried = set(re.findall(r"nmt_\w+", rule["seriesQuery"] + rule["metricsQuery"]))
        assert queried <= series
        offered[rule["name"]["as"]] = queried
    assert [each["pods"]["metric"]["name"] for each in scaler["metrics"]] == list(offered)
    assert offered["nmt_sentences"] == {"nmt_sentences_running", "nmt_sentences_waiting"}
    slots = FULL_BATCH["cuda" if overlay == "gpu" else "cpu"]
    targets = [int(each["pods"]["target"]["averageValue"]) for each in scaler["metrics"]]
    assert targets[1] == slots * 3 // 4
    assert targets[0] < Settings().max_queue_tokens // 4, "must scale before refusing requests"


def test_kuberay_manifest_serves_the_same_as_the_serve_config() -> None:
    (config,) = loaded(RAY / "serve.yaml")
    within = yaml.safe_load(ray_service()["spec"]["serveConfigV2"])
    for each in (config, within):
        each["applications"][0]["args"].pop("metrics_ports")
    assert within == config


def test_serve_config_conforms_to_rays_schema() -> None:
    schema = pytest.importorskip("ray.serve.schema", reason="Ray is not installed")
    (config,) = loaded(RAY / "serve.yaml")
    within = yaml.safe_load(ray_service()["spec"]["serveConfigV2"])
    for each in (config, within):
        read = schema.ServeDeploySchema.model_validate(each)
        for application in read.applications:
            assert application.import_path == "service.ray.deployment:app"
            plan_of(Arguments.model_validate(application.args), Settings())


def test_kuberay_makes_as_many_workers_as_serve_requires() -> None:
    config = yaml.safe_load(ray_service()["spec"]["serveConfigV2"])
    arguments = Arguments.model_validate(config["applications"][0]["args"])
    cluster = ray_service()["spec"]["rayClusterConfig"]
    (group,) = cluster["workerGroupSpecs"]
    assert group["maxReplicas"] == arguments.max_replicas
    assert group["minReplicas"] == arguments.min_replicas
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == arguments.gpus
    assert arguments.cpus is not None and int(limits["cpu"]) >= arguments.cpus
    ports = group["template"]["spec"]["containers"][0]["ports"]
    (scraped,) = [each["containerPort"] for each in ports if each["name"] == "nmt-metrics"]
    assert list(plan_of(arguments, Settings()).metrics_ports) == [scraped]
    pins = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert f"ray=={cluster['rayVersion']}" in pins


def test_every_path_in_a_comment_exists() -> None:
    for path in [*KUBERNETES.rglob("*.yaml"), *RAY.rglob("*.yaml")]:
        text = path.read_text(encoding="utf-8")
        for named in re.findall(r"\b(?:docker|docs)/[\w./-]*\w", text):
            assert (ROOT / named).exists(), f"{path}: {named}"


def image_variable(name: str) -> str:
    text = (ROOT / "docker" / "service.Dockerfile").read_text(encoding="utf-8")
    (value,) = re.findall(rf"^\s*(?:ENV )?{name}=(\S+)", text, re.MULTILINE)
    assert isinstance(value, str)
    return value


def image_user() -> int:
    text = (ROOT / "docker" / "service.Dockerfile").read_text(encoding="utf-8")
    (user,) = re.findall(r"^USER (\d+):\d+$", text, re.MULTILINE)
    return int(user)
