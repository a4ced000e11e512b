"""Deployment plan and proxy middleware of Ray Serve, tested without Ray."""

from __future__ import annotations

import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.addresses import address_of_service
from service.loading import loader as loading
from service.observability.metrics import Metrics
from service.ray.metrics_server import NoPortForMetrics, exposed
from service.ray.options import FULL_BATCH, Arguments, InvalidArgument, plan_of
from service.ray.proxy import RetryableLoss, UnderPrefix, middlewares
from service.settings import Settings


def plan(settings: Settings | None = None, **arguments: Any) -> Any:
    return plan_of(Arguments(**arguments), settings or Settings(device="cpu"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"replica": "2"}, "replica is not an argument of this application; known are bundles"),
        ({"gpus": "many"}, "gpus is 'many'"),
        ({"max_replicas": 0}, "max_replicas is 0"),
        ({"min_replicas": 3, "max_replicas": 2}, "min_replicas is 3 and max_replicas 2"),
        ({"metrics_ports": "80-90"}, "metrics_ports is '80-90': ports are from 1024"),
        ({"metrics_ports": "9415-9400"}, "the lower one first"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_by_name(
    arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Arguments.model_validate(arguments)
    assert said in str(InvalidArgument.of(caught.value))


@pytest.mark.parametrize(
    ("settings", "instead"),
    [
        ({"trusted_proxies": "192.0.2.2"}, "FORWARDED_ALLOW_IPS"),
        ({"workers": 2}, "max_replicas"),
        ({"models": "de-en"}, "dragoman models add"),
    ],
)
def test_settings_without_effect_are_refused(settings: dict[str, Any], instead: str) -> None:
    with pytest.raises(InvalidArgument, match=instead):
        plan(Settings(device="cpu", **settings))


def test_plan_follows_arguments_and_settings() -> None:
    slots = {"cpu": loading._SLOTS["int8"], "cuda": loading._SLOTS["fp16"]}
    assert slots == FULL_BATCH
    assert plan(gpus=1).target_requests == FULL_BATCH["cuda"]
    assert plan().target_requests == FULL_BATCH["cpu"]
    assert plan(Settings(device="cpu", slots=7)).target_requests == 7
    # The service's limit is reached before Ray's: the shortest sentence has two tokens.
    assert plan(Settings(device="cpu", max_queue_tokens=100)).most_requests == 50
    # Replicas on one machine share its cores. Arguments of a command line are texts.
    assert plan(cpus="3", max_replicas="4", gpus="0.5").max_replicas == 4
    assert plan(cpus=3).overrides["threads"] == 3
    four = plan(Settings(device="cpu", threads=4))
    assert (four.cpus, "threads" in four.overrides) == (4, False)
    assert "threads" not in plan(gpus=1).overrides
    # Documents are translated only where they can be fetched.
    assert "documents" not in plan().overrides
    assert plan(max_replicas=2).overrides["documents"] is False
    assert plan(max_replicas=2, documents=True).overrides["documents"] is True
    assert plan(Settings(device="cpu", shutdown_seconds=7)).shutdown_seconds > 7
    assert plan(bundles="/models").overrides["bundles"] == Path("/models")
    assert "bundles" not in plan().overrides


def test_each_replica_has_its_own_metrics_port() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        first = probe.getsockname()[1]
    ports = range(first, first + 1)
    with exposed(Metrics(), "127.0.0.1", ports) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"nmt_build_info" in answer.read()
        with (
            pytest.raises(NoPortForMetrics, match="widen metrics_ports"),
            exposed(Metrics(), "127.0.0.1", ports),
        ):
            pass
    with exposed(Metrics(), "127.0.0.1", ports) as again:
        assert again == port


async def get(app: ASGIApp, path: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        return await client.get(path, headers=headers)


async def test_lost_replica_gives_503_with_retry_after() -> None:
    async def lost(scope: Scope, receive: Receive, send: Send) -> None:
        """Ray's proxy sends no response when a replica has died."""

    (middleware,) = middlewares()
    assert middleware.cls is RetryableLoss
    answer = await get(RetryableLoss(lost), "/translate")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "try again" in answer.json()["error"]
    answer = await get(RetryableLoss(JSONResponse({"q": 1}, 418)), "/translate")
    assert (answer.status_code, answer.json()) == (418, {"q": 1})


def behind(prefix: str) -> ASGIApp:
    """An app with a mounted sub-app, called as Ray Serve does under a route prefix."""
    root, mounted = FastAPI(), FastAPI()
    root.add_middleware(UnderPrefix)

    @root.get("/here")
    async def here(request: Request) -> JSONResponse:
        headers = {"x-request-id": request.headers.get("x-request-id", "none")}
        return JSONResponse([request.scope["path"], str(request.base_url)], headers=headers)

    @mounted.get("/there")
    async def there(request: Request, public: str = "") -> str:
        return address_of_service(request, public)

    root.mount("/v2", mounted)

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await root({**scope, "root_path": prefix}, receive, send)

    return called


@pytest.mark.parametrize("prefix", ["", "/legal"])
async def test_an_app_sees_the_same_paths_under_a_prefix(prefix: str) -> None:
    app = behind(prefix)
    answer = await get(app, f"{prefix}/here")
    assert answer.json() == ["/here", f"http://host{prefix}/"]
    below = f"{prefix}/v2/there"
    assert (await get(app, below)).json() == f"http://host{prefix}"
    for public in ("https://mt.example/below/", f"https://mt.example/below{prefix}"):
        address = (await get(app, f"{below}?public={public}")).json()
        assert address == f"https://mt.example/below{prefix}"
    # The request's id is sent once, by Ray's proxy.
    given = {"x-request-id": "7"}
    assert "x-request-id" not in (await get(app, f"{prefix}/here", **given)).headers
    assert answer.headers["x-request-id"] == "none"


def test_scaling_page_describes_every_argument() -> None:
    text = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? ?\| (.*) \|$", text, re.MULTILINE)
    described = {name: (default, meaning) for name, default, meaning in rows}
    for name, field in Arguments.model_fields.items():
        default = "" if field.default is None else str(field.default)
        assert described[name] == (default, field.description), name
