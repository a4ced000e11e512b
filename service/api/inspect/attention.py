"""Routes for attention maps, word alignments, searches and scores.

They serve translations that were requested with ``attention``, by id, and any pair of texts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Request, Response

from service.api.access import Access, Caller
from service.api.errors import BadRequest
from service.api.fields import schemas
from service.api.fields.bounds import RequestLimits
from service.api.fields.parameters import Fields, read_fields
from service.api.fields.schemas import answer_of, answer_or
from service.api.inspect.attention_answers import (
    AlignmentAnswer,
    AttentionAnswer,
    AttentionOfPairAnswer,
    KeptTranslationAnswer,
    ScoresAnswer,
    alignment_answer,
    map_answers,
    score_answer,
    text_answer,
)
from service.api.inspect.attention_parameters import (
    AlignmentParameters,
    AttentionOfPairParameters,
    AttentionParameters,
    PlaceParameters,
    ScoreParameters,
    SearchParameters,
    ViewParameters,
)
from service.api.inspect.search_answers import SearchAnswer, step_answers
from service.api.middleware import facts_of
from service.api.responses import Json, long_list, refusals
from service.figures.arrays import as_npy
from service.figures.painter import Painter
from service.inspection.attention import Maps
from service.inspection.inspector import AlignedPair, Inspector, Pair, Place
from service.text.alignment import pharaoh
from service.threads.fair_turns import FairTurns
from service.translation.tasks import deadline

_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_FILES = {"application/octet-stream": _BINARY, "image/png": _BINARY}
_PICTURES = {"svg": "image/svg+xml", "png": "image/png"}
_ID = schemas.in_path("id", "The `id` that `POST /translate` answered with.")
_ABOUT_KEPT = refusals(400, 403, 404, 410, 413, 429, 500, 503, 504)
_ABOUT_GIVEN = refusals(400, 403, 404, 413, 429, 500, 503, 504)


def create_router(
    inspector: Inspector, painter: Painter, access: Access, limits: RequestLimits
) -> APIRouter:
    router = APIRouter(tags=["attention"])
    # Several threads at once would keep the interpreter lock from the event loop for longer.
    building = FairTurns(1)

    async def read(request: Request) -> tuple[Caller, Fields]:
        fields = await read_fields(request)
        return await access.identify(request, fields.key), fields

    def place_of(request: Request, caller: Caller, parameters: PlaceParameters) -> Place:
        return Place(
            request.path_params["id"],
            parameters.text,
            parameters.leg,
            parameters.sentence,
            access.callers.scope(caller),
        )

    @asynccontextmanager
    async def admitted(caller: Caller) -> AsyncIterator[None]:
        """Rate limit and deadline of a request about a kept translation, which is already paid."""
        await access.admit(caller)
        async with deadline(limits.seconds):
            yield

    @asynccontextmanager
    async def charged(caller: Caller, pairs: list[Pair]) -> AsyncIterator[None]:
        """Text limits, charge and deadline of a request with its own texts."""
        characters = sum(len(pair.source_text) + len(pair.target_text) for pair in pairs)
        limits.check_sizes(len(pairs), characters)
        await access.admit(caller)
        async with access.charge(caller, characters), deadline(limits.seconds):
            yield

    async def rendered(request: Request, caller: Caller, maps: Maps, format: str) -> Response:
        facts_of(request).model = maps.model
        if format == "png":
            return Response(await painter.heatmap(maps, caller.counted_as), media_type="image/png")
        if format == "npy":
            name = {"content-disposition": 'attachment; filename="attention.npy"'}
            return Response(as_npy(maps), headers=name, media_type="application/octet-stream")
        return await _json(maps)

    @router.get(
        "/translations/{id}",
        summary="Sentences and tokens of a kept translation",
        responses={200: answer_of(KeptTranslationAnswer), **_ABOUT_KEPT},
        openapi_extra={"parameters": [_ID, *schemas.query(ViewParameters)]},
    )
    async def translation(request: Request) -> Response:
        """The translation was requested with `attention`."""
        translation_id = request.path_params["id"]
        caller, _ = await read(request)
        async with admitted(caller), building.turn(caller.counted_as):
            texts = await inspector.texts(translation_id, access.callers.scope(caller))
            return await long_list("texts", map(text_answer, texts), id=translation_id)

    @router.get(
        "/translations/{id}/attention",
        summary="Attention maps of a kept translation",
        responses={200: answer_or(AttentionAnswer, _FILES), **_ABOUT_KEPT},
        openapi_extra={"parameters": [_ID, *schemas.query(AttentionParameters)]},
    )
    async def attention(request: Request) -> Response:
        """Weights of a translation requested with `attention`. A row of `cross` is the attention
        with which that piece was predicted."""
        caller, fields = await read(request)
        parameters = fields.parse(AttentionParameters)
        async with admitted(caller):
            place = place_of(request, caller, parameters)
            maps = await inspector.attention(place, parameters.selection, caller.counted_as)
            return await rendered(request, caller, maps, parameters.format)

    @router.get(
        "/translations/{id}/alignment",
        summary="Word alignment of a kept translation",
        responses={200: answer_or(AlignmentAnswer, {"text/plain": _TEXT}), **_ABOUT_KEPT},
        openapi_extra={"parameters": [_ID, *schemas.query(AlignmentParameters)]},
    )
    async def alignment(request: Request) -> Response:
        """The translation was requested with `attention`."""
        caller, fields = await read(request)
        parameters = fields.parse(AlignmentParameters)
        async with admitted(caller):
            aligned = await inspector.alignment(
                place_of(request, caller, parameters), caller.counted_as
            )
            if parameters.format == "pharaoh":
                return _pharaoh(aligned)
            return Json(alignment_answer(aligned))

    @router.get(
        "/translations/{id}/search",
        summary="Tree of the search of a kept translation",
        responses={
            200: answer_or(SearchAnswer, {"image/svg+xml": _TEXT, "image/png": _BINARY}),
            **_ABOUT_KEPT,
        },
        openapi_extra={"parameters": [_ID, *schemas.query(SearchParameters)]},
    )
    async def search(request: Request) -> Response:
        """The tree of a translation requested with `attention`. The sentence is decoded again, and
        every ranked candidate recorded."""
        caller, fields = await read(request)
        parameters = fields.parse(SearchParameters)
        async with admitted(caller):
            found = await inspector.search(place_of(request, caller, parameters), caller.counted_as)
            facts_of(request).model = found.model
            if parameters.format == "json":
                return await long_list(
                    "steps",
                    step_answers(found),
                    model=found.model,
                    source=found.source_pieces,
                    winner=found.winner,
                    reproduced=found.reproduced,
                )
            picture = await painter.search(found, parameters.format, caller.counted_as)
            return Response(picture, media_type=_PICTURES[parameters.format])

    @router.post(
        "/attention",
        summary="Attention maps or word alignment of two texts",
        responses={
            200: answer_or(AttentionOfPairAnswer, {**_FILES, "text/plain": _TEXT}),
            **_ABOUT_GIVEN,
        },
        openapi_extra={"requestBody": schemas.body(AttentionOfPairParameters, limits)},
    )
    async def attention_of_pair(request: Request) -> Response:
        """Attention of the model when `target_text` is its translation of `source_text`."""
        caller, fields = await read(request)
        parameters = fields.parse(AttentionOfPairParameters)
        if parameters.alignment and parameters.format != "json":
            raise BadRequest(
                "Invalid request: alignment is added to json only; format pharaoh is the alignment "
                "alone"
            )
        pair = Pair(parameters.source_text, parameters.target_text)
        async with charged(caller, [pair]):
            if parameters.format == "pharaoh":
                return _pharaoh(
                    await inspector.alignment_of(
                        pair, parameters.choice(caller.permission), caller.counted_as
                    )
                )
            wanted = (
                pair,
                parameters.choice(caller.permission),
                parameters.selection,
                caller.counted_as,
            )
            if not parameters.alignment:
                maps = await inspector.attention_of(*wanted)
                return await rendered(request, caller, maps, parameters.format)
            maps, aligned = await inspector.attention_and_alignment_of(*wanted)
            facts_of(request).model = maps.model
            return await _json(maps, alignment=alignment_answer(aligned))

    @router.post(
        "/score",
        summary="Log-probabilities of given translations",
        responses={200: answer_of(ScoresAnswer), **_ABOUT_GIVEN},
        openapi_extra={"requestBody": schemas.body(ScoreParameters, limits)},
    )
    async def score(request: Request) -> Response:
        """Each text is read as one sentence, even if it has several."""
        caller, fields = await read(request)
        parameters = fields.parse(ScoreParameters)
        for texts in (parameters.sources, parameters.targets):
            limits.check(texts)
        pairs = parameters.pairs
        async with charged(caller, pairs):
            scores = await inspector.scores(
                pairs,
                parameters.choice(caller.permission),
                caller.counted_as,
                confidence=parameters.confidence,
            )
            async with building.turn(caller.counted_as):
                return await long_list("scores", map(score_answer, scores))

    return router


async def _json(maps: Maps, **beside: Any) -> Response:
    return await long_list(
        "maps",
        map_answers(maps),
        **beside,
        model=maps.model,
        kind=maps.kind,
        rows=maps.rows,
        columns=maps.columns,
        layers=maps.layers,
        heads=maps.heads,
    )


def _pharaoh(aligned: AlignedPair) -> Response:
    return Response(pharaoh(aligned.alignment.links()) + "\n", media_type="text/plain")
