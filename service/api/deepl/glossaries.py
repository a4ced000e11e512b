"""Routes under ``/v2/glossaries``: glossaries of one language pair.

Glossaries of several pairs, which ``/v3`` makes, are not listed here.
"""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.deepl.entries import ENTRIES
from service.api.deepl.errors import answers
from service.api.deepl.fields import admitted
from service.api.deepl.languages import base, glossary_pair
from service.api.deepl.schemas import body_of
from service.api.errors import BadRequest
from service.api.responses import Json
from service.state.entries import EntriesFormat, parse, render
from service.state.glossaries import Glossary, GlossaryStore
from service.translation.repository import ModelRepository
from service.translation.types import LanguagePair

_TSV = "text/tab-separated-values"
_CSV = "text/csv"


class GlossaryParameters(BaseModel):
    model_config = ConfigDict(json_schema_extra=ENTRIES)

    name: str = Field(min_length=1)
    source_lang: str
    target_lang: str
    entries: str = Field(
        min_length=1, description="A line for each: the term, a tab or comma, its translation."
    )
    entries_format: EntriesFormat


class GlossaryAnswer(BaseModel):
    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossariesAnswer(BaseModel):
    glossaries: list[GlossaryAnswer]


class PairAnswer(BaseModel):
    source_lang: str
    target_lang: str


class PairsAnswer(BaseModel):
    supported_languages: list[PairAnswer]


def create_router(access: Access, repository: ModelRepository, store: GlossaryStore) -> APIRouter:
    router = APIRouter(tags=["glossaries"])

    @router.get(
        "/glossary-language-pairs",
        summary="The pairs that a glossary can have",
        response_model=PairsAnswer,
        responses=answers(),
    )
    async def pairs(request: Request) -> Response:
        await admitted(access, request)
        offered = dict.fromkeys(map(named, repository.offer.direct_pairs()))
        return Json(
            {
                "supported_languages": [
                    {"source_lang": source, "target_lang": target} for source, target in offered
                ]
            }
        )

    @router.post(
        "/glossaries",
        status_code=201,
        summary="Make a glossary",
        response_model=GlossaryAnswer,
        responses=answers(),
        openapi_extra=body_of(GlossaryParameters),
    )
    async def create(request: Request) -> Response:
        """Wherever a text says a source term, its translation says the target term."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(GlossaryParameters)
        pair = glossary_pair(repository.offer, wanted.source_lang, wanted.target_lang)
        terms = parse(wanted.entries, wanted.entries_format, pair)
        glossary = await store.create(caller.name, wanted.name, {pair: terms})
        return Json(_described(glossary), 201)

    @router.get(
        "/glossaries",
        summary="The caller's glossaries",
        response_model=GlossariesAnswer,
        responses=answers(),
    )
    async def glossaries(request: Request) -> Response:
        """In the order they were made. All callers without a key share one list."""
        caller, _ = await admitted(access, request)
        found = await store.all(caller.name)
        shown = [_described(glossary) for glossary in found if len(glossary.dictionaries) == 1]
        return Json({"glossaries": shown})

    @router.get(
        "/glossaries/{glossary_id}",
        summary="A glossary without its entries",
        response_model=GlossaryAnswer,
        responses=answers(404),
    )
    async def glossary(request: Request, glossary_id: str) -> Response:
        caller, _ = await admitted(access, request)
        return Json(_described(await store.get(caller.name, glossary_id)))

    @router.get(
        "/glossaries/{glossary_id}/entries",
        summary="The entries of a glossary",
        response_class=Response,
        responses={
            200: {"content": {m: {"schema": {"type": "string"}} for m in (_TSV, _CSV)}},
            **answers(404),
        },
    )
    async def entries(request: Request, glossary_id: str) -> Response:
        """Tab-separated, or comma-separated if `Accept` says so."""
        caller, _ = await admitted(access, request)
        pair = _only_pair(await store.get(caller.name, glossary_id))
        terms = await store.terms(caller.name, glossary_id, pair)
        if request.headers.get("accept", "").startswith(_CSV):
            return Response(render(terms, "csv"), media_type=_CSV)
        return Response(render(terms, "tsv"), media_type=_TSV)

    @router.delete(
        "/glossaries/{glossary_id}",
        status_code=204,
        summary="Delete a glossary",
        responses=answers(404),
    )
    async def delete(request: Request, glossary_id: str) -> Response:
        caller, _ = await admitted(access, request)
        await store.delete(caller.name, glossary_id)
        return Response(status_code=204)

    return router


def named(pair: LanguagePair) -> tuple[str, str]:
    """Language codes of a pair as glossaries have them: lower case, without variants."""
    return base(pair.source).lower(), base(pair.target).lower()


def timestamp(moment: datetime) -> str:
    """ISO 8601 with microseconds, as the client requires a fraction of a second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _described(glossary: Glossary) -> dict[str, str | int | bool]:
    pair = _only_pair(glossary)
    source, target = named(pair)
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "source_lang": source,
        "target_lang": target,
        "creation_time": timestamp(glossary.created),
        "entry_count": glossary.dictionary(pair).entry_count,
    }


def _only_pair(glossary: Glossary) -> LanguagePair:
    if len(glossary.dictionaries) != 1:
        raise BadRequest(
            f"this glossary has {len(glossary.dictionaries)} dictionaries; ask /v3/glossaries"
        )
    return glossary.dictionaries[0].pair
