"""Recorded requests of clients in many languages, replayed against the whole service."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.api.clients import deepl, libretranslate, small_dialects
from tests.api.clients.exchanges import Exchange, assert_read

_CLIENTS = [
    pytest.param(exchanges, id=f"{api}-{language}")
    for api, clients in (
        ("deepl", deepl.CLIENTS),
        ("libretranslate", libretranslate.CLIENTS),
        ("small", small_dialects.CLIENTS),
    )
    for language, exchanges in clients.items()
]


async def _answer(
    client: httpx.AsyncClient, exchange: Exchange, kept: dict[str, str]
) -> httpx.Response:
    headers = {"accept": exchange.accept, "authorization": "DeepL-Auth-Key any"}
    if exchange.content_type is not None:
        headers["content-type"] = exchange.content_type
    return await client.request(
        exchange.method, exchange.address(kept), headers=headers, content=exchange.encoded(kept)
    )


@pytest.mark.parametrize("exchanges", _CLIENTS)
async def test_recorded_requests_are_answered_in_the_shape_that_the_client_reads(
    suggesting: httpx.AsyncClient, exchanges: tuple[Exchange, ...]
) -> None:
    kept: dict[str, str] = {}
    for exchange in exchanges:
        answer = await _answer(suggesting, exchange, kept)
        if exchange.until is not None:
            name, value = exchange.until
            async with asyncio.timeout(30):
                while answer.json()[name] != value:
                    await asyncio.sleep(0.005)
                    answer = await _answer(suggesting, exchange, kept)
        asked = f"{exchange.method} {exchange.address(kept)}: {answer.text}"
        assert answer.status_code == exchange.status, asked
        if isinstance(exchange.reads, str):
            assert answer.text.removesuffix("\n") == exchange.reads, asked
        elif exchange.reads is not None:
            assert_read(answer.json(), exchange.reads, asked)
        kept |= {name: answer.json()[field] for field, name in exchange.keeps.items()}
