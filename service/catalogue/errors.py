"""Errors of languages and models that are not on offer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from models.bundle.languages import display_name
from service.text.errors import TranslationError

_LONGEST_SHOWN = 40
"""Characters of a code or name quoted in a message."""
_MOST_SHOWN = 12
"""Alternatives listed in a message."""


class UnknownLanguage(TranslationError):
    """No model on offer has this language code on this side."""

    def __init__(self, code: str, offered: Iterable[str]) -> None:
        self.code = code
        self.offered = tuple(offered)
        shown = code if len(code) <= _LONGEST_SHOWN else f"{code[:_LONGEST_SHOWN]}…"
        super().__init__(f"{shown} is not supported; on offer: {', '.join(self.offered)}")


class UnsupportedPair(TranslationError):
    """Both languages are on offer, but not in this direction or not by the named model."""

    def __init__(
        self, source: str, target: str, targets: Iterable[str], model: str | None = None
    ) -> None:
        """``targets`` are the alternatives: target languages, or with ``model`` its pairs."""
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


class UnknownModel(TranslationError):
    """No model of this name is on offer."""

    def __init__(self, name: str, offered: Iterable[str]) -> None:
        shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
        super().__init__(f"there is no model {shown}; on offer: {', '.join(offered)}")
        self.name = name


class NotPermitted(TranslationError):
    """The caller's key is restricted to other languages or models."""

    def __init__(self, action: str, name: str, permitted: Iterable[str]) -> None:
        shown = sorted(permitted)
        listed = ", ".join(shown[:_MOST_SHOWN]) + (", …" if len(shown) > _MOST_SHOWN else "")
        super().__init__(f"this key may not {action} {name}; it is for {listed}")


class NotReady(TranslationError):
    """No model is available; the client may retry after ``retry_after`` seconds."""

    def __init__(self, reason: str, retry_after: int = 2) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class ModelMemoryFull(NotReady):
    """A model is not in memory, and the models in use leave too little for it."""

    def __init__(self, model: str, size: int, limit: int) -> None:
        """``size`` and ``limit`` in bytes."""
        super().__init__(
            f"the model {model} needs about {megabytes(size)} MB of the {megabytes(limit)} MB "
            "for models, and too much of them is in use; repeat the request in a moment"
        )


class ModelReplaced(Exception):
    """This version of a model is no longer on offer; the request has to be prepared again."""


def megabytes(size: int) -> int:
    return -(-size // (1 << 20))


def without_directory(reason: str, bundle: Path) -> str:
    """A reason for clients, who do not see the directories of the server."""
    return reason.replace(str(bundle), bundle.name)


def _named(code: str) -> str:
    return f"{display_name(code)} ({code})"
