"""Ray Serve deployment of the app: ``serve run service.ray.deployment:app max_replicas=4``.

``app`` only describes the deployment. Each replica builds its own service from the ``DRAGOMAN_*``
variables of its node. Ray scales the replicas, routes requests to them, and drains a replica before
it ends; see docs/scaling.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI
from pydantic import ValidationError
from ray import serve
from ray.serve.schema import LoggingConfig

from service.bootstrap import Service, build
from service.observability.logging import configure
from service.ray.metrics_server import exposed
from service.ray.options import Arguments, DeploymentPlan, InvalidArgument, plan_of
from service.ray.proxy import UnderPrefix
from service.server.preflight import check_state
from service.server.process import prepare_process, spare_what_stays
from service.settings import Settings


class ReplicaUnhealthy(Exception):
    """This replica has to be replaced; the message says why."""


class Replica:
    """A Ray Serve replica: one serving process, on one event loop."""

    def __init__(self, plan: DeploymentPlan) -> None:
        self._plan = plan
        self._service: Service | None = None
        self._was_ready = False

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """Called by Ray once, on the event loop that will run the app and its lifespan."""
        prepare_process()
        settings = Settings.from_environment(**self._plan.overrides)
        configure(settings.log_level, settings.log_format)
        await check_state(settings)
        self._service = built = build(settings)
        ports = self._plan.metrics_ports
        within = built.app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[Mapping[str, Any] | None]:
            running: AbstractAsyncContextManager[Mapping[str, Any] | None] = within(app)
            with exposed(built.metrics, settings.host, ports):
                async with running as state:
                    yield state

        # Starlette types the attribute as one callable whose context yields either of two types.
        built.app.router.lifespan_context = lifespan  # type: ignore[assignment]
        built.app.add_middleware(UnderPrefix)
        spare_what_stays()
        return built.app

    async def check_health(self) -> None:
        """Called by Ray; raises if this replica has to be replaced.

        The first call precedes all requests and waits until the models are loaded. Once ready, an
        emptied bundle directory is not unhealthy: another replica would find the same directory.
        """
        service = self._service
        assert service is not None
        await service.loaded.wait()
        if not self._was_ready:
            # Raises NotReady, which names each bundle that failed and why.
            self._was_ready = bool(service.repository.catalogue.models)
        if stopped := service.repository.stopped:
            raise ReplicaUnhealthy(f"the engine of {', '.join(stopped)} has stopped")


def app(arguments: Mapping[str, Any]) -> Any:
    """A Ray Serve application with the fields of ``Arguments``; raises ``InvalidArgument``."""
    try:
        parsed = Arguments.model_validate(arguments)
    except ValidationError as error:
        raise InvalidArgument.of(error) from error
    settings = Settings.from_environment()
    plan = plan_of(parsed, settings)
    deployment = serve.deployment(
        serve.ingress()(Replica),
        name="Replica",
        ray_actor_options={"num_cpus": plan.cpus, "num_gpus": plan.gpus},
        autoscaling_config={
            "min_replicas": plan.min_replicas,
            "max_replicas": plan.max_replicas,
            "target_ongoing_requests": plan.target_requests,
        },
        max_ongoing_requests=plan.most_requests,
        # Bounds waiting requests while there is no replica. Replicas refuse excess load.
        max_queued_requests=4 * plan.target_requests * plan.max_replicas,
        backpressure_config={"status_code": 503, "retry_after_s": 1},
        graceful_shutdown_timeout_s=plan.shutdown_seconds,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=5,
        # The service's own log already has a line per request.
        logging_config=LoggingConfig(enable_access_log=False),
    )
    return deployment.bind(plan)
