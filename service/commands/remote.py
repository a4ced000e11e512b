"""Translates with a running service (``--url``). Imports the client alone, which is fast."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from dragoman import AsyncClient, DragomanError, TranslateOptions
from service.commands.command import CommandFailed
from service.commands.terminal import say

_SECONDS = 1800.0
"""Longest time of a document, with its time in the service's queue."""
_FROM_FILE = "@"
AUTO = "auto"


class RemoteTranslations:
    """A service, with the options of the command. Belongs to one event loop."""

    def __init__(self, client: AsyncClient, asked: TranslateOptions) -> None:
        self.client = client
        self.asked = asked

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Raises ``CommandFailed``."""
        key: str | None = options.api_key
        if key is not None and key.startswith(_FROM_FILE):
            path = key.removeprefix(_FROM_FILE)
            try:
                key = Path(path).read_text("utf-8").strip()
            except UnicodeDecodeError as error:
                raise CommandFailed(f"{path} is no key: it is not UTF-8") from error
        asked: TranslateOptions = {}
        if options.beam_size is not None:
            asked["beam_size"] = options.beam_size
        if options.length_penalty is not None:
            asked["length_penalty"] = options.length_penalty
        if options.model is not None:
            asked["model"] = options.model
        try:
            # The service has the limits of its own; this one ends a connection that hangs.
            return cls(AsyncClient(options.url, key, timeout=_SECONDS), asked)
        except ValueError as error:
            raise CommandFailed(str(error)) from error

    async def detect(self, sample: str, target: str) -> str:
        """The likeliest language of a text; raises ``CommandFailed``.

        A text without letters is copied, and in any language that is translated to ``target``.
        """
        with reported():
            if not any(map(str.isalpha, sample)):
                offered = await self.client.languages()
                return next((each.code for each in offered if each.code != target), target)
            first, *_ = await self.client.detect(sample)
        if not first.confidence:
            raise CommandFailed("the language of the text cannot be detected; name it with --from")
        return first.language

    async def phrase(self, text: str, source: str | None, target: str) -> str:
        with reported():
            translation = await self.client.translate(
                text, target=target, source=source or AUTO, **self.asked
            )
        if translation.unserved is not None:
            other = translation.unserved
            say(f"the text looks like {other.language}, which is not on offer: {other.command}")
        return translation.text

    async def document(
        self, path: Path, source: str | None, target: str, _: Callable[[float], None]
    ) -> bytes:
        with reported():
            return await self.client.translate_file(
                path, target=target, source=source or AUTO, model=self.asked.get("model")
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()


@contextmanager
def reported() -> Iterator[None]:
    """Raises the errors of the service as ``CommandFailed``."""
    try:
        yield
    except DragomanError as error:
        raise CommandFailed(str(error)) from error
