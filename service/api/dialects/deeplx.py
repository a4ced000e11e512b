"""DeepLX: ``POST /translate`` with ``text`` and ``target_lang``, for pot, KISS and Subtitle Edit.

LibreTranslate's route has the same path, and passes on bodies that are DeepLX's. Subtitle Edit
prefers the first of ``alternatives`` to ``data``, so there are none.
"""

from __future__ import annotations

import re
from typing import Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field

from service.api.dialects.small_dialect import (
    UNAUTHORISED,
    Endpoint,
    SmallDialect,
    fields_with_key,
    language_of,
    source_of,
)
from service.api.error_bodies import DeepLXErrorAnswer, deeplx_body
from service.api.fields.options import Key, LanguageCode
from service.api.fields.schemas import Answer
from service.api.metering import MeteredTranslator
from service.api.readings import Readings
from service.api.responses import Json
from service.catalogue.catalogue import Catalogue
from service.text.markup import PLAIN, Markup
from service.translation.types import TranslateRequest

FIELD = b'"target_lang"'
"""Every body has it."""
_FOREIGN_FIELD = re.compile(rb'"q"\s*:')
"""LibreTranslate's field of the text."""


def is_deeplx(body: bytes) -> bool:
    """Whether a body is DeepLX's. Text of a JSON document has no quotation mark unescaped."""
    is_object = FIELD in body and body.lstrip().startswith(b"{")
    return is_object and _FOREIGN_FIELD.search(body) is None


class DeepLXParameters(BaseModel):
    text: str
    target_lang: LanguageCode
    source_lang: LanguageCode | None = None
    tag_handling: Literal["html", "xml"] | None = None
    token: Key | None = None

    def request(self, catalogue: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            (self.text,),
            language_of(self.target_lang, catalogue, "targets"),
            source_of(self.source_lang, catalogue),
            markup=Markup(self.tag_handling) if self.tag_handling else PLAIN,
        )


class DeepLXAnswer(Answer):
    code: int = Field(examples=[200])
    data: str
    alternatives: list[str]
    source_lang: str = Field(examples=["DE"])
    target_lang: str = Field(examples=["EN"])
    id: int
    method: str = Field(examples=["Free"])


DEEPLX = SmallDialect(
    fields_with_key("token", any_type=True),
    deeplx_body,
    DeepLXErrorAnswer,
    UNAUTHORISED,
)


def create_endpoint(metered: MeteredTranslator, readings: Readings) -> Endpoint:
    @DEEPLX.refusing
    async def translate(request: Request) -> Response:
        wanted, (found,) = await DEEPLX.translated(request, DeepLXParameters, metered, readings)
        return Json(
            DeepLXAnswer(
                code=200,
                data=found.text,
                alternatives=[],
                source_lang=found.pair.source.upper(),
                target_lang=wanted.target_lang.upper(),
                id=0,
                method="Free",
            )
        )

    return translate
