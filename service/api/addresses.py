"""The address of the service as a client knows it, for links in answers."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from fastapi import Request

from service.api.errors import BadRequest

_HOST = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")


def address_of_service(request: Request, public_url: str) -> str:
    """``public_url``, or else the address by which the client asked; without a slash at its end.

    Raises ``BadRequest`` if the client's is no address.
    """
    if public_url:
        prefix = prefix_of_service(request, public_url)
        return urlsplit(public_url)._replace(path=prefix).geturl()
    if not _HOST.fullmatch(request.headers.get("host", "")):
        raise BadRequest("Invalid request: the Host header is no host name with an optional port")
    return str(request.base_url).rstrip("/")


def prefix_of_service(request: Request, public_url: str) -> str:
    """The path before all paths of the service; without a slash at its end.

    Ray Serve's prefix of an application may be, and may not be, the end of ``public_url``, which is
    set for all applications of a node.
    """
    public = urlsplit(public_url).path.rstrip("/")
    # The first is that of the app, below which others are mounted; only mounted ones have it.
    own = request.scope.get("app_root_path", request.scope.get("root_path", "")).rstrip("/")
    return public if public.endswith(own) else public + own
