"""``Call``: an HTTP request and the parser of its response; the clients send it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, with the parser of its response."""

    method: str
    path: str
    """Relative to the service's address, URL-quoted."""
    read: Callable[[bytes], T | Call[T]] = field(repr=False)
    """Parses the body into the result or the next call; raises one of ``reading.MALFORMED``."""
    json: Mapping[str, Any] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    file: tuple[str, bytes] | None = field(default=None, repr=False)
    """Form file: name and content."""
    answers: tuple[int, ...] = (200,)
    """Statuses that are parsed as results."""


def described(method: Callable[..., Any], build: Callable[P, Call[T]]) -> Callable[..., Any]:
    """``method`` with the name, docstring and parameters of ``build``, and its result type."""
    functools.update_wrapper(method, build, assigned=("__name__", "__doc__"))
    signature = inspect.signature(build)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    answer = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    vars(method)["__signature__"] = signature.replace(
        parameters=[itself, *signature.parameters.values()], return_annotation=answer
    )
    return method
