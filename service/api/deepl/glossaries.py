"""Routes under ``/v2/glossaries`` and ``/v3/glossaries``, and the terms of requests.

A glossary of ``/v2`` has one language pair, a glossary of ``/v3`` a dictionary for each of its
pairs. Both are kept in one store; ``/v2`` does not list glossaries of several pairs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access, Caller
from service.api.deepl.dialect import admitted, answers
from service.api.deepl.languages import base, glossary_pair, language, stored_pair
from service.api.errors import BadRequest
from service.api.fields import schemas
from service.api.fields.bounds import GLOSSARIES
from service.api.fields.options import LanguageCode
from service.api.fields.schemas import Answer, answer_of
from service.api.responses import Json, list_json
from service.catalogue.catalogue import Catalogue
from service.catalogue.repository import ModelRepository
from service.observability.logging import audit
from service.state.entries import ENTRIES_SCHEMA, EntriesFormat, parse, render
from service.state.errors import DictionaryNotFound
from service.state.glossaries import (
    LONGEST_NAME_BYTES,
    Dictionary,
    Glossary,
    GlossaryLimits,
    GlossaryStore,
)
from service.text.types import LanguagePair, Term
from service.threads.fair_turns import FairTurns

_TSV = "text/tab-separated-values"
_CSV = "text/csv"
_ID = schemas.in_path("glossary_id", "The `glossary_id` in the answer that created it.")
_UNDESCRIBED = {"parameters": [_ID]}
_RENDERED_AT_ONCE = 2
"""Answers with entries, which take up to a second and a hundred megabytes each."""

_Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME_BYTES)]

_Found = Sequence[tuple[LanguagePair, tuple[Term, ...]]]
"""Dictionaries with their entries."""


class DictionaryParameters(BaseModel):
    model_config = ConfigDict(json_schema_extra=ENTRIES_SCHEMA)

    source_lang: LanguageCode = Field(examples=["de"])
    target_lang: LanguageCode = Field(examples=["en"])
    entries: str = Field(
        min_length=1,
        description="A line for each: the term, a tab or comma, its translation.",
        examples=["Wiese\tlawn"],
    )
    entries_format: EntriesFormat = Field(examples=["tsv"])


class GlossaryParameters(DictionaryParameters):
    name: _Name = Field(examples=["garden"])


_Dictionaries = Annotated[
    list[DictionaryParameters], Field(max_length=GlossaryLimits().dictionaries)
]


class MultilingualParameters(BaseModel):
    name: _Name = Field(examples=["garden"])
    dictionaries: _Dictionaries = Field([], description="None makes an empty glossary.")


class PatchParameters(BaseModel):
    name: _Name | None = None
    dictionaries: _Dictionaries | None = None


class PairParameters(BaseModel):
    """Language pair of a request: both languages, or neither."""

    source_lang: LanguageCode | None = None
    target_lang: LanguageCode | None = None


class RemovedPair(BaseModel):
    source_lang: LanguageCode
    target_lang: LanguageCode


class PairAnswer(Answer):
    source_lang: str = Field(examples=["de"])
    target_lang: str = Field(examples=["en"])


class PairsAnswer(Answer):
    supported_languages: list[PairAnswer]


class GlossaryAnswer(Answer):
    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossariesAnswer(Answer):
    glossaries: list[GlossaryAnswer]


class DictionaryAnswer(PairAnswer):
    entry_count: int


class MultilingualGlossaryAnswer(Answer):
    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DictionaryAnswer]


class MultilingualGlossariesAnswer(Answer):
    glossaries: list[MultilingualGlossaryAnswer]


class EntriesOfPair(PairAnswer):
    entries: str
    entries_format: EntriesFormat


class EntriesAnswer(Answer):
    dictionaries: list[EntriesOfPair]


@dataclass(frozen=True, slots=True)
class _Routes:
    """Objects that the routes of both versions share."""

    access: Access
    repository: ModelRepository
    store: GlossaryStore
    rendering: FairTurns = field(default_factory=lambda: FairTurns(_RENDERED_AT_ONCE))

    async def read(self, wanted: DictionaryParameters) -> tuple[LanguagePair, tuple[Term, ...]]:
        pair = glossary_pair(self.repository.catalogue, wanted.source_lang, wanted.target_lang)
        # The entries are parsed in a thread, because a dictionary may have thousands of them.
        return pair, await asyncio.to_thread(parse, wanted.entries, wanted.entries_format, pair)

    async def create(
        self, caller: Caller, name: str, dictionaries: Iterable[DictionaryParameters]
    ) -> Glossary:
        made: dict[LanguagePair, tuple[Term, ...]] = {}
        for each in dictionaries:
            pair, terms = await self.read(each)
            if pair in made:
                raise BadRequest(f"there are two dictionaries for {pair}")
            made[pair] = terms
        glossary = await self.store.create(caller.name, name, made)
        audit("glossary created", caller.name, glossary=glossary.id)
        return glossary

    async def entries(
        self,
        caller: Caller,
        glossary: Glossary,
        pairs: Sequence[LanguagePair],
        rendered: Callable[[_Found], bytes],
    ) -> bytes:
        """Body of an answer, made by ``rendered`` in a thread from the entries of ``pairs``."""
        async with self.rendering.turn(caller.counted_as):
            found = [(p, await self.store.terms(caller.name, glossary.id, p)) for p in pairs]
            return await asyncio.to_thread(rendered, found)

    async def one(self, request: Request) -> tuple[Caller, Glossary]:
        caller, _ = await admitted(self.access, request)
        return caller, await self.store.get(caller.name, request.path_params["glossary_id"])

    def add(
        self, router: APIRouter, shown: Callable[[Glossary], Answer], answer: type[Answer]
    ) -> None:
        """Add the routes that describe and delete a glossary."""

        @router.get(
            "/glossaries/{glossary_id}",
            summary="Describe a glossary, without its entries",
            responses={200: answer_of(answer), **answers(404)},
            openapi_extra=_UNDESCRIBED,
        )
        async def glossary(request: Request) -> Response:
            _, found = await self.one(request)
            return Json(shown(found))

        @router.delete(
            "/glossaries/{glossary_id}",
            status_code=204,
            summary="Delete a glossary",
            responses=answers(404),
            openapi_extra=_UNDESCRIBED,
        )
        async def delete(request: Request) -> Response:
            caller, found = await self.one(request)
            await self.store.delete(caller.name, found.id)
            audit("glossary deleted", caller.name, glossary=found.id)
            return Response(status_code=204)


def create_router(access: Access, repository: ModelRepository, store: GlossaryStore) -> APIRouter:
    """The routes of ``/v2``."""
    router = APIRouter(tags=["glossaries"])
    routes = _Routes(access, repository, store)

    @router.get(
        "/glossary-language-pairs",
        summary="List the language pairs of glossaries",
        responses={200: answer_of(PairsAnswer), **answers()},
    )
    async def pairs(request: Request) -> Response:
        await admitted(access, request)
        offered = dict.fromkeys(_named(pair) for pair in repository.catalogue.direct_pairs())
        return Json(
            PairsAnswer(
                supported_languages=[
                    PairAnswer(source_lang=source, target_lang=target) for source, target in offered
                ]
            )
        )

    @router.post(
        "/glossaries",
        status_code=201,
        summary="Create a glossary",
        responses={201: answer_of(GlossaryAnswer), **answers()},
        openapi_extra={"requestBody": schemas.body(GlossaryParameters)},
    )
    async def create(request: Request) -> Response:
        """Each occurrence of a source term is translated by its target term."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(GlossaryParameters)
        return Json(_described(await routes.create(caller, wanted.name, [wanted])), 201)

    @router.get(
        "/glossaries",
        summary="List the caller's glossaries",
        responses={200: answer_of(GlossariesAnswer), **answers()},
    )
    async def glossaries(request: Request) -> Response:
        """Glossaries are in the order they were made. All callers without a key share one list."""
        caller, _ = await admitted(access, request)
        found = await store.all(caller.name)
        shown = [_described(glossary) for glossary in found if len(glossary.dictionaries) == 1]
        return Json(GlossariesAnswer(glossaries=shown))

    routes.add(router, _described, GlossaryAnswer)

    @router.get(
        "/glossaries/{glossary_id}/entries",
        summary="Entries of a glossary",
        response_class=Response,
        responses={
            200: {"content": {m: {"schema": {"type": "string"}} for m in (_TSV, _CSV)}},
            **answers(404),
        },
        openapi_extra=_UNDESCRIBED,
    )
    async def entries(request: Request) -> Response:
        """Tab-separated, or comma-separated for `Accept: text/csv`."""
        caller, found = await routes.one(request)
        as_csv = request.headers.get("accept", "").startswith(_CSV)
        rendered = partial(_text_of, entries_format="csv" if as_csv else "tsv")
        body = await routes.entries(caller, found, [_only_dictionary(found).pair], rendered)
        return Response(body, media_type=_CSV if as_csv else _TSV)

    return router


def create_multilingual_router(
    access: Access, repository: ModelRepository, store: GlossaryStore
) -> APIRouter:
    """The routes of ``/v3``."""
    router = APIRouter(tags=["glossaries"])
    routes = _Routes(access, repository, store)

    @router.post(
        "/glossaries",
        status_code=201,
        summary="Create a glossary",
        responses={201: answer_of(MultilingualGlossaryAnswer), **answers()},
        openapi_extra={"requestBody": schemas.body(MultilingualParameters)},
    )
    async def create(request: Request) -> Response:
        """A form has fields such as `dictionaries[0].source_lang`."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(MultilingualParameters)
        made = await routes.create(caller, wanted.name, wanted.dictionaries)
        return Json(_multilingual(made), 201)

    @router.get(
        "/glossaries",
        summary="List the caller's glossaries",
        responses={200: answer_of(MultilingualGlossariesAnswer), **answers()},
    )
    async def glossaries(request: Request) -> Response:
        """Glossaries are in the order they were made. All callers without a key share one list."""
        caller, _ = await admitted(access, request)
        found = await store.all(caller.name)
        return Json(MultilingualGlossariesAnswer(glossaries=[_multilingual(e) for e in found]))

    routes.add(router, _multilingual, MultilingualGlossaryAnswer)

    @router.patch(
        "/glossaries/{glossary_id}",
        summary="Rename a glossary, or add entries",
        responses={200: answer_of(MultilingualGlossaryAnswer), **answers(404)},
        openapi_extra=_UNDESCRIBED | {"requestBody": schemas.body(PatchParameters)},
    )
    async def patch(request: Request) -> Response:
        """Entries stay beside those that are there, and replace those of the same source term.

        A form has fields such as `dictionaries[0].source_lang`.
        """
        caller, fields = await admitted(access, request)
        wanted = fields.parse(PatchParameters)
        identifier = request.path_params["glossary_id"]
        dictionaries = [await routes.read(each) for each in wanted.dictionaries or ()]
        if wanted.name is not None:
            await store.rename(caller.name, identifier, wanted.name)
            audit("glossary renamed", caller.name, glossary=identifier)
        for pair, terms in dictionaries:
            await store.merge(caller.name, identifier, pair, terms)
            audit("dictionary extended", caller.name, glossary=identifier, pair=pair)
        return Json(_multilingual(await store.get(caller.name, identifier)))

    @router.get(
        "/glossaries/{glossary_id}/entries",
        summary="Entries of one dictionary, or of all",
        responses={200: answer_of(EntriesAnswer), **answers(404)},
        openapi_extra={"parameters": [_ID, *schemas.query(PairParameters)]},
    )
    async def entries(request: Request) -> Response:
        """Tab-separated."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(PairParameters)
        glossary = await store.get(caller.name, request.path_params["glossary_id"])
        pairs = [dictionary.pair for dictionary in glossary.dictionaries]
        if wanted != PairParameters():
            pairs = [_pair_of(glossary, fields.parse(RemovedPair))]
        body = await routes.entries(caller, glossary, pairs, _entries_json)
        return Response(body, media_type=Json.media_type)

    @router.put(
        "/glossaries/{glossary_id}/dictionaries",
        summary="Replace the entries of a dictionary",
        responses={200: answer_of(DictionaryAnswer), **answers(404)},
        openapi_extra=_UNDESCRIBED | {"requestBody": schemas.body(DictionaryParameters)},
    )
    async def replace(request: Request) -> Response:
        caller, fields = await admitted(access, request)
        pair, terms = await routes.read(fields.parse(DictionaryParameters))
        identifier = request.path_params["glossary_id"]
        replaced = await store.replace(caller.name, identifier, pair, terms)
        audit("dictionary replaced", caller.name, glossary=identifier, pair=pair)
        return Json(_counted(replaced))

    @router.delete(
        "/glossaries/{glossary_id}/dictionaries",
        status_code=204,
        summary="Delete a dictionary of a glossary",
        responses=answers(404),
        openapi_extra={"parameters": [_ID, *schemas.query(RemovedPair)]},
    )
    async def remove(request: Request) -> Response:
        caller, fields = await admitted(access, request)
        wanted = fields.parse(RemovedPair)
        glossary = await store.get(caller.name, request.path_params["glossary_id"])
        pair = _pair_of(glossary, wanted)
        await store.remove(caller.name, glossary.id, pair)
        audit("dictionary deleted", caller.name, glossary=glossary.id, pair=pair)
        return Response(status_code=204)

    return router


async def terms_of(
    store: GlossaryStore,
    caller: Caller,
    catalogue: Catalogue,
    glossary_id: str | None,
    glossary_ids: Sequence[str],
    source: str | None,
    target: str,
) -> tuple[Term, ...]:
    """Terms of all glossaries of a request; the first glossary wins for a repeated source term.

    Raises ``GlossaryNotFound``, or ``BadRequest``, for example for a missing language pair.
    """
    identifiers = list(dict.fromkeys(glossary_ids))
    if glossary_id is not None:
        identifiers.append(glossary_id)
    if not identifiers:
        return ()
    if len(identifiers) > GLOSSARIES:
        raise BadRequest(f"Value for 'glossary_ids' not supported: more than {GLOSSARIES}.")
    glossaries = [await store.get(caller.name, identifier) for identifier in identifiers]
    if glossary_id is not None and glossary_ids:
        raise BadRequest("give either 'glossary_id' or 'glossary_ids'")
    if source is None:
        raise BadRequest("Parameter 'source_lang' not specified: a glossary needs it.")
    source_code = language(catalogue, source, "sources")
    target_code = language(catalogue, target, "targets")
    dictionaries: list[tuple[Term, ...]] = []
    for glossary in glossaries:
        pairs = tuple(dictionary.pair for dictionary in glossary.dictionaries)
        pair = stored_pair(source_code, target_code, pairs)
        try:
            dictionaries.append(await store.terms(caller.name, glossary.id, pair))
        except DictionaryNotFound as error:
            raise BadRequest(f"No dictionary found for language pair: {error}") from error
    if len(dictionaries) == 1:
        return dictionaries[0]
    return await asyncio.to_thread(_merged, dictionaries)


def _merged(dictionaries: Sequence[tuple[Term, ...]]) -> tuple[Term, ...]:
    """Terms of all dictionaries; the first dictionary wins for a repeated source term."""
    found: dict[str, Term] = {}
    for terms in dictionaries:
        for term in terms:
            found.setdefault(term.source, term)
    return tuple(found.values())


def _pair_of(glossary: Glossary, wanted: RemovedPair) -> LanguagePair:
    pairs = tuple(dictionary.pair for dictionary in glossary.dictionaries)
    return stored_pair(wanted.source_lang, wanted.target_lang, pairs)


def _named(pair: LanguagePair) -> tuple[str, str]:
    """Language codes of a pair as glossaries have them: lower case, without variants."""
    return base(pair.source).lower(), base(pair.target).lower()


def _languages(pair: LanguagePair) -> dict[str, str]:
    source, target = _named(pair)
    return {"source_lang": source, "target_lang": target}


def _timestamp(moment: datetime) -> str:
    """ISO 8601 with microseconds, as the client requires a fraction of a second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _only_dictionary(glossary: Glossary) -> Dictionary:
    if len(glossary.dictionaries) != 1:
        raise BadRequest(
            f"this glossary has {len(glossary.dictionaries)} dictionaries; ask /v3/glossaries"
        )
    return glossary.dictionaries[0]


def _described(glossary: Glossary) -> GlossaryAnswer:
    dictionary = _only_dictionary(glossary)
    return GlossaryAnswer(
        glossary_id=glossary.id,
        name=glossary.name,
        ready=True,
        **_languages(dictionary.pair),
        creation_time=_timestamp(glossary.created),
        entry_count=dictionary.entry_count,
    )


def _multilingual(glossary: Glossary) -> MultilingualGlossaryAnswer:
    return MultilingualGlossaryAnswer(
        glossary_id=glossary.id,
        name=glossary.name,
        creation_time=_timestamp(glossary.created),
        dictionaries=[_counted(dictionary) for dictionary in glossary.dictionaries],
    )


def _counted(dictionary: Dictionary) -> DictionaryAnswer:
    return DictionaryAnswer(**_languages(dictionary.pair), entry_count=dictionary.entry_count)


def _text_of(found: _Found, entries_format: EntriesFormat) -> bytes:
    """Entries of one dictionary as text."""
    ((_, terms),) = found
    # Lines are encoded one by one, as encoding a long text holds the interpreter lock.
    return b"\n".join(line.encode() for line in render(terms, entries_format))


def _entries_json(found: _Found) -> bytes:
    """JSON of an ``EntriesAnswer``."""
    return list_json(
        "dictionaries",
        (
            EntriesOfPair(
                **_languages(pair), entries="\n".join(render(terms, "tsv")), entries_format="tsv"
            )
            for pair, terms in found
        ),
    )
