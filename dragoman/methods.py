"""Turns endpoint functions into documented client methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dragoman.request import Call

P = ParamSpec("P")
T = TypeVar("T")


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
