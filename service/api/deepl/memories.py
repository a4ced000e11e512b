"""Routes under ``/v3/translation_memories``, and the memory of a request.

A memory is made by an import job: the client declares a TMX file, and sends it to the address that
it got. An export job is done at once; the file is made while it is fetched. Both addresses have a
secret in their query, which logs do not show, and need no key.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from service.api.access import Access, Caller
from service.api.addresses import address_of_service
from service.api.deepl.dialect import admitted, answers
from service.api.deepl.languages import base, language
from service.api.deepl.memory_answers import (
    ExportAnswer,
    ImportAnswer,
    JobAnswer,
    MemoriesAnswer,
    MemoryAnswer,
    SegmentsAnswer,
    described,
    described_job,
    segment_of,
    timestamp,
)
from service.api.errors import BadRequest
from service.api.fields import schemas
from service.api.fields.bounds import FILENAME_CHARACTERS, NAME_CHARACTERS
from service.api.fields.options import Name
from service.api.fields.schemas import answer_of
from service.api.responses import Json
from service.catalogue.catalogue import Catalogue
from service.state.errors import InvalidMemory, TooManyMemories
from service.state.memories import UNITS_IN_A_PART, MemoryJob, MemoryStore, StoredMemory
from service.state.tmx import MemoryLimits, MemoryUnit, read_tmx, write_tmx
from service.text.memory.memory_index import Memory, MemoryIndex, Unit
from service.text.types import LanguagePair
from service.threads.fair_turns import FairTurns
from service.translation.decoding import WHOLE

UPLOAD = "/v3/translation_memories/upload"
"""Path to which files are sent; bodies may be larger there."""
_TMX = "application/xml"
_READ_AT_ONCE = 2
"""Files that are read at once; the units of each take up to 200 MB."""
_MOST_INDEXED_UNITS = 200_000
"""Units in all indexes that a process keeps."""
_DEFAULT_THRESHOLD = 75
_SHORTEST_FILTER = 2
_SENT = "the file of this import has been sent already"

_FILE: dict[str, Any] = {"type": "string", "format": "binary"}
_ID = schemas.in_path("memory_id", "The `translation_memory_id` of a memory.")
_JOB = schemas.in_path("job_id", "The `job_id` in the answer that began the job.")


class PageParameters(BaseModel):
    page: Annotated[int, Field(ge=0, le=1_000)] = 0
    page_size: Annotated[int, Field(ge=1, le=25)] = 10


class SegmentParameters(BaseModel):
    page_size: Annotated[int, Field(ge=1, le=100)] = 50
    page_cursor: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        0, description="The `next_page_cursor` of the page before."
    )
    filter_text: (
        Annotated[str, Field(min_length=_SHORTEST_FILTER, max_length=NAME_CHARACTERS)] | None
    ) = Field(None, description="Part of a source or a translation.")
    filter_case_sensitive: bool = False


class FileDescription(BaseModel):
    file_name: Annotated[str, Field(min_length=1, max_length=FILENAME_CHARACTERS)]
    content_length: Annotated[int, Field(ge=1, le=MemoryLimits().file_bytes), WHOLE] = Field(
        description="Bytes."
    )
    content_type: Name | None = None


class ImportSettings(BaseModel):
    display_name: Name | None = Field(None, description="The name of the file if left out.")


class ImportParameters(BaseModel):
    source_file: FileDescription = Field(
        examples=[{"file_name": "pictures.tmx", "content_length": 2_048}]
    )
    parameters: ImportSettings = ImportSettings(display_name=None)


class FileParameters(BaseModel):
    job: Name = Field(description="The secret in the address of a job's file.")


def create_router(access: Access, store: MemoryStore, public_url: str) -> APIRouter:
    router = APIRouter(prefix="/translation_memories", tags=["translation memories"])
    turns = FairTurns(_READ_AT_ONCE)

    async def one(request: Request) -> tuple[Caller, StoredMemory]:
        caller, _ = await admitted(access, request)
        return caller, await store.get(caller.name, request.path_params["memory_id"])

    def file_address(request: Request, kind: str, job: MemoryJob) -> str:
        root = address_of_service(request, public_url)
        return f"{root}/v3/translation_memories/{kind}?job={job.secret}"

    @router.get(
        "",
        summary="List the caller's translation memories",
        responses={200: answer_of(MemoriesAnswer), **answers()},
        openapi_extra={"parameters": schemas.query(PageParameters)},
    )
    async def memories(request: Request) -> Response:
        """Oldest first. All callers without a key share one list."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(PageParameters)
        found = await store.all(caller.name)
        start = wanted.page * wanted.page_size
        shown = [described(each) for each in found[start : start + wanted.page_size]]
        return Json(MemoriesAnswer(translation_memories=shown, total_count=len(found)))

    @router.post(
        "/import",
        status_code=201,
        summary="Begin to import a TMX file",
        responses={201: answer_of(ImportAnswer), **answers()},
        openapi_extra={"requestBody": schemas.json_body(ImportParameters)},
    )
    async def begin_import(request: Request) -> Response:
        """The file is sent to `upload_url`, with PUT and without a key."""
        caller, fields = await admitted(access, request)
        wanted = fields.parse(ImportParameters)
        name = wanted.parameters.display_name or wanted.source_file.file_name
        job = await store.open_job(caller.name, "import", name[:NAME_CHARACTERS])
        address = file_address(request, "upload", job)
        return Json(
            ImportAnswer(job_id=job.id, upload_url=address, expires_at=timestamp(job.ends)), 201
        )

    @router.put(
        "/upload",
        status_code=200,
        summary="Send the TMX file of an import",
        responses=answers(404),
        openapi_extra={
            "parameters": schemas.query(FileParameters),
            "requestBody": {"required": True, "content": {_TMX: {"schema": _FILE}}},
        },
    )
    async def upload(request: Request) -> Response:
        """The answer comes once the file has been read; the job says what became of it."""
        await access.admit(access.callers.anonymous(request))
        job = await store.job_with(request.query_params.get("job", ""), "import")
        if job.memory or job.error:
            raise BadRequest(_SENT)
        with tempfile.TemporaryFile() as file:
            async for content in request.stream():
                await asyncio.to_thread(file.write, content)
            async with turns.turn(job.owner or ""):
                file.seek(0)
                try:
                    read = await asyncio.to_thread(read_tmx, file, store.limits)
                    finished = await store.finish_import(job, read)
                except (InvalidMemory, TooManyMemories) as error:
                    await store.fail(job, str(error))
                else:
                    if not finished:
                        raise BadRequest(_SENT)
        return Response()

    @router.get(
        "/download",
        summary="Fetch an exported translation memory",
        response_class=Response,
        responses={200: {"content": {_TMX: {"schema": _FILE}}}, **answers(404)},
        openapi_extra={"parameters": schemas.query(FileParameters)},
    )
    async def download(request: Request) -> Response:
        await access.admit(access.callers.anonymous(request))
        job = await store.job_with(request.query_params.get("job", ""), "export")
        memory = await store.get(job.owner, job.memory or "")
        return StreamingResponse(_file(store, job.owner, memory), media_type=_TMX)

    @router.get(
        "/jobs/{job_id}",
        summary="Status of an import or export",
        responses={200: answer_of(JobAnswer), **answers(404)},
        openapi_extra={"parameters": [_JOB]},
    )
    async def job_status(request: Request) -> Response:
        caller, _ = await admitted(access, request)
        job = await store.job(caller.name, request.path_params["job_id"])
        return Json(described_job(job, file_address(request, "download", job)))

    @router.post(
        "/{memory_id}/export",
        status_code=202,
        summary="Begin to export a translation memory",
        responses={202: answer_of(ExportAnswer), **answers(404)},
        openapi_extra={"parameters": [_ID]},
    )
    async def begin_export(request: Request) -> Response:
        caller, memory = await one(request)
        job = await store.open_job(caller.name, "export", memory.name, memory=memory.id)
        parameters = {"translation_memory_id": memory.id}
        return Json(ExportAnswer(job_id=job.id, parameters=parameters), 202)

    @router.get(
        "/{memory_id}/segments",
        summary="Segments of a translation memory",
        responses={200: answer_of(SegmentsAnswer), **answers(404)},
        openapi_extra={"parameters": [_ID, *schemas.query(SegmentParameters)]},
    )
    async def segments(request: Request) -> Response:
        caller, fields = await admitted(access, request)
        wanted = fields.parse(SegmentParameters)
        memory = await store.get(caller.name, request.path_params["memory_id"])
        return Json(await _page(store, caller.name, memory, wanted))

    @router.get(
        "/{memory_id}",
        summary="Describe a translation memory",
        responses={200: answer_of(MemoryAnswer), **answers(404)},
        openapi_extra={"parameters": [_ID]},
    )
    async def memory(request: Request) -> Response:
        _, found = await one(request)
        return Json(described(found))

    @router.delete(
        "/{memory_id}",
        status_code=204,
        summary="Delete a translation memory",
        responses=answers(404),
        openapi_extra={"parameters": [_ID]},
    )
    async def delete(request: Request) -> Response:
        caller, found = await one(request)
        await store.delete(caller.name, found.id)
        return Response(status_code=204)

    return router


async def _file(
    store: MemoryStore, owner: str | None, memory: StoredMemory
) -> AsyncIterator[bytes]:
    """A TMX file, made part by part."""
    beginning, end = write_tmx(memory.source, ())
    yield beginning
    for number in range(_parts_of(memory)):
        units = await store.part(owner, memory.id, number)
        _, *written, _ = await asyncio.to_thread(list, write_tmx(memory.source, units))
        yield b"".join(written)
    yield end


def _parts_of(memory: StoredMemory) -> int:
    return -(-memory.unit_count // UNITS_IN_A_PART)


async def _page(
    store: MemoryStore, owner: str | None, memory: StoredMemory, wanted: SegmentParameters
) -> SegmentsAnswer:
    found: list[tuple[int, MemoryUnit]] = []
    first = wanted.page_cursor
    for number in range(first // UNITS_IN_A_PART, _parts_of(memory)):
        units = await store.part(owner, memory.id, number)
        start = number * UNITS_IN_A_PART
        found += [
            (start + place, unit)
            for place, unit in enumerate(units)
            if start + place >= first and _passes(unit, wanted)
        ]
        if len(found) > wanted.page_size:
            break
    page = found[: wanted.page_size]
    more: dict[str, Any] = {}
    if len(found) > len(page):
        more["next_page_cursor"] = str(found[len(page)][0])
    return SegmentsAnswer(
        segments=[segment_of(memory, number, unit) for number, unit in page],
        segment_count=memory.unit_count,
        **more,
    )


def _passes(unit: MemoryUnit, wanted: SegmentParameters) -> bool:
    text = wanted.filter_text
    texts = (unit[0], *unit[1].values())
    if text is None:
        return True
    if wanted.filter_case_sensitive:
        return any(text in each for each in texts)
    return any(text.casefold() in each.casefold() for each in texts)


class Memories:
    """Event loop only. Memories of requests, with the latest indexes of this process."""

    def __init__(self, store: MemoryStore, most_units: int = _MOST_INDEXED_UNITS) -> None:
        self._store = store
        self._most_units = most_units
        self._kept: OrderedDict[tuple[str, str], MemoryIndex] = OrderedDict()
        self._building = asyncio.Lock()

    async def of(
        self,
        caller: Caller,
        catalogue: Catalogue,
        identifier: str | None,
        threshold: int | None,
        source: str | None,
        target: str,
    ) -> Memory | None:
        """The memory that a request names; ``source`` is its own language if left out.

        Raises ``MemoryNotFound``, and ``BadRequest`` for other languages than those of the memory.
        """
        if identifier is None:
            return None
        memory = await self._store.get(caller.name, identifier)
        pair = LanguagePair(
            language(catalogue, source or memory.source, "sources"),
            language(catalogue, target, "targets"),
        )
        written = base(pair.target).lower()
        if base(pair.source).lower() != memory.source or written not in memory.targets:
            raise BadRequest(
                f"this translation memory is from {memory.source} to {', '.join(memory.targets)}, "
                f"not for {pair}"
            )
        index = await self._index(caller.name, memory, written)
        return Memory(pair, index, _DEFAULT_THRESHOLD if threshold is None else threshold)

    async def _index(self, owner: str | None, memory: StoredMemory, target: str) -> MemoryIndex:
        key = memory.id, target
        if key not in self._kept:
            async with self._building:
                # Another request may have built it meanwhile.
                if key not in self._kept:
                    self._kept[key] = await self._built(owner, memory, target)
        index = self._kept[key]
        self._kept.move_to_end(key)
        while sum(map(len, self._kept.values())) > self._most_units and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return index

    async def _built(self, owner: str | None, memory: StoredMemory, target: str) -> MemoryIndex:
        units: list[Unit] = []
        for number in range(_parts_of(memory)):
            part = await self._store.part(owner, memory.id, number)
            units += [Unit(text, to[target]) for text, to in part if target in to]
        return await asyncio.to_thread(MemoryIndex, units)
