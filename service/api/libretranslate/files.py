"""Routes ``POST /translate_file`` and ``GET /download_file/{name}`` for documents."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.access import Access
from service.api.addresses import address_of_service
from service.api.errors import BadRequest, Disabled
from service.api.fields import schemas
from service.api.fields.options import Key, LanguageCode, Name
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of
from service.api.libretranslate.languages import read, read_source
from service.api.responses import Json, ranged, refusals
from service.catalogue.repository import ModelRepository
from service.document_jobs.jobs import DocumentJobs, DocumentOrder
from service.documents import UnsupportedDocument

# The pattern is documented, not enforced: the handler refuses with LibreTranslate's message.
_NAME = schemas.in_path("name", "The last part of `translatedFileUrl`.", r"^[^/\\]+$")


class FileParameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    source: LanguageCode = Field(
        description="Language code of the file, in any case; `auto` finds it out for each text.",
        examples=["de"],
    )
    target: LanguageCode = Field(description="Language code to translate to.", examples=["en"])
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")
    model: Name | None = Field(
        None,
        description="A model by its name, see `GET /models`; chosen by languages if not given.",
    )


class FileAnswer(Answer):
    url: str = Field(
        serialization_alias="translatedFileUrl",
        description="Where the translated file can be fetched for some time.",
    )


def create_files_router(
    repository: ModelRepository,
    access: Access,
    documents: DocumentJobs | None,
    public_url: str,
) -> APIRouter:
    """Both routes; without ``documents`` they refuse as disabled."""
    router = APIRouter(tags=["translation"])

    def jobs() -> DocumentJobs:
        if documents is None:
            raise Disabled("files translation is disabled on this server")
        return documents

    @router.post(
        "/translate_file",
        summary="Translate a document",
        responses={
            200: answer_of(FileAnswer),
            **refusals(400, 403, 404, 413, 429, 500, 503, 504),
        },
        openapi_extra={"requestBody": schemas.upload(FileParameters)},
    )
    async def translate_file(request: Request) -> Response:
        """The format is what the file's name says; layout and markup stay as they are."""
        at_work = jobs()
        address = address_of_service(request, public_url)
        fields = await read_fields(request, file="file")
        caller = await access.identify(request, fields.key)
        upload = fields.file
        if upload is None:
            raise BadRequest("Invalid request: missing file parameter")
        if not upload.filename:
            raise BadRequest("Invalid request: empty file")
        parameters = fields.parse(FileParameters)
        catalogue = repository.catalogue
        order = DocumentOrder(
            upload.filename,
            upload.content,
            read(parameters.target, catalogue.targets),
            read_source(parameters.source, catalogue.sources),
            model=parameters.model,
            origin=access.callers.origin(caller, "bulk"),
            permission=caller.permission,
        )
        await access.admit(caller)
        try:
            job = await at_work.translate(order, partial(access.book, caller, documents=1))
        except UnsupportedDocument as error:
            raise BadRequest(
                "Invalid request: file format not supported; supported are "
                + ", ".join(error.supported)
            ) from error
        name = quote(f"{job.id}.{job.filename}")
        return Json(FileAnswer(url=f"{address}/download_file/{name}"))

    @router.get(
        "/download_file/{name:path}",
        summary="Fetch a translated document",
        response_class=Response,
        responses={
            200: {"description": "The document.", "content": dict(schemas.FILE_CONTENT)},
            206: {"description": "The bytes of `Range`.", "content": dict(schemas.FILE_CONTENT)},
            416: {"description": "The document has no byte of `Range`."},
            **refusals(400, 403, 404, 500),
        },
        openapi_extra={"parameters": [_NAME]},
    )
    async def download_file(request: Request) -> Response:
        """No key is needed, as the address cannot be guessed. `Range` may name one range."""
        at_work = jobs()
        name = request.path_params["name"]
        if "/" in name or "\\" in name:
            raise BadRequest("Invalid filename")
        job, content = await at_work.result(name)
        headers = {
            # Starlette would add a charset to a media type of texts.
            "content-type": job.content_type,
            "content-disposition": f"attachment; filename*=utf-8''{quote(job.filename)}",
        }
        return ranged(request, content, headers)

    return router
