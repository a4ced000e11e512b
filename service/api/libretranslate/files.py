"""Routes ``POST /translate_file`` and ``GET /download_file/{name}`` for documents."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.errors import BadRequest, Disabled
from service.api.libretranslate.spelling import read, read_source
from service.api.parameters import RequiredText, file_encoding, form_schema, read_upload
from service.api.responses import Json, refusals
from service.document_jobs.jobs import DocumentJobs, DocumentOrder
from service.documents import UnsupportedDocument
from service.translation.repository import ModelRepository

_Name = Annotated[
    str,
    Path(
        description="As POST /translate_file says it.",
        # Documented, not enforced: the handler refuses with LibreTranslate's message.
        json_schema_extra={"pattern": r"^[^/\\]+$"},
    ),
]


class FileParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    source: RequiredText = Field(
        description="Language code of the file, in any case; `auto` finds it out for each text.",
        examples=["de"],
    )
    target: RequiredText = Field(description="Language code to translate to.", examples=["en"])
    api_key: str | None = Field(None, description="If the operator asks for one.")
    model: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="A model by its name, see `GET /models`; chosen by languages if not given.",
    )


class FileAnswer(BaseModel):
    url: str = Field(
        alias="translatedFileUrl",
        description="Where the translated file can be fetched for some time.",
    )


_FILE_SCHEMA = {"type": "string", "format": "binary", "description": "The document."}


def _body() -> dict[str, Any]:
    schema = form_schema(FileParameters.model_json_schema())
    schema["properties"] = {"file": _FILE_SCHEMA, **schema["properties"]}
    schema["required"] = ["file", *schema["required"]]
    content = {"schema": schema, "encoding": {"file": file_encoding("file")}}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": content}}}


def create_files_router(
    repository: ModelRepository, access: Access, documents: DocumentJobs | None
) -> APIRouter:
    """Without ``documents``, both routes refuse as disabled."""
    router = APIRouter(tags=["translation"])

    def jobs() -> DocumentJobs:
        if documents is None:
            raise Disabled("files translation is disabled on this server")
        return documents

    @router.post(
        "/translate_file",
        summary="Translate a document",
        response_model=FileAnswer,
        responses=refusals(400, 403, 404, 413, 429, 500, 503, 504),
        openapi_extra=_body(),
    )
    async def translate_file(request: Request) -> Response:
        """The format is what the file's name says; layout and markup stay as they are."""
        at_work = jobs()
        fields, upload = await read_upload(request, "file")
        caller = await access.identify(request, fields.key)
        if upload is None:
            raise BadRequest("Invalid request: missing file parameter")
        if not upload.filename:
            raise BadRequest("Invalid request: empty file")
        parameters = fields.parse(FileParameters, ("source", "target"))
        offer = repository.offer
        order = DocumentOrder(
            upload.filename,
            upload.content,
            read(parameters.target, offer.targets),
            read_source(parameters.source, offer.sources),
            model=parameters.model,
        )
        try:
            job = await at_work.translate(order, partial(access.charge, caller, documents=1))
        except UnsupportedDocument as error:
            raise BadRequest("Invalid request: file format not supported") from error
        name = quote(f"{job.id}.{job.filename}")
        return Json({"translatedFileUrl": f"{request.base_url}download_file/{name}"})

    @router.get(
        "/download_file/{name:path}",
        summary="Fetch a translated document",
        response_class=FileResponse,
        responses={
            200: {"description": "The document.", "content": {"*/*": {}}},
            **refusals(400, 403, 404, 500),
        },
    )
    async def download_file(name: _Name) -> Response:
        """No key is needed, as the address cannot be guessed."""
        at_work = jobs()
        if "/" in name or "\\" in name:
            raise BadRequest("Invalid filename")
        job = at_work.result(name)
        return FileResponse(job.path, filename=job.filename, media_type=job.media_type)

    return router
