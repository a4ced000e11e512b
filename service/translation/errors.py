"""Errors of translation requests. ``api.errors`` maps them to HTTP responses."""

from __future__ import annotations

from collections.abc import Iterable

from models.bundle.languages import display_name
from service.text.errors import TranslationError
from service.text.types import UnservedLanguage


class InvalidText(TranslationError):
    """A text has a lone surrogate, so it cannot be encoded as UTF-8."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not valid Unicode: it has a lone surrogate")


class InvalidOption(TranslationError):
    """Options contradict each other or the model; the message names them."""


class UndetectedLanguage(TranslationError):
    """No language on offer is probable for a text."""

    def __init__(
        self, number: int, offered: Iterable[str], unserved: UnservedLanguage | None = None
    ) -> None:
        looks = ""
        if unserved is not None:
            name = f"{display_name(unserved.language)} ({unserved.language})"
            looks = f"; it looks like {name}, which is not on offer: {unserved.command}"
        super().__init__(
            f"the language of text {number} cannot be detected; name its source: "
            f"{', '.join(offered)}{looks}"
        )
        self.number = number
        self.unserved = unserved


class TextTooLarge(TranslationError):
    """The request exceeds the service's total capacity; it must be sent in parts."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"the request counts as {tokens} tokens; at most {limit} are translated at once: "
            "send it in parts"
        )
        self.tokens = tokens
        self.limit = limit


class Overloaded(TranslationError):
    """The service is full; the client may retry after ``retry_after`` seconds."""

    def __init__(self, retry_after: int = 1) -> None:
        super().__init__("too much is being translated; try again shortly")
        self.retry_after = retry_after


class DeadlineExceeded(TranslationError):
    """The request exceeded its deadline and was cancelled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the translation was not done within {seconds:g} seconds")
        self.seconds = seconds
