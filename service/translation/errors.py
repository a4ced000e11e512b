"""Everything a caller may be told by the use case. Knows no HTTP; see ``api.errors`` for that."""

from __future__ import annotations

from collections.abc import Iterable

from models.bundle.languages import display_name

_LONGEST_SHOWN = 40
"""Characters of a code that a message repeats."""
_MOST_SHOWN = 12
"""Of what there is instead, so much is told."""


class TranslationError(Exception):
    """Base of all refusals."""


class InvalidText(TranslationError):
    """A text that cannot be written as UTF-8 because it holds half of a surrogate pair."""

    def __init__(self, number: int) -> None:
        super().__init__(f"text {number} is not valid Unicode: it has a lone surrogate")
        self.number = number


class InvalidOption(TranslationError):
    """Decoding options that contradict each other or the model, naming them."""


class UnknownLanguage(TranslationError):
    """A code that no model on offer has on this side."""

    def __init__(self, code: str, offered: Iterable[str]) -> None:
        self.code = code
        self.offered = tuple(offered)
        shown = code if len(code) <= _LONGEST_SHOWN else f"{code[:_LONGEST_SHOWN]}…"
        super().__init__(f"{shown} is not supported; on offer: {', '.join(self.offered)}")


class UndetectedLanguage(TranslationError):
    """Nothing in a text says which language on offer it is in."""

    def __init__(self, number: int, offered: Iterable[str]) -> None:
        super().__init__(
            f"the language of text {number} cannot be detected; name its source: "
            f"{', '.join(offered)}"
        )
        self.number = number


class UnsupportedPair(TranslationError):
    """Two languages that are on offer, but not in this direction, or not with the model named."""

    def __init__(
        self, source: str, target: str, targets: Iterable[str], model: str | None = None
    ) -> None:
        """``targets`` are what there is instead: of a model, pairs in its own directions."""
        self.source = source
        self.target = target
        self.targets = tuple(targets)
        by = f" with {model}" if model else ""
        shown = list(map(str if model else _named, self.targets[:_MOST_SHOWN]))
        if (others := len(self.targets) - _MOST_SHOWN) > 0:
            shown.append(f"and {others} more")
        super().__init__(
            f"{_named(target)} is not available as a target language from {_named(source)}{by}; "
            f"on offer{by}: {', '.join(shown) or 'none'}"
        )


class TextTooLarge(TranslationError):
    """More than the service ever holds: waiting will not help, splitting the request will."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"the request counts as {tokens} tokens; at most {limit} are translated at once: "
            "send it in parts"
        )
        self.tokens = tokens
        self.limit = limit


class Overloaded(TranslationError):
    """The service is full; the same request will do after ``retry_after`` seconds."""

    def __init__(self, retry_after: int = 1) -> None:
        super().__init__("too much is being translated; try again shortly")
        self.retry_after = retry_after


class DeadlineExceeded(TranslationError):
    """The request was not done in time; what was left of it is no longer being translated."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the translation was not done within {seconds:g} seconds")
        self.seconds = seconds


class UnknownModel(TranslationError):
    """No model of this name is on offer."""

    def __init__(self, name: str, offered: Iterable[str]) -> None:
        shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
        super().__init__(f"there is no model {shown}; on offer: {', '.join(offered)}")
        self.name = name


class NotReady(TranslationError):
    """No model can be asked, and why. Trying again after ``retry_after`` seconds may work."""

    def __init__(self, reason: str, retry_after: int = 2) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def _named(code: str) -> str:
    return f"{display_name(code)} ({code})"
