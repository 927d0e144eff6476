"""Listening: a taken port is a clear error, requests under way may end, signals stay untouched."""

from __future__ import annotations

import asyncio
import signal
import socket

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from yaffle.api.http.connection import Deadlines
from yaffle.api.http.server import address_of, bind, serve
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


# --- what a client owes --------------------------------------------------------------------------

SOON = Deadlines(first_byte_s=1, header_s=1, body_s=1, idle_s=1, write_s=1)


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with more than any buffer holds, and do not look at the body."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(256 if scope["path"] == "/much" else 1):
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "drop", "last"),
    [
        pytest.param(b"", b"", b"", id="first-byte"),
        pytest.param(b"GET / HT", b"", b"408", id="header"),
        pytest.param(b"GET / HTTP/1.1\r\n", b"x: y\r\n", b"408", id="header-drop-by-drop"),
        pytest.param(b"\r\n", b"\r\n", b"", id="empty-lines"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"", b"200", id="idle"),
        pytest.param(BODY, b"", b"200", id="body"),
        pytest.param(BODY, b"x", b"200", id="body-drop-by-drop-after-the-answer"),
    ],
)
def test_whoever_owes_something_for_too_long_is_gone(said: bytes, drop: bytes, last: bytes) -> None:
    async def story() -> None:
        sock = bind("127.0.0.1:0")
        host, port = sock.getsockname()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            serving = group.create_task(serve(answering, sock, deadlines=SOON))
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(said)

            async def dripping() -> None:
                while drop:
                    writer.write(drop)
                    await asyncio.sleep(0.1)

            drips = group.create_task(dripping())
            answer = b""
            try:
                while part := await reader.read(1 << 20):
                    answer += part
            except ConnectionError:
                pass
            assert last in answer[:12]
            drips.cancel()
            writer.close()
            serving.cancel()

    asyncio.run(story())


def test_whoever_does_not_read_is_gone() -> None:
    async def story() -> None:
        over = asyncio.Event()

        async def much(scope: Scope, receive: Receive, send: Send) -> None:
            await answering(scope, receive, send)
            over.set()

        sock = bind("127.0.0.1:0")
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            serving = group.create_task(serve(much, sock, deadlines=SOON))
            with socket.create_connection(sock.getsockname()) as deaf:
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                deaf.sendall(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
                # Nobody waits for it any more: the application has got rid of all that it had to say.
                await over.wait()
            serving.cancel()

    asyncio.run(story())
