"""Route class of endpoints that read the request and return the response; methods of a path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, Route, request_response
from starlette.types import Scope


class DirectRoute(APIRoute):
    """Documented by FastAPI, and served by Starlette.

    FastAPI would look for dependencies and parameters that such an endpoint does not have, which
    takes longer than the answer to a repeated request.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = request_response(self.endpoint)


def methods_at(scope: Scope, routes: Iterable[BaseRoute]) -> set[str]:
    """The methods of all routes at the path of a request. Starlette knows the first route's.

    A path that a route has literally is no value of another route's parameter.
    """
    found = [
        route
        for route in routes
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE
    ]
    literal = [route for route in found if not route.param_convertors]
    return {method for route in literal or found for method in route.methods or ()}
