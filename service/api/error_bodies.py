"""Bodies of errors in the shape of each dialect, and which shape a path has.

Errors of the middleware, and of unknown paths, are raised outside of every dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from pydantic import Field

from service.api.fields.schemas import Answer


class ErrorAnswer(Answer):
    """LibreTranslate's."""

    error: str = Field(examples=["zz is not supported"])


class DeepLErrorAnswer(Answer):
    message: str = Field(examples=["Value for 'target_lang' not supported."])


class DeepLXErrorAnswer(Answer):
    code: int
    message: str


class ApertiumErrorAnswer(Answer):
    status: str = Field(examples=["error"])
    code: int
    message: str = Field(examples=["Bad Request"])
    explanation: str


class GoogleProblem(Answer):
    code: int
    message: str
    status: str = Field(examples=["Bad Request"])


class GoogleErrorAnswer(Answer):
    error: GoogleProblem


ErrorBody = Callable[[int, str], Answer]
"""The body of an error, by its status and message."""


def libretranslate_body(_: int, message: str) -> Answer:
    return ErrorAnswer(error=message)


def deepl_body(_: int, message: str) -> Answer:
    return DeepLErrorAnswer(message=message)


def deeplx_body(status: int, message: str) -> Answer:
    return DeepLXErrorAnswer(code=status, message=message)


def apertium_body(status: int, message: str) -> Answer:
    phrase = HTTPStatus(status).phrase
    return ApertiumErrorAnswer(status="error", code=status, message=phrase, explanation=message)


def google_body(status: int, message: str) -> Answer:
    phrase = HTTPStatus(status).phrase
    return GoogleErrorAnswer(error=GoogleProblem(code=status, message=message, status=phrase))


_SHAPES: tuple[tuple[str, ErrorBody], ...] = (
    ("/v2/", deepl_body),
    ("/v3/", deepl_body),
    ("/listPairs", apertium_body),
    ("/language/translate/v2", google_body),
)


def error_body_for(path: str, status: int, message: str) -> Answer:
    """Body of an error on ``path`` that is raised outside of every dialect."""
    for prefix, shape in _SHAPES:
        if path.startswith(prefix):
            return shape(status, message)
    return libretranslate_body(status, message)
