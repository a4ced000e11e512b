"""Packs many texts into concurrent requests, and limits the time of a request.

These are the parts in which the two clients differ.
Functions named ``async_…`` are for ``AsyncClient``; those without the prefix are for ``Client``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
)
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx

from dragoman.answers import Translation
from dragoman.retrying import Attempts


class Packer:
    """Collects texts and returns full packs, in order."""

    def __init__(self, texts: int, characters: int) -> None:
        self._most_texts = texts
        self._most_characters = characters
        self._texts: list[str] = []
        self._characters = 0

    def add(self, text: str) -> list[str]:
        """Add ``text``; returns the previous pack if it is full. A longer text is a pack alone."""
        full = self._texts and (
            len(self._texts) == self._most_texts
            or self._characters + len(text) > self._most_characters
        )
        pack = self.rest() if full else []
        self._texts.append(text)
        self._characters += len(text)
        return pack

    def rest(self) -> list[str]:
        """The texts added since the last pack."""
        pack, self._texts, self._characters = self._texts, [], 0
        return pack


def packer(texts: object, packs: int, most_texts: int, most_characters: int) -> Packer:
    """Check the arguments of ``translate_many``; ``packs`` is the concurrency."""
    if isinstance(texts, str):
        raise TypeError("translate_many takes many texts; for one there is translate")
    if min(packs, most_texts, most_characters) < 1:
        raise ValueError("concurrency, texts_per_request and characters_per_request are at least 1")
    return Packer(most_texts, most_characters)


async def async_send(
    http: httpx.AsyncClient, request: httpx.Request, attempts: Attempts
) -> httpx.Response:
    """Raises ``ServiceTimeout`` when the time of all attempts has passed."""
    # httpx limits each network wait separately; this limits their sum.
    try:
        async with asyncio.timeout(attempts.left()):
            return await http.send(request, follow_redirects=False)
    except TimeoutError as error:
        raise attempts.passed() from error


def send(http: httpx.Client, request: httpx.Request, _: Attempts) -> httpx.Response:
    """Only each network wait is limited, by the timeout of the request."""
    return http.send(request, follow_redirects=False)


async def async_packs(
    texts: Iterable[str] | AsyncIterable[str], into: Packer
) -> AsyncGenerator[list[str], None]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            if pack := into.add(text):
                yield pack
    else:
        for text in texts:
            if pack := into.add(text):
                yield pack
    if pack := into.rest():
        yield pack


def packs(texts: Iterable[str], into: Packer) -> Generator[list[str], None, None]:
    for text in texts:
        if pack := into.add(text):
            yield pack
    if pack := into.rest():
        yield pack


async def async_in_order(
    translate: Callable[[list[str]], Coroutine[Any, Any, list[Translation]]],
    packs: AsyncGenerator[list[str], None],
    concurrency: int,
) -> AsyncGenerator[Translation, None]:
    """Translate packs in up to ``concurrency`` tasks; stopping early cancels them."""
    running: deque[asyncio.Task[list[Translation]]] = deque()
    try:
        async for pack in packs:
            running.append(asyncio.create_task(translate(pack)))
            if len(running) == concurrency:
                for translation in await running.popleft():
                    yield translation
        while running:
            for translation in await running.popleft():
                yield translation
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await packs.aclose()


def in_order(
    translate: Callable[[list[str]], list[Translation]],
    packs: Generator[list[str], None, None],
    concurrency: int,
) -> Generator[Translation, None, None]:
    """Translate packs in up to ``concurrency`` threads; stopping early waits for them."""
    running: deque[Future[list[Translation]]] = deque()
    with ThreadPoolExecutor(concurrency, thread_name_prefix="dragoman") as pool:
        try:
            for pack in packs:
                running.append(pool.submit(translate, pack))
                if len(running) == concurrency:
                    yield from running.popleft().result()
            while running:
                yield from running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
