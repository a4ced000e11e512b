"""Routes ``/v3/languages`` and ``/v3/languages/resources``: languages by what they are for.

A resource is a product of DeepL, such as ``translate_text``. Resources that the service lacks have
no languages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from models.bundle.languages import canonical, display_name
from service.api.access import Access
from service.api.deepl.dialect import admitted, answers
from service.api.deepl.languages import base, codes_of, targets_of
from service.api.errors import BadRequest
from service.api.fields import schemas
from service.api.fields.schemas import Answer, answer_of
from service.api.responses import Json
from service.catalogue.catalogue import Catalogue
from service.catalogue.permission import Permission
from service.catalogue.repository import ModelRepository
from service.text.types import Language

Resource = Literal[
    "translate_text",
    "translate_document",
    "glossary",
    "translation_memory",
    "style_rules",
    "voice",
    "write",
]

_OF_SOURCES, _OF_PAIRS = (True, False), (True, True)
_FEATURES: MappingProxyType[str, dict[str, tuple[bool, bool]]] = MappingProxyType(
    {
        "translate_text": {
            "auto_detection": _OF_SOURCES,
            "glossary": _OF_PAIRS,
            "tag_handling": _OF_PAIRS,
            "translation_memory": _OF_PAIRS,
        },
        "translate_document": {"auto_detection": _OF_SOURCES, "glossary": _OF_PAIRS},
        "glossary": {},
        "translation_memory": {},
        "style_rules": {},
        "voice": {},
        "write": {},
    }
)
"""Features by resource; whether the source, and the target, has to support each."""
_DIRECT = frozenset({"glossary", "translation_memory"})
"""Features and resources of pairs that one model translates."""
_ON_OFFER = frozenset({"translate_text", "translate_document", *_DIRECT})


class ResourceParameters(BaseModel):
    resource: Resource = Field(description="What the languages are for.")


class FeatureStatusAnswer(Answer):
    status: str = Field(examples=["stable"])


class ResourceLanguageAnswer(Answer):
    lang: str = Field(description="In the usual case of BCP 47.", examples=["en-GB"])
    name: str = Field(examples=["English (British)"])
    status: str = Field(examples=["stable"])
    usable_as_source: bool
    usable_as_target: bool
    features: dict[str, FeatureStatusAnswer]


class ResourceFeatureAnswer(Answer):
    name: str = Field(examples=["glossary"])
    needs_source_support: bool | None = Field(None, description="Only if true.")
    needs_target_support: bool | None = Field(None, description="Only if true.")


class ResourceAnswer(Answer):
    name: str = Field(examples=["translate_text"])
    features: list[ResourceFeatureAnswer]


def create_router(access: Access, repository: ModelRepository, *, documents: bool) -> APIRouter:
    """``documents`` says whether the service translates them; else they have no languages."""
    router = APIRouter(tags=["languages"])

    @router.get(
        "/languages",
        summary="List languages by what they are for",
        responses={200: answer_of(ResourceLanguageAnswer, many=True), **answers()},
        openapi_extra={"parameters": schemas.query(ResourceParameters)},
    )
    async def languages(request: Request) -> Response:
        """Variants are targets only. A feature that is not listed is not supported."""
        caller, fields = await admitted(access, request)
        if "product" in fields.values and "resource" not in fields.values:
            raise BadRequest("The parameter 'product' has been renamed to 'resource'.")
        wanted = fields.parse(ResourceParameters).resource
        usable = documents or wanted != "translate_document"
        if not usable:
            return Json([])
        catalogue = repository.catalogue
        return Json(await asyncio.to_thread(listed, catalogue, wanted, caller.permission))

    @router.get(
        "/languages/resources",
        summary="List what languages can be for, and the features of each",
        responses={200: answer_of(ResourceAnswer, many=True), **answers()},
    )
    async def resources(request: Request) -> Response:
        await admitted(access, request)
        return Json([_described(name) for name in _FEATURES])

    return router


def listed(
    catalogue: Catalogue, resource: Resource, permission: Permission | None
) -> list[ResourceLanguageAnswer]:
    """The languages of a resource, sorted by name, each followed by its variants. Blocks for many
    pairs."""
    if resource not in _ON_OFFER:
        return []
    languages = catalogue.permitted(permission)
    direct = catalogue.direct_pairs(permission)
    paired = {base(pair.source) for pair in direct}, {base(pair.target) for pair in direct}
    if resource in _DIRECT:
        codes = dict.fromkeys(base(each.code) for each in languages)
        rows = [(code, display_name(code), code in paired[0], code in paired[1]) for code in codes]
    else:
        rows = list(_rows(catalogue, languages))
    return [
        ResourceLanguageAnswer(
            lang=code,
            name=name,
            status="stable",
            usable_as_source=source,
            usable_as_target=target,
            features={
                feature: FeatureStatusAnswer(status="stable")
                for feature, needs in _FEATURES[resource].items()
                if (source or needs != _OF_SOURCES)
                and (feature not in _DIRECT or base(code) in paired[0] | paired[1])
            },
        )
        for code, name, source, target in rows
        if source or target
    ]


def _rows(
    catalogue: Catalogue, languages: Sequence[Language]
) -> Iterator[tuple[str, str, bool, bool]]:
    """Code, name and sides of each of the languages and of its variants."""
    sources, targets = codes_of(languages, "sources"), codes_of(languages, "targets")
    for each in languages:
        yield each.code, each.name, each.code in sources, each.code in targets
        for variant, name in targets_of(catalogue, each) if each.code in targets else ():
            if canonical(variant) != each.code:
                yield canonical(variant), name, False, True


def _described(name: str) -> ResourceAnswer:
    features = []
    for feature, needs in sorted(_FEATURES[name].items()):
        sides = zip(("needs_source_support", "needs_target_support"), needs, strict=True)
        needed = {side: True for side, needed in sides if needed}
        features.append(ResourceFeatureAnswer(name=feature, **needed))
    return ResourceAnswer(name=name, features=features)
