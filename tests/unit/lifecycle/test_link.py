"""Bytes become messages however they are cut; what is no AMQP ends the link and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest
from pamqp import commands, frame, header, heartbeat
from pamqp.body import ContentBody

from yaffle.drivers.detectors.lifecycle.amqp import CHANNEL, FRAME_MAX, Link, LinkLost, Refused
from yaffle.drivers.detectors.lifecycle.messages import BODY_MAX

Got = list[tuple[str, int, bytes]]


def message(tag: int, body: bytes, *, exchange: str = "nova", part: int = 1000) -> bytes:
    """Return the frames of one delivery, its body in parts."""
    deliver = commands.Basic.Deliver("yaffle", tag, False, exchange, "notifications.info")
    parts = [ContentBody(body[at : at + part]) for at in range(0, len(body), part)]
    frames = [deliver, header.ContentHeader(body_size=len(body)), *parts]
    return b"".join(frame.marshal(one, CHANNEL) for one in frames)


def link(got: Got) -> Link:
    return Link(lambda exchange, tag, body: got.append((exchange, tag, body)))


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


@pytest.mark.parametrize("seed", range(5))
def test_however_the_stream_is_cut(seed: int) -> None:
    async def main() -> None:
        rng, got = Random(seed), Got()
        sent = [
            ("nova", 1, b"x" * 3500),
            ("", 2, b""),
            ("heat", 3, bytes(range(256)) * 9),
            ("nova", 2**40, b"\xce" * 1000),
        ]
        stream = b"".join(message(tag, body, exchange=name) for name, tag, body in sent)
        stream = frame.marshal(heartbeat.Heartbeat(), 0) + stream
        one = link(got)
        at = 0
        while at < len(stream):
            step = rng.choice([1, 2, 7, 100, 5000])
            one.data_received(stream[at : at + step])
            at += step
        assert got == sent
        assert not one.lost.is_set()

    run(main())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http"),
        pytest.param(b"AMQP\x00\x01\x00\x00", id="another version"),
        pytest.param(b"\x01\x00\x01\xff\xff\xff\xff" + b"x" * 10, id="huge"),
        pytest.param(b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x3cX", id="no end"),
        pytest.param(b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x3c\xff\xce", id="cut short"),
        pytest.param(b"\x01\x00\x01\x00\x00\x00\x04\x99\x99\x99\x99\xce", id="no such method"),
    ],
)
def test_what_is_no_amqp_ends_it(data: bytes) -> None:
    async def main() -> None:
        got = Got()
        one = link(got)
        one.data_received(data)
        if not one.lost.is_set():
            # A frame that is not whole yet: it never gets longer than a frame may be.
            one.data_received(b"\0" * (FRAME_MAX + 100))
        assert one.lost.is_set()
        with pytest.raises(LinkLost):
            one.check()
        with pytest.raises(LinkLost):
            await one.call(None)
        assert got == []

    run(main())


def test_a_body_that_is_too_large_is_not_collected() -> None:
    async def main() -> None:
        got = Got()
        one = link(got)
        one.data_received(message(1, b"x" * (BODY_MAX * 3), part=100_000))
        one.data_received(message(2, b"y"))
        assert [(tag, BODY_MAX < len(body) < BODY_MAX * 2) for _, tag, body in got] == [
            (1, True),
            (2, False),
        ]

    run(main())


def test_a_refusal_is_told_to_who_asked_and_other_channels_live_on() -> None:
    async def main() -> None:
        one = link([])
        asking = asyncio.create_task(
            one.call(commands.Exchange.Declare(exchange="x", passive=True), channel=2)
        )
        await asyncio.sleep(0)
        one.data_received(frame.marshal(commands.Channel.Close(404, "NOT_FOUND", 40, 10), 2))
        with pytest.raises(Refused) as refused:
            await asking
        assert refused.value.code == 404
        assert not one.lost.is_set()
        one.data_received(frame.marshal(commands.Channel.Close(406, "NO", 50, 10), CHANNEL))
        assert one.lost.is_set()

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        commands.Connection.Close(403, "ACCESS_REFUSED", 0, 0),
        commands.Basic.Cancel(consumer_tag="yaffle"),
    ],
)
def test_what_the_broker_ends_fails_who_waits(said: Any) -> None:
    async def main() -> None:
        one = link([])
        asking = asyncio.create_task(one.call(None))
        await asyncio.sleep(0)
        one.data_received(frame.marshal(said, 0))
        with pytest.raises(LinkLost):
            await asking
        assert one.lost.is_set()

    run(main())
