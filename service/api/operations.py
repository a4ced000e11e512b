"""Operational routes: liveness, readiness, models, model reload, Prometheus metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from pydantic import Field

from service.api.draining import Drain
from service.api.fields.schemas import Answer, answer_of
from service.api.responses import Json, refusals
from service.catalogue.errors import NotReady
from service.catalogue.loaded_model import LoadedModel
from service.catalogue.permission import Permission
from service.catalogue.repository import ModelRepository, Reloaded
from service.observability.logging import audit
from service.observability.metrics import Metrics


class Alive(Answer):
    status: str = Field(examples=["ok"])


class Health(Answer):
    status: str = Field(examples=["ok"])
    gpu_missing: str = Field(
        default="", description="Why an installation for GPUs runs on the CPU, if it does."
    )


class Readiness(Answer):
    status: str = Field(description="ready, not ready or draining.", examples=["ready"])
    reasons: list[str] = Field(description="Why the service is not ready; empty if it is.")
    models: list[str] = Field(examples=[["general-de-en"]])
    failed: dict[str, str] = Field(description="Bundles that could not be loaded, and why.")
    devices: dict[str, list[str]] = Field(
        description="Where each model runs.", examples=[{"general-de-en": ["cuda:0"]}]
    )
    gpu_missing: str = Field(
        default="", description="Why an installation for GPUs runs on the CPU, if it does."
    )


class RecordedScoreAnswer(Answer):
    metric: str = Field(examples=["BLEU"])
    value: float
    test_set: str
    precision: str
    beam_size: int
    signature: str


class CorpusAnswer(Answer):
    name: str
    licence: str
    pairs: int


class DirectionAnswer(Answer):
    source: str = Field(examples=["de"])
    target: str = Field(examples=["en"])


class ModelAnswer(Answer):
    name: str = Field(examples=["general-de-en"])
    version: str
    directions: list[DirectionAnswer]
    precision: str = Field(description="What is running.", examples=["int8"])
    precisions: list[str] = Field(description="What the bundle offers.")
    examples: int = Field(description="Sentences the model proved itself with.")
    scores: list[RecordedScoreAnswer]
    data: list[CorpusAnswer] = Field(description="What it was trained on.")


class ModelsAnswer(Answer):
    models: list[ModelAnswer]
    failed: dict[str, str] = Field(description="Bundles that could not be loaded, and why.")


class ReloadAnswer(ModelsAnswer):
    loaded: list[str] = Field(description="Models that came, or came again with other files.")
    retired: list[str] = Field(description="Models that went. Work in flight keeps them.")


Authorize = Callable[[Request], Awaitable[None]]
"""Raises an error unless the request may administer the service."""

Reload = Callable[[], Awaitable[Reloaded]]


def create_router(
    repository: ModelRepository,
    metrics: Metrics,
    drain: Drain,
    reload: Reload,
    authorize: Authorize,
    permission_of: Callable[[Request], Awaitable[Permission | None]],
) -> APIRouter:
    router = APIRouter(tags=["operations"])
    metrics.ready_while(lambda: not hindrances(repository, drain))

    def missing() -> dict[str, str]:
        reason = metrics.missing_gpu_reason
        return {"gpu_missing": reason} if reason else {}

    @router.get("/livez", summary="Liveness of the process", responses={200: answer_of(Alive)})
    async def livez() -> Response:
        return Json(Alive(status="ok"))

    @router.get(
        "/health", summary="LibreTranslate's health check", responses={200: answer_of(Health)}
    )
    async def health() -> Response:
        return Json(Health(status="ok", **missing()))

    @router.get(
        "/readyz",
        summary="Readiness to translate",
        responses={
            200: answer_of(Readiness),
            503: {"description": "Not ready, and why.", **answer_of(Readiness)},
        },
    )
    async def readyz() -> Response:
        """Ready means: at least one model is on offer, none of those on offer has died, and the
        service is not shutting down.

        A bundle that could not be loaded is listed in `failed` and does not count.
        """
        models, _ = _models(repository)
        reasons = hindrances(repository, drain)
        not_ready = "draining" if drain.leaving else "not ready"
        body = Readiness(
            status=not_ready if reasons else "ready",
            reasons=reasons,
            models=[model.name for model in models],
            failed=dict(repository.failed),
            devices={model.name: list(model.engine.devices) for model in models},
            **missing(),
        )
        return Json(body, HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK)

    @router.get(
        "/models",
        summary="List models",
        responses={200: answer_of(ModelsAnswer), **refusals(429, 503)},
    )
    async def models(request: Request) -> Response:
        """A key that is restricted gets the models that it may use."""
        offered, _ = _models(repository)
        permission = await permission_of(request)
        answers = [
            _describe(model)
            for model in offered
            if permission is None or permission.permits_model(model.name)
        ]
        return Json(ModelsAnswer(models=answers, failed=dict(repository.failed)))

    @router.post(
        "/models/reload",
        summary="Reload models from the bundle directory",
        responses={200: answer_of(ReloadAnswer), **refusals(403, 500, 503)},
    )
    async def reload_models(request: Request) -> Response:
        """Answers once it is done. Bundles that failed before are tried again."""
        await authorize(request)
        done = await reload()
        audit("models reloaded", "admin", loaded=done.loaded, retired=done.retired)
        offered, _ = _models(repository)
        return Json(
            ReloadAnswer(
                models=[_describe(model) for model in offered],
                failed=dict(done.failed),
                loaded=list(done.loaded),
                retired=list(done.retired),
            )
        )

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    def exposition(request: Request) -> Response:
        """The exposition is in OpenMetrics, with units and exemplars, if the client accepts it."""
        content, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    return router


def _models(repository: ModelRepository) -> tuple[tuple[LoadedModel, ...], list[str]]:
    """List models, and why there are none."""
    try:
        return repository.catalogue.models, []
    except NotReady as error:
        return (), [str(error)]


def hindrances(repository: ModelRepository, drain: Drain) -> list[str]:
    """Why the service is not ready; nothing if it is."""
    _, reasons = _models(repository)
    reasons += [f"model {name} has stopped" for name in repository.stopped]
    if drain.leaving:
        reasons.append("the service is shutting down")
    return reasons


def _describe(model: LoadedModel) -> ModelAnswer:
    manifest = model.manifest
    return ModelAnswer(
        name=model.name,
        version=manifest.version,
        directions=[
            DirectionAnswer(source=each.source, target=each.target) for each in manifest.directions
        ],
        precision=model.precision,
        precisions=list(manifest.precisions),
        examples=len(manifest.examples),
        scores=[RecordedScoreAnswer(**score.model_dump()) for score in manifest.provenance.scores],
        data=[CorpusAnswer(**corpus.model_dump()) for corpus in manifest.provenance.data],
    )
