"""OpenAPI links from responses to follow-up requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Link:
    """Link from a response to a request; both are a method and a path."""

    answer: tuple[str, str]
    status: str
    request: tuple[str, str]
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Runtime expressions of OpenAPI, by the names of path and query parameters."""
    body: Mapping[str, str] = field(default_factory=dict)
    description: str = ""


def _translations() -> list[Link]:
    made = {"id": "$response.body#/id"}
    kept = {"id": "$request.path.id"}
    inside = [
        ("get", f"/translations/{{id}}/{below}") for below in ("attention", "alignment", "search")
    ]
    whole = ("get", "/translations/{id}")
    return [
        *(
            Link(("post", "/translate"), "200", each, made, description="With `attention`.")
            for each in (whole, *inside)
        ),
        *(Link(whole, "200", each, kept) for each in inside),
    ]


def _documents() -> list[Link]:
    upload, state = ("post", "/v2/document"), "/v2/document/{document_id}"
    links = []
    for path in (state, f"{state}/result"):
        made = {"document_id": "$response.body#/document_id"}
        key = {"document_key": "$response.body#/document_key"}
        links.append(Link(upload, "200", ("get", path), made | key))
        links.append(Link(upload, "200", ("post", path), made, key))
    known = {"document_id": "$request.path.document_id"}
    in_query = {"document_key": "$request.query.document_key"}
    in_body = {"document_key": "$request.body#/document_key"}
    links.append(Link(("get", state), "200", ("get", f"{state}/result"), known | in_query))
    links.append(Link(("post", state), "200", ("post", f"{state}/result"), known, in_body))
    return links


def _glossaries() -> list[Link]:
    made = {"glossary_id": "$response.body#/glossary_id"}
    links = []
    for version, requests in (
        ("/v2", (("get", ""), ("get", "/entries"), ("delete", ""))),
        (
            "/v3",
            (
                *(("get", ""), ("get", "/entries"), ("patch", ""), ("delete", "")),
                *(("put", "/dictionaries"), ("delete", "/dictionaries")),
            ),
        ),
    ):
        all_of_them = f"{version}/glossaries"
        links += [
            Link(
                ("post", all_of_them),
                "201",
                (method, f"{all_of_them}/{{glossary_id}}{below}"),
                made,
            )
            for method, below in requests
        ]
    return links


LINKS = (*_translations(), *_documents(), *_glossaries())


def add_links(document: dict[str, Any]) -> None:
    """Add the links to a document that has all their operations."""
    for link in LINKS:
        method, path = link.answer
        to_method, to_path = link.request
        target = document["paths"][to_path][to_method]
        described: dict[str, Any] = {"operationId": target["operationId"]}
        if link.parameters:
            described["parameters"] = dict(link.parameters)
        if link.body:
            described["requestBody"] = dict(link.body)
        if link.description:
            described["description"] = link.description
        response = document["paths"][path][method]["responses"][link.status]
        name = f"{to_method} {to_path}".replace("/", " ")
        name = "".join(word.strip("{}").capitalize() for word in name.split())
        response.setdefault("links", {})[name] = described
