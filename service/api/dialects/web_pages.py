"""MTranServer's ``POST /imme``, which Immersive Translate sends paragraphs of web pages to."""

from __future__ import annotations

import html
import re

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from service.api.dialects.small_dialect import (
    UNAUTHORISED,
    SmallDialect,
    fields_with_key,
    language_of,
    source_of,
)
from service.api.error_bodies import ErrorAnswer, libretranslate_body
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

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class PageParameters(BaseModel):
    text_list: Texts = Field(
        description="Paragraphs, with or without tags.", examples=[["<b>Zwei</b> Hunde."]]
    )
    target_lang: LanguageCode = Field(examples=["en"])
    source_lang: LanguageCode | None = Field(
        None, description="Detected for each text if it is `auto`.", examples=["auto"]
    )
    token: Key | None = Field(None, description="Needed where the service requires keys.")

    @property
    def markup(self) -> Markup:
        """HTML if a text has a tag."""
        return Markup("html") if any(map(_TAG.search, self.text_list)) else PLAIN

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            tuple(self.text_list),
            language_of(self.target_lang, catalogue, "targets"),
            source_of(self.source_lang, catalogue),
            markup=self.markup,
        )


class ParagraphAnswer(Answer):
    detected_source_lang: str = Field(examples=["de"])
    text: str


class ParagraphsAnswer(Answer):
    translations: list[ParagraphAnswer]


PAGES = SmallDialect(
    fields_with_key("token", any_type=True, lists=frozenset({"text_list"})),
    libretranslate_body,
    ErrorAnswer,
    UNAUTHORISED,
)


def create_router(metered: MeteredTranslator, readings: Readings) -> APIRouter:
    router = APIRouter(tags=["other dialects"], route_class=DirectRoute)

    @router.post(
        "/imme",
        summary="Translate paragraphs of a page, for Immersive Translate",
        responses={200: answer_of(ParagraphsAnswer), **PAGES.refusals(401, 403, 404, 504)},
        openapi_extra={"requestBody": schemas.body(PageParameters, metered.limits, lists=True)},
    )
    @PAGES.refusing
    async def translate(request: Request) -> Response:
        """Tags stay with their words."""
        wanted, found = await PAGES.translated(request, PageParameters, metered, readings)
        escaped = wanted.markup is not PLAIN
        translations = [
            ParagraphAnswer(
                detected_source_lang=each.pair.source,
                # Characters of a text without tags are no entities to its reader.
                text=html.unescape(each.text) if escaped and not _TAG.search(text) else each.text,
            )
            for text, each in zip(wanted.text_list, found, strict=True)
        ]
        return Json(ParagraphsAnswer(translations=translations))

    return router
