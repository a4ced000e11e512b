"""Route class of endpoints that read the request and return the response themselves."""

from __future__ import annotations

from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import request_response


class DirectRoute(APIRoute):
    """Documented by FastAPI, and served by Starlette.

    FastAPI would look for dependencies and parameters that such an endpoint does not have, which
    takes longer than the answer to a repeated request.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = request_response(self.endpoint)
