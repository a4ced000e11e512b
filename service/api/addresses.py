"""The address of the service as a client knows it, for links in answers."""

from __future__ import annotations

import re

from fastapi import Request

from service.api.errors import BadRequest

_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")


def address_of_service(request: Request, public_url: str) -> str:
    """``public_url``, or else the address by which the client asked; without a slash at its end.

    Raises ``BadRequest`` if the client's is no address.
    """
    if public_url:
        return public_url.rstrip("/")
    if not _HOST.fullmatch(request.headers.get("host", "")):
        raise BadRequest("Invalid request: the Host header is no host name with an optional port")
    return str(request.base_url).rstrip("/")
