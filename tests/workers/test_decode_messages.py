"""Messages between workers and the owner: any content, however the stream is cut."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.access import Caller
from service.api.errors import REFUSALS, ShuttingDown, headers_of
from service.engine.errors import BeamTooWide, SentenceTooLong
from service.engine.types import Decoded, DecodingOptions, Durations, FinishReason, Hypothesis
from service.state.errors import QuotaExceeded, RateLimited
from service.translation.errors import DeadlineExceeded, Overloaded, TextTooLarge
from service.translation.plain import DecodeRequest
from service.translation.types import LanguagePair
from service.workers.decode_messages import (
    Cancel,
    Decode,
    Done,
    FromOwner,
    FromWorker,
    MessageProtocol,
    Observed,
    Refused,
    Result,
)

IDS = st.lists(st.integers(0, 70_000), max_size=9).map(tuple)
OPTIONS = st.builds(
    DecodingOptions,
    beam_size=st.integers(2, 9),
    length_penalty=st.floats(-10, 10),
    suppress_sequences=st.lists(IDS.filter(bool), max_size=3).map(tuple),
    target_prefix=IDS,
    completions=st.just(()),
    all_finished=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)
MESSAGES = st.one_of(
    st.builds(Cancel, st.integers(0, 2**40)),
    st.builds(Observed, st.just("tokenized"), st.tuples(st.text(), st.floats(0, 9))),
    st.builds(
        Decode,
        st.integers(0, 2**40),
        st.builds(Caller, st.none() | st.text(), st.text(), st.integers(0, 9), st.integers(0, 9)),
        st.integers(0, 10**6),
        st.builds(
            DecodeRequest,
            st.text(),
            st.text(),
            st.builds(LanguagePair, st.text(), st.text()),
            st.lists(st.tuples(IDS, OPTIONS), max_size=3).map(tuple),
            st.integers(0, 10**6),
            st.sampled_from(["interactive", "bulk"]),
            st.text(),
            st.text(),
        ),
        st.none() | st.text(),
    ),
)


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


class Ear(MessageProtocol):
    def __init__(self, received: Any) -> None:
        super().__init__(received)
        self.heard: list[Any] = []

    def message_received(self, message: Any) -> None:
        self.heard.append(message)


async def sent(messages: list[Any]) -> bytes:
    end, wire = Ear(FromOwner), Wire()
    end.connection_made(cast(Any, wire))
    for message in messages:
        end.send(message)
    assert wire.written == b""
    await asyncio.sleep(0)
    return wire.written


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.lists(st.integers(1, 60), min_size=1))
def test_messages_are_received_as_they_were_sent(messages: list[Any], cuts: list[int]) -> None:
    stream = asyncio.run(sent(messages))
    ear = Ear(FromWorker)
    while stream:
        size, *cuts = [*cuts, 7]
        ear.data_received(stream[:size])
        stream = stream[size:]
    assert ear.heard == messages


@given(
    st.lists(st.builds(Hypothesis, IDS, st.floats(-99, 0) | st.just(0.0)), max_size=3).map(tuple),
    st.sampled_from(FinishReason),
    st.builds(Durations, st.floats(0, 9), st.floats(0, 9)),
)
def test_results_are_those_of_the_engine(
    hypotheses: Any, reason: FinishReason, durations: Durations
) -> None:
    decoded = Decoded(hypotheses, reason, durations)
    ear = Ear(FromOwner)
    ear.data_received(asyncio.run(sent([Done(1, (Result.of(decoded),))])))
    (result,) = ear.heard[0].results
    assert result.decoded() == decoded
    assert result.decoded().durations == durations


@pytest.mark.parametrize(
    "error",
    [
        RateLimited(5, 7),
        QuotaExceeded(9, 1, 5, datetime(2026, 12, 1, tzinfo=UTC)),
        Overloaded(3),
        TextTooLarge(9, 5),
        DeadlineExceeded(1.5),
        SentenceTooLong(9, 5),
        BeamTooWide(9, 5),
        ShuttingDown(cut=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_refusal_raises_the_error_of_the_owner(error: Exception) -> None:
    ear = Ear(FromOwner)
    ear.data_received(asyncio.run(sent([Refused.of(4, error)])))
    raised = ear.heard[0].raised()
    assert (type(raised), str(raised), vars(raised)) == (type(error), str(error), vars(error))
    assert headers_of(raised) == headers_of(error)


def test_unexpected_error_reveals_nothing() -> None:
    refused = Refused.of(4, KeyError("a secret"))
    assert "a secret" not in str(refused)
    assert type(refused.raised()) not in REFUSALS
