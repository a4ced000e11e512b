"""Route whose handler takes the request alone, for frequent requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute


class RequestRoute(APIRoute):
    """Calls its handler with the request, without FastAPI's solving of dependencies.

    The handler takes nothing else, and is a coroutine function.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler
