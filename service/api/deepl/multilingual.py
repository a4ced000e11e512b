"""Routes under ``/v3/glossaries``: glossaries with a dictionary for each language pair."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access, Caller
from service.api.deepl.entries import ENTRIES
from service.api.deepl.errors import answers
from service.api.deepl.fields import admitted
from service.api.deepl.glossaries import named, timestamp
from service.api.deepl.languages import glossary_pair, stored_pair
from service.api.deepl.schemas import body_of, query_of
from service.api.errors import BadRequest
from service.api.responses import Json
from service.state.entries import EntriesFormat, parse, render
from service.state.glossaries import Dictionary, Glossary, GlossaryStore
from service.translation.repository import ModelRepository
from service.translation.types import LanguagePair, Term


class DictionaryParameters(BaseModel):
    model_config = ConfigDict(json_schema_extra=ENTRIES)

    source_lang: str
    target_lang: str
    entries: str = Field(
        min_length=1, description="A line for each: the term, a tab or comma, its translation."
    )
    entries_format: EntriesFormat


class CreateParameters(BaseModel):
    name: str = Field(min_length=1)
    dictionaries: list[DictionaryParameters] = Field(min_length=1)


class PatchParameters(BaseModel):
    name: str | None = Field(None, min_length=1)
    dictionaries: list[DictionaryParameters] | None = None


class PairParameters(BaseModel):
    """Both or neither."""

    source_lang: str | None = None
    target_lang: str | None = None


class RemovedPair(BaseModel):
    """``PairParameters`` as documented for routes that require both fields."""

    source_lang: str
    target_lang: str


class DictionaryAnswer(BaseModel):
    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualGlossaryAnswer(BaseModel):
    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryAnswer]


class MultilingualGlossariesAnswer(BaseModel):
    glossaries: list[MultilingualGlossaryAnswer]


class EntriesOfPair(BaseModel):
    source_lang: str
    target_lang: str
    entries: str
    entries_format: EntriesFormat


class EntriesAnswer(BaseModel):
    dictionaries: list[EntriesOfPair]


def create_router(access: Access, repository: ModelRepository, store: GlossaryStore) -> APIRouter:
    router = APIRouter(tags=["glossaries"])

    def read(wanted: DictionaryParameters) -> tuple[LanguagePair, tuple[Term, ...]]:
        pair = glossary_pair(repository.offer, wanted.source_lang, wanted.target_lang)
        return pair, parse(wanted.entries, wanted.entries_format, pair)

    async def stored(caller: Caller, identifier: str, wanted: PairParameters) -> LanguagePair:
        if wanted.source_lang is None or wanted.target_lang is None:
            raise BadRequest("Parameters 'source_lang' and 'target_lang' not specified.")
        pairs = _pairs(await store.get(caller.name, identifier))
        return stored_pair(wanted.source_lang, wanted.target_lang, pairs)

    @router.post(
        "/glossaries",
        status_code=201,
        summary="Make a glossary",
        response_model=MultilingualGlossaryAnswer,
        responses=answers(),
        openapi_extra=body_of(CreateParameters, forms=False),
    )
    async def create(request: Request) -> Response:
        caller, fields = await admitted(access, request)
        wanted = fields.parse(CreateParameters)
        dictionaries: dict[LanguagePair, tuple[Term, ...]] = {}
        for each in wanted.dictionaries:
            pair, terms = read(each)
            if pair in dictionaries:
                raise BadRequest(f"there are two dictionaries for {pair}")
            dictionaries[pair] = terms
        return Json(_described(await store.create(caller.name, wanted.name, dictionaries)), 201)

    @router.get(
        "/glossaries",
        summary="The caller's glossaries",
        response_model=MultilingualGlossariesAnswer,
        responses=answers(),
    )
    async def glossaries(request: Request) -> Response:
        """In the order they were made. All callers without a key share one list."""
        caller, _ = await admitted(access, request)
        return Json({"glossaries": [_described(each) for each in await store.all(caller.name)]})

    @router.get(
        "/glossaries/{glossary_id}",
        summary="A glossary without its entries",
        response_model=MultilingualGlossaryAnswer,
        responses=answers(404),
    )
    async def glossary(request: Request, glossary_id: str) -> Response:
        caller, _ = await admitted(access, request)
        return Json(_described(await store.get(caller.name, glossary_id)))

    @router.patch(
        "/glossaries/{glossary_id}",
        summary="Rename a glossary, or add entries",
        response_model=MultilingualGlossaryAnswer,
        responses=answers(404),
        openapi_extra=body_of(PatchParameters, forms=False),
    )
    async def patch(request: Request, glossary_id: str) -> Response:
        """Entries stay beside those that are there, and replace those of the same source term."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(PatchParameters)
        dictionaries = [read(each) for each in wanted.dictionaries or ()]
        if wanted.name is not None:
            await store.rename(caller.name, glossary_id, wanted.name)
        for pair, terms in dictionaries:
            await store.merge(caller.name, glossary_id, pair, terms)
        return Json(_described(await store.get(caller.name, glossary_id)))

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

    @router.get(
        "/glossaries/{glossary_id}/entries",
        summary="The entries of one dictionary, or of all",
        response_model=EntriesAnswer,
        responses=answers(404),
        openapi_extra=query_of(PairParameters),
    )
    async def entries(request: Request, glossary_id: str) -> Response:
        """Tab-separated."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(PairParameters)
        pairs = _pairs(await store.get(caller.name, glossary_id))
        if wanted != PairParameters():
            pairs = (await stored(caller, glossary_id, wanted),)
        found = [(pair, await store.terms(caller.name, glossary_id, pair)) for pair in pairs]
        return Json({"dictionaries": [_with_entries(*each) for each in found]})

    @router.put(
        "/glossaries/{glossary_id}/dictionaries",
        summary="Make a dictionary hold these entries only",
        response_model=DictionaryAnswer,
        responses=answers(404),
        openapi_extra=body_of(DictionaryParameters, forms=False),
    )
    async def replace(request: Request, glossary_id: str) -> Response:
        caller, fields = await admitted(access, request)
        pair, terms = read(fields.parse(DictionaryParameters))
        return Json(_counted(await store.replace(caller.name, glossary_id, pair, terms)))

    @router.delete(
        "/glossaries/{glossary_id}/dictionaries",
        status_code=204,
        summary="Delete a dictionary of a glossary",
        responses=answers(404),
        openapi_extra=query_of(RemovedPair),
    )
    async def remove(request: Request, glossary_id: str) -> Response:
        caller, fields = await admitted(access, request)
        pair = await stored(caller, glossary_id, fields.parse(PairParameters))
        await store.remove(caller.name, glossary_id, pair)
        return Response(status_code=204)

    return router


def _pairs(glossary: Glossary) -> tuple[LanguagePair, ...]:
    return tuple(dictionary.pair for dictionary in glossary.dictionaries)


def _described(glossary: Glossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "creation_time": timestamp(glossary.created),
        "dictionaries": [_counted(dictionary) for dictionary in glossary.dictionaries],
    }


def _counted(dictionary: Dictionary) -> dict[str, str | int]:
    source, target = named(dictionary.pair)
    return {
        "source_lang": source,
        "target_lang": target,
        "entry_count": dictionary.entry_count,
    }


def _with_entries(pair: LanguagePair, terms: tuple[Term, ...]) -> dict[str, str]:
    source, target = named(pair)
    return {
        "source_lang": source,
        "target_lang": target,
        "entries": render(terms, "tsv"),
        "entries_format": "tsv",
    }
