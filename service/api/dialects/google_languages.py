"""Google's Cloud Translation v2: languages on offer, and detection of a text's language."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from service.api.access import Access, Caller
from service.api.dialects.google import GOOGLE, PATH, GoogleAnswer, GoogleTexts
from service.api.fields import schemas
from service.api.fields.bounds import RequestLimits
from service.api.fields.options import Key, LanguageCode
from service.api.fields.parameters import Fields, read_fields
from service.api.fields.schemas import answer_of
from service.api.responses import Json
from service.catalogue.repository import ModelRepository
from service.translation.request_reader import Detector, require_unicode

_UNDETERMINED = "und"


class GoogleLanguagesParameters(BaseModel):
    target: LanguageCode | None = Field(None, description="Adds names, which are in English.")
    key: Key | None = Field(None, description="Needed where the service requires keys.")


def create_router(
    repository: ModelRepository, access: Access, detector: Detector, limits: RequestLimits
) -> APIRouter:
    router = APIRouter(tags=["other dialects"])
    responses = {200: answer_of(GoogleAnswer), **GOOGLE.refusals(403)}

    async def read(request: Request) -> tuple[Caller, Fields]:
        fields = await read_fields(request, GOOGLE.fields)
        return await access.identify(request, fields.key), fields

    @router.get(
        f"{PATH}/languages",
        summary="List languages, for clients of Google's API",
        responses=responses,
        openapi_extra={"parameters": schemas.query(GoogleLanguagesParameters)},
    )
    @GOOGLE.refusing
    async def languages(request: Request) -> Response:
        caller, fields = await read(request)
        await access.admit(caller)
        named = fields.parse(GoogleLanguagesParameters).target is not None
        permitted = repository.catalogue.permitted
        listed = [
            {"language": each.code, "name": each.name} if named else {"language": each.code}
            for each in await asyncio.to_thread(permitted, caller.permission)
        ]
        return Json(GoogleAnswer(data={"languages": listed}))

    @router.post(
        f"{PATH}/detect",
        summary="Detect the language of texts, for clients of Google's API",
        responses=responses,
        openapi_extra={"requestBody": schemas.body(GoogleTexts, limits, lists=True)},
    )
    @GOOGLE.refusing
    async def detect(request: Request) -> Response:
        """Texts in none of the languages on offer are `und`."""
        caller, fields = await read(request)
        texts = fields.parse(GoogleTexts).q
        limits.check(texts)
        require_unicode(texts)
        await access.admit(caller)
        codes = repository.catalogue.codes
        detections = []
        for text in texts:
            found = await asyncio.to_thread(detector.detect, text, codes)
            language, confidence = _UNDETERMINED, 0.0
            if found and found[0].confidence:
                language, confidence = found[0].language, round(found[0].confidence, 3)
            # Google's libraries expect a list of one detection for each text.
            detections.append(
                [{"language": language, "confidence": confidence, "isReliable": False}]
            )
        return Json(GoogleAnswer(data={"detections": detections}))

    return router
