"""Arguments of the Ray Serve application, and the deployment plan derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from service.runtime.sessions import Device, available_device
from service.settings import Settings

FULL_BATCH: dict[Device, int] = {"cpu": 64, "cuda": 256}
"""Slots of a replica on each device with precision ``auto``."""

_CPUS: dict[Device, int] = {"cpu": 2, "cuda": 2}
"""Default CPUs of a replica. With a GPU: one for the engine thread, one for the event loop."""

_LEAST_TOKENS = 2
"""Tokens of the shortest sentence: one piece and the end-of-sentence token."""

_WITHOUT_EFFECT = {
    "trusted_proxies": "set FORWARDED_ALLOW_IPS in the environment of Ray's processes",
    "workers": "set max_replicas",
    "models": "run `dragoman models add` on each node",
}
"""Settings of the programs that listen, and what to do instead."""

_CLOSING_SECONDS = 5
"""Time for a replica to close its models and files after its last request."""


class InvalidArgument(Exception):
    """An invalid argument of the application; the message says why."""

    @classmethod
    def of(cls, error: ValidationError) -> InvalidArgument:
        first = error.errors()[0]
        known = ", ".join(Arguments.model_fields)
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            return cls(f"{name} is not an argument of this application; known are {known}")
        problem = first["msg"].removeprefix("Value error, ")
        return cls(f"{name} is {first['input']!r}: {problem}" if name else problem)


class Arguments(BaseModel):
    """Arguments of one Ray Serve application. Other settings are DRAGOMAN_* variables of the
    nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bundles: Path | None = Field(
        default=None,
        description="directory that holds the bundles, the same on every node; without it, the "
        "one that DRAGOMAN_BUNDLES names there",
    )
    min_replicas: int = Field(default=1, ge=0, description="replicas there are always")
    max_replicas: int = Field(
        default=1, ge=1, description="replicas there are at most; as many as there are GPUs"
    )
    gpus: float | None = Field(
        default=None,
        ge=0,
        description="GPUs of a replica; 0 runs on the CPU; without it, 1 if this machine has one",
    )
    cpus: float | None = Field(
        default=None,
        gt=0,
        description="CPUs of a replica; without it, DRAGOMAN_THREADS on the CPU, or 2",
    )
    target_requests: int | None = Field(
        default=None,
        ge=1,
        description="requests of a replica beyond which another is started; without it, as many "
        "as it has slots",
    )
    metrics_ports: str = Field(
        default="9400-9415",
        pattern=r"^\d{2,5}(-\d{2,5})?$",
        description="where replicas are scraped: each takes the first port that is free on its "
        "machine",
    )
    documents: bool | None = Field(
        default=None,
        description="whether files are translated; without it, as DRAGOMAN_DOCUMENTS says, but "
        "never by more than one replica",
    )

    @field_validator("metrics_ports")
    @classmethod
    def _a_range(cls, ports: str) -> str:
        first, last = _bounds(ports)
        if not 1024 <= first <= last <= 65535:
            raise ValueError("ports are from 1024 to 65535, the lower one first")
        return ports

    @model_validator(mode="after")
    def _in_order(self) -> Arguments:
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas is {self.min_replicas} and max_replicas {self.max_replicas}; "
                "the lower one is min_replicas"
            )
        return self


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """Deployment options for Ray, and the settings of each replica."""

    min_replicas: int
    max_replicas: int
    gpus: float
    cpus: float
    target_requests: int
    most_requests: int
    """Limit of requests in Ray, above the service's own, so that the service refuses excess
    requests."""
    shutdown_seconds: float
    metrics_ports: range
    overrides: dict[str, Any]
    """Settings that override the environment of a replica's node."""


def plan_of(arguments: Arguments, settings: Settings) -> DeploymentPlan:
    """The plan for ``arguments``; ``settings`` are those of the machine that deploys.

    Raises ``DeviceUnavailable`` if ``settings`` require a GPU and this machine has none, and
    ``InvalidArgument`` for settings that replicas could not follow.
    """
    for name, instead in _WITHOUT_EFFECT.items():
        if getattr(settings, name):
            raise InvalidArgument(f"DRAGOMAN_{name.upper()} has no effect under Ray; {instead}")
    gpus = arguments.gpus
    if gpus is None:
        gpus = 1.0 if available_device(settings.device) == "cuda" else 0.0
    device: Device = "cuda" if gpus else "cpu"
    cpus = arguments.cpus or (settings.threads if device == "cpu" else 0) or _CPUS[device]
    overrides: dict[str, Any] = {"device": device}
    for name in ("bundles", "documents"):
        if (value := getattr(arguments, name)) is not None:
            overrides[name] = value
    if device == "cpu" and not settings.threads:
        # Otherwise each replica would use every core of its machine.
        overrides["threads"] = max(1, int(cpus))
    if arguments.documents is None and arguments.max_replicas > 1:
        # A document exists only on the replica that translated it; Ray routes to any replica.
        overrides["documents"] = False
    first, last = _bounds(arguments.metrics_ports)
    return DeploymentPlan(
        min_replicas=arguments.min_replicas,
        max_replicas=arguments.max_replicas,
        gpus=gpus,
        cpus=cpus,
        target_requests=arguments.target_requests or settings.slots or FULL_BATCH[device],
        most_requests=max(1, settings.max_queue_tokens // _LEAST_TOKENS),
        shutdown_seconds=settings.shutdown_seconds + _CLOSING_SECONDS,
        metrics_ports=range(first, last + 1),
        overrides=overrides,
    )


def _bounds(ports: str) -> tuple[int, int]:
    first, _, last = ports.partition("-")
    return int(first), int(last or first)
