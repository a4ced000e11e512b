"""Google's Cloud Translation v2: ``/language/translate/v2``, for Google's libraries.

Texts are HTML unless ``format`` says otherwise. Google's models are accepted without effect.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, Field

from service.api.dialects.small_dialect import SmallDialect, fields_with_key, language_of, source_of
from service.api.error_bodies import GoogleErrorAnswer, google_body
from service.api.fields import schemas
from service.api.fields.options import Key, LanguageCode, Texts
from service.api.fields.schemas import Answer, answer_of
from service.api.metering import MeteredTranslator
from service.api.readings import Readings
from service.api.responses import Json
from service.api.routing import DirectRoute
from service.catalogue.catalogue import Catalogue
from service.text.markup import PLAIN, Markup
from service.translation.types import TranslateRequest


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


PATH = "/language/translate/v2"


class GoogleTexts(BaseModel):
    q: Annotated[Texts, BeforeValidator(_listed, json_schema_input_type=str | list[str])] = Field(
        description="A text, or several.", examples=["<b>Zwei</b> Hunde."]
    )
    key: Key | None = Field(None, description="Needed where the service requires keys.")


class GoogleParameters(GoogleTexts):
    target: LanguageCode = Field(examples=["en"])
    source: LanguageCode | None = Field(None, description="Detected for each text if left out.")
    format: Literal["html", "text"] | None = Field(None, description="`html` if not given.")

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            tuple(self.q),
            language_of(self.target, catalogue, "targets"),
            source_of(self.source, catalogue),
            markup=PLAIN if self.format == "text" else Markup("html"),
        )


class GoogleAnswer(Answer):
    data: dict[str, list[Any]] = Field(description="`translations`, `detections` or `languages`.")


GOOGLE = SmallDialect(
    fields_with_key("key", lists=frozenset({"q"})), google_body, GoogleErrorAnswer
)


def create_router(metered: MeteredTranslator, readings: Readings) -> APIRouter:
    router = APIRouter(tags=["other dialects"], route_class=DirectRoute)
    responses = {200: answer_of(GoogleAnswer), **GOOGLE.refusals(403, 404, 504)}

    # Weblate and Google's library for Node send the slash.
    @router.post(f"{PATH}/", include_in_schema=False)
    @router.get(
        PATH,
        summary="Translate texts, for clients of Google's API that send no body",
        responses=responses,
        openapi_extra={"parameters": schemas.query(GoogleParameters, metered.limits)},
    )
    @router.post(
        PATH,
        summary="Translate texts, for clients of Google's API",
        responses=responses,
        openapi_extra={"requestBody": schemas.body(GoogleParameters, metered.limits, lists=True)},
    )
    @GOOGLE.refusing
    async def translate(request: Request) -> Response:
        wanted, found = await GOOGLE.translated(request, GoogleParameters, metered, readings)
        translations = [{"translatedText": each.text} for each in found]
        if wanted.source is None:
            for answer, each in zip(translations, found, strict=True):
                answer["detectedSourceLanguage"] = each.pair.source
        return Json(GoogleAnswer(data={"translations": translations}))

    return router
