"""Routes under ``/v2/document``: upload, status and one-time download of a document."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from service.api.access import Access, Caller
from service.api.deepl.dialect import Identifiers, answers, identified
from service.api.deepl.glossaries import terms_of
from service.api.deepl.languages import language
from service.api.deepl.translate import Formality
from service.api.errors import BadRequest
from service.api.fields import schemas
from service.api.fields.bounds import FILENAME_CHARACTERS
from service.api.fields.options import DecodingParameters, LanguageCode, Name
from service.api.fields.parameters import Upload
from service.api.fields.schemas import Answer, answer_of
from service.api.middleware import is_head
from service.api.responses import Json
from service.catalogue.repository import ModelRepository
from service.document_jobs.jobs import DocumentJob, DocumentJobs, DocumentOrder
from service.document_jobs.types import DocumentNotReady
from service.documents import SUPPORTED
from service.state.glossaries import GlossaryStore

_DISABLED = "documents are not translated on this server"


_EXTENSIONS = "|".join(each.removeprefix(".") for each in SUPPORTED)
_ID = schemas.in_path("document_id", "The `document_id` in the answer to the upload.")


class UploadParameters(DecodingParameters):
    """The fields of a document's form, beside the file."""

    target_lang: LanguageCode
    source_lang: LanguageCode | None = Field(
        None, description="Detected for the whole document if left out."
    )
    # The pattern is documented, not enforced: the reader of documents refuses by name.
    filename: Annotated[str, Field(max_length=FILENAME_CHARACTERS)] | None = Field(
        None,
        description="In place of the file's own name.",
        json_schema_extra={"pattern": rf"^$|[^/.]\.({_EXTENSIONS})$"},
    )
    formality: Formality = None
    glossary_id: Name | None = None
    glossary_ids: Identifiers | None = None
    output_format: Name | None = Field(None, description="Only that of the document.")
    model: Name | None = None


class KeyParameters(BaseModel):
    document_key: Name


class UploadAnswer(Answer):
    document_id: str
    document_key: str


class StatusAnswer(Answer):
    document_id: str
    status: str = Field(description="`queued`, `translating`, `done` or `error`.")
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


_RESULT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": dict(schemas.FILE_CONTENT)},
    **answers(404),
}
_BY_QUERY = {"parameters": [_ID, *schemas.query(KeyParameters)]}
_BY_BODY = {"parameters": [_ID], "requestBody": schemas.body(KeyParameters)}


def create_router(
    jobs: DocumentJobs | None, access: Access, repository: ModelRepository, store: GlossaryStore
) -> APIRouter:
    router = APIRouter(tags=["documents"])

    async def known(request: Request) -> tuple[DocumentJobs, DocumentJob]:
        if jobs is None:
            raise BadRequest(_DISABLED)
        caller, fields = await identified(access, request)
        key = fields.parse(KeyParameters).document_key
        document = request.path_params["document_id"]
        return jobs, await jobs.status(document, key, access.callers.scope(caller))

    async def ordered(caller: Caller, file: Upload, wanted: UploadParameters) -> DocumentOrder:
        filename = wanted.filename or file.filename
        extension = PurePosixPath(filename).suffix.lower()
        if wanted.output_format and f".{wanted.output_format.lower()}" != extension:
            raise BadRequest(
                "Value for 'output_format' not supported: a document keeps its format."
            )
        catalogue = repository.catalogue
        source, target = wanted.source_lang, wanted.target_lang
        return DocumentOrder(
            filename,
            file.content,
            target=language(catalogue, target, "targets"),
            source=None if source is None else language(catalogue, source, "sources"),
            terms=await terms_of(
                store,
                caller,
                catalogue,
                wanted.glossary_id,
                wanted.glossary_ids or (),
                source,
                target,
            ),
            model=wanted.model,
            decoding=wanted.overrides(1),
            origin=access.callers.origin(caller, "bulk"),
            refuse_equal_languages=True,
            permission=caller.permission,
        )

    # DeepL's client for Java adds the slash if it uploads from a stream.
    @router.post("/document/", include_in_schema=False)
    @router.post(
        "/document",
        summary="Translate a document",
        responses={200: answer_of(UploadAnswer), **answers(404, 456)},
        openapi_extra={"requestBody": schemas.upload(UploadParameters, lists=True)},
    )
    async def upload(request: Request) -> Response:
        """It is translated in the background. Keep the key: fetching the result needs it."""
        if jobs is None:
            raise BadRequest(_DISABLED)
        caller, fields = await identified(access, request, "file")
        if fields.file is None:
            raise BadRequest("Parameter 'file' not specified.")
        order = await ordered(caller, fields.file, fields.parse(UploadParameters))
        await access.admit(caller)
        job = await jobs.accept(order, partial(access.book, caller, documents=1))
        return Json(UploadAnswer(document_id=job.id, document_key=job.key))

    @router.get(
        "/document/{document_id}",
        summary="Status of a document",
        responses={200: answer_of(StatusAnswer), **answers(404)},
        openapi_extra=_BY_QUERY,
    )
    @router.post(
        "/document/{document_id}",
        summary="Status of a document",
        responses={200: answer_of(StatusAnswer), **answers(404)},
        openapi_extra=_BY_BODY,
    )
    async def status(request: Request) -> Response:
        its, job = await known(request)
        given: dict[str, Any] = {}
        if (seconds := its.seconds_remaining(job)) is not None:
            given["seconds_remaining"] = seconds
        if job.state == "done":
            given["billed_characters"] = job.characters
        if job.error is not None:
            given["error_message"] = job.error
        return Json(StatusAnswer(document_id=job.id, status=job.state, **given))

    @router.get(
        "/document/{document_id}/result",
        summary="Download a translated document, once",
        response_class=Response,
        responses=_RESULT,
        openapi_extra=_BY_QUERY,
    )
    @router.post(
        "/document/{document_id}/result",
        summary="Download a translated document, once",
        response_class=Response,
        responses=_RESULT,
        openapi_extra=_BY_BODY,
    )
    async def result(request: Request) -> Response:
        """The translation is sent once and then removed. 503 until it is done."""
        its, job = await known(request)
        if job.unfinished:
            raise DocumentNotReady
        if job.error is not None:
            raise BadRequest(f"the document was not translated: {job.error}")
        headers = {
            # Starlette would add a charset to a media type of texts.
            "content-type": job.content_type,
            "content-length": str(job.size),
            "content-disposition": f"attachment; filename*=utf-8''{quote(job.filename)}",
        }
        if is_head(request):
            return Response(headers=headers)
        pieces = await its.fetch_once(job)
        return StreamingResponse(pieces, headers=headers)

    return router
