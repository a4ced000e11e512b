"""Translates documents with models of this process or a running service, one after another."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Never, Protocol

from service.commands.command import CommandFailed, message_of
from service.commands.inputs import STANDARD, Item, replaceable, standard_output
from service.commands.terminal import Failures, shows_progress

if TYPE_CHECKING:
    from tqdm import tqdm


class Translations(Protocol):
    """Models of this process, or a running service."""

    async def phrase(self, text: str, source: str | None, target: str) -> str:
        """The translation of a text; ``source`` is detected if it is ``None``."""
        ...

    async def document(
        self, path: Path, source: str | None, target: str, report: Callable[[float], None]
    ) -> bytes:
        """The translated file; calls ``report`` with the part that is done, from 0 to 1.

        Raises ``CommandFailed``, or an error of ``service.commands.errors``.
        """
        ...


async def translate_documents(
    items: Sequence[Item],
    options: argparse.Namespace,
    opened: Callable[[], AbstractAsyncContextManager[Translations]],
    failures: Failures | None,
) -> None:
    """Translate and write all documents.

    Where there are no ``failures`` to add to, an error is raised.
    """
    from service.commands.errors import REPORTED

    bar = _bar(len(items), shown=shows_progress(options))
    try:
        async with opened() as translations:
            for number, item in enumerate(items):
                bar.set_postfix_str(Path(item.source).name)
                try:
                    content = await translations.document(
                        Path(item.source),
                        options.source,
                        options.target,
                        partial(_reach, bar, number),
                    )
                    _write(item.target, content)
                except (CommandFailed, OSError, *REPORTED) as error:
                    if failures is None:
                        raise
                    bar.clear()
                    failures.add(item.source, message_of(error))
                _reach(bar, number, 1.0)
    finally:
        bar.close()


def _reach(bar: tqdm[Never], done: int, part: float) -> None:
    """Show that so many documents are done, and a part of the next one."""
    bar.update(done + part - bar.n)


def _bar(count: int, *, shown: bool) -> tqdm[Never]:
    from tqdm import tqdm

    return tqdm(
        total=count,
        disable=not shown,
        file=sys.stderr,
        bar_format="{percentage:3.0f}%|{bar}| {elapsed} so far, {remaining} left{postfix}",
        dynamic_ncols=True,
    )


def _write(name: str, content: bytes) -> None:
    """Publish a file by a rename, so that an interruption leaves no part of one."""
    if name == STANDARD:
        standard_output().write(content)
        return
    path = Path(name)
    target = replaceable(path)
    if target is None:
        path.write_bytes(content)
        return
    unfinished = target.with_name(f".{target.name}.unfinished")
    unfinished.write_bytes(content)
    os.replace(unfinished, target)
