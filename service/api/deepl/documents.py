"""Routes under ``/v2/document``: upload, status and one-time download of a document."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, InstanceOf

from service.api.access import Access, Caller
from service.api.deepl.errors import answers, message_of
from service.api.deepl.fields import CommaSeparated, identify, read_fields
from service.api.deepl.languages import language
from service.api.deepl.parameters import Formality
from service.api.deepl.schemas import body_of, query_of
from service.api.deepl.terms import terms_of
from service.api.errors import BadRequest
from service.api.options import DecodingParameters
from service.api.parameters import Upload, file_encoding
from service.api.responses import Json
from service.document_jobs.errors import DocumentNotReady
from service.document_jobs.jobs import DocumentJob, DocumentJobs, DocumentOrder
from service.documents import SUPPORTED
from service.state.glossaries import GlossaryStore
from service.translation.repository import ModelRepository

_DISABLED = "documents are not translated on this server"


class UploadParameters(DecodingParameters):
    """The fields of a document's form."""

    file: InstanceOf[Upload] = Field(
        description="The document; its name's extension says what it is."
    )
    target_lang: str
    source_lang: str | None = Field(
        None, description="Detected for the whole document if left out."
    )
    filename: str | None = Field(None, description="In place of the file's own name.")
    formality: Formality = None
    glossary_id: str | None = None
    glossary_ids: CommaSeparated | None = None
    output_format: str | None = Field(None, description="Only that of the document.")
    model: str | None = None


class KeyParameters(BaseModel):
    document_key: str = Field(min_length=1)


class UploadAnswer(BaseModel):
    document_id: str
    document_key: str


class StatusAnswer(BaseModel):
    document_id: str
    status: str = Field(description="`queued`, `translating`, `done` or `error`.")
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


_RESULT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"*/*": {}}},
    **answers(404),
}


def create_router(
    jobs: DocumentJobs | None, access: Access, repository: ModelRepository, store: GlossaryStore
) -> APIRouter:
    router = APIRouter(tags=["documents"])

    async def known(request: Request, document_id: str) -> tuple[DocumentJobs, DocumentJob]:
        if jobs is None:
            raise BadRequest(_DISABLED)
        fields = await read_fields(request)
        await identify(access, request, fields)
        return jobs, jobs.status(document_id, fields.parse(KeyParameters).document_key)

    async def ordered(caller: Caller, wanted: UploadParameters) -> DocumentOrder:
        filename = wanted.filename or wanted.file.filename
        extension = PurePosixPath(filename).suffix.lower()
        if wanted.output_format and f".{wanted.output_format.lower()}" != extension:
            raise BadRequest(
                "Value for 'output_format' not supported: a document keeps its format."
            )
        offer = repository.offer
        source, target = wanted.source_lang, wanted.target_lang
        return DocumentOrder(
            filename,
            wanted.file.content,
            target=language(offer, target, "targets"),
            source=None if source is None else language(offer, source, "sources"),
            terms=await terms_of(
                store, caller, offer, wanted.glossary_id, wanted.glossary_ids or (), source, target
            ),
            model=wanted.model,
            decoding=wanted.overrides(1),
        )

    @router.post(
        "/document",
        summary="Translate a document",
        response_model=UploadAnswer,
        responses=answers(404, 456),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "multipart/form-data": {
                        "schema": _UPLOAD_SCHEMA,
                        "encoding": {"file": file_encoding("file")},
                    }
                },
            }
        },
    )
    async def upload(request: Request) -> Response:
        """It is translated in the background. Keep the key: fetching the result needs it."""
        if jobs is None:
            raise BadRequest(_DISABLED)
        fields = await read_fields(request)
        caller = await identify(access, request, fields)
        wanted = fields.parse(UploadParameters)
        job = await jobs.accept(
            await ordered(caller, wanted), partial(access.charge, caller, documents=1)
        )
        return Json({"document_id": job.id, "document_key": job.key})

    @router.get(
        "/document/{document_id}",
        summary="How far a document is",
        response_model=StatusAnswer,
        responses=answers(404),
        openapi_extra=query_of(KeyParameters),
    )
    @router.post(
        "/document/{document_id}",
        summary="How far a document is",
        response_model=StatusAnswer,
        responses=answers(404),
        openapi_extra=body_of(KeyParameters),
    )
    async def status(request: Request, document_id: str) -> Response:
        its, job = await known(request, document_id)
        answer: dict[str, Any] = {"document_id": job.id, "status": job.state}
        if (seconds := its.seconds_remaining(job)) is not None:
            answer["seconds_remaining"] = seconds
        if job.state == "done":
            answer["billed_characters"] = job.characters
        if job.error is not None:
            answer["error_message"] = message_of(job.error)
        return Json(answer)

    @router.get(
        "/document/{document_id}/result",
        summary="The translation of a document",
        response_class=Response,
        responses=_RESULT,
        openapi_extra=query_of(KeyParameters),
    )
    @router.post(
        "/document/{document_id}/result",
        summary="The translation of a document",
        response_class=Response,
        responses=_RESULT,
        openapi_extra=body_of(KeyParameters),
    )
    async def result(request: Request, document_id: str) -> Response:
        """Once: it is removed when it has been sent. 503 while it is not done."""
        its, job = await known(request, document_id)
        if job.unfinished:
            raise DocumentNotReady
        if job.error is not None:
            raise BadRequest(f"the document was not translated: {message_of(job.error)}")
        headers = {
            "content-length": str(job.size),
            "content-disposition": f"attachment; filename*=utf-8''{quote(job.filename)}",
        }
        pieces = await its.fetch_once(job)
        return StreamingResponse(pieces, media_type=job.media_type, headers=headers)

    return router


_UPLOAD_SCHEMA = {
    "type": "object",
    "required": ["file", "target_lang"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        **{
            name: {"type": "string"}
            for name in (
                *("target_lang", "source_lang", "glossary_id", "glossary_ids", "output_format"),
            )
        },
        "filename": {
            "type": "string",
            "pattern": rf"^$|[^/.]\.({'|'.join(each.removeprefix('.') for each in SUPPORTED)})$",
            "description": "In place of the file's own name.",
        },
        "formality": {"enum": ["default", "more", "less", "prefer_more", "prefer_less", ""]},
    },
}
