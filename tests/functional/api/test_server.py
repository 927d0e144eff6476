"""Listening: a taken port is a clear error, requests under way may end, signals stay untouched."""

from __future__ import annotations

import asyncio
import signal
import socket

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from yaffle.api.server import address_of, bind, serve
from yaffle.errors import ConfigError


def test_port_zero_becomes_a_number() -> None:
    with bind("127.0.0.1:0") as sock:
        assert int(address_of(sock).rpartition(":")[2]) > 0


def test_a_taken_port_names_the_flag() -> None:
    with bind("127.0.0.1:0") as sock, pytest.raises(ConfigError, match="--listen") as error:
        bind(address_of(sock))
    assert "something listens there already" in str(error.value)


@pytest.mark.parametrize("listen", ["192.0.2.1:80", "no-such-host.invalid:80"])
def test_an_address_that_is_not_ours_names_the_flag(listen: str) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        bind(listen)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_v6_addresses_have_brackets() -> None:
    try:
        sock = bind("[::1]:0")
    except ConfigError as error:
        pytest.skip(str(error))
    with sock:
        assert address_of(sock).startswith("[::1]:")


def test_a_request_under_way_is_answered_before_the_end() -> None:
    asked = asyncio.Event()
    go_on = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def story() -> None:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        sock = bind("127.0.0.1:0")
        url = f"http://{address_of(sock)}/"
        async with asyncio.timeout(60), httpx.AsyncClient(verify=False, timeout=None) as client:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(serve(slow, sock))
                answer = group.create_task(client.get(url))
                await asked.wait()
                assert (
                    signal.getsignal(signal.SIGTERM),
                    signal.getsignal(signal.SIGINT),
                ) == before
                serving.cancel()
                go_on.set()
                assert (await answer).text == "done"
            with pytest.raises(httpx.ConnectError):
                await client.get(url)

    asyncio.run(story())


def test_a_request_that_hangs_does_not_keep_the_server() -> None:
    asked = asyncio.Event()

    async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await asyncio.Event().wait()

    async def ask(url: str) -> bool:
        async with httpx.AsyncClient(verify=False, timeout=None) as client:
            try:
                return (await client.get(url)).is_success
            except httpx.HTTPError:
                return False

    async def story() -> None:
        sock = bind("127.0.0.1:0")
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            serving = group.create_task(serve(hanging, sock))
            asking = group.create_task(ask(f"http://{address_of(sock)}/"))
            await asked.wait()
            serving.cancel()
        assert asking.result() is False

    asyncio.run(story())
