"""The PROXY protocol over sockets: believed of trusted proxies, with a deadline, also below TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from tests.functional.api.balancing import HAVE, PROXY, balanced
from tests.functional.api.live import PREFIX, Live, running
from tests.functional.api.people import basic, users_file
from tests.functional.api.test_framing import left
from tests.functional.api.test_tls import Authority

from yaffle.api.http import listener
from yaffle.api.http.server import address_of, bind, serve
from yaffle.api.tls import Certificates
from yaffle.config import ServerSettings

WAIT_S = 60
ASKED = b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEADER = b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"
TRUSTED: dict[str, Any] = {"trusted_proxies": (PROXY,), "proxy_protocol": True}
real = pytest.mark.skipif(not HAVE, reason="there is no haproxy")
VERSIONS = pytest.mark.parametrize("option", ["send-proxy", "send-proxy-v2"])


@contextmanager
def serving(
    settings: ServerSettings, certificates: Certificates | None = None
) -> Iterator[tuple[str, int]]:
    """Serve who asks, as text, until the block ends; yield the address."""
    ready, box = Event(), dict[str, Any]()

    async def who(scope: Any, receive: Any, send: Any) -> None:
        told = "{} {}".format(*scope["client"]).encode()
        headers = [(b"content-length", str(len(told)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": told})

    async def main() -> None:
        sock = bind("127.0.0.1:0")
        host, _, port = address_of(sock).rpartition(":")
        box.update(address=(host, int(port)), loop=asyncio.get_running_loop(), end=asyncio.Event())
        tls = None if certificates is None else certificates.context
        async with asyncio.TaskGroup() as group:
            task = group.create_task(serve(who, sock, settings, tls=tls))
            ready.set()
            await box["end"].wait()
            task.cancel()

    thread = Thread(target=lambda: asyncio.run(main()), name="server")
    thread.start()
    assert ready.wait(WAIT_S)
    try:
        yield box["address"]
    finally:
        box["loop"].call_soon_threadsafe(box["end"].set)
        thread.join(WAIT_S)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with serving(ServerSettings(**TRUSTED)) as found:
        yield found


def said(address: tuple[str, int], *pieces: bytes, source: str = PROXY) -> bytes:
    """Send the pieces one after the other and return all that comes."""
    with socket.create_connection(address, WAIT_S, (source, 0)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            sock.sendall(piece)
        return left(sock)


def test_a_trusted_proxy_says_who_asks(address: tuple[str, int]) -> None:
    assert said(address, HEADER + ASKED).endswith(b"203.0.113.7 4711")
    assert said(address, *(bytes([one]) for one in HEADER), ASKED).endswith(b"203.0.113.7 4711")
    # It speaks for itself: its own address counts.
    assert b"\r\n\r\n127.0.0.2 " in said(address, b"PROXY UNKNOWN\r\n" + ASKED)


def test_without_it_a_trusted_proxy_is_not_answered(address: tuple[str, int]) -> None:
    assert said(address, ASKED) == b""
    assert said(address, HEADER[:-2] + b" 1\r\n" + ASKED) == b""


def test_nobody_else_says_who_asks(address: tuple[str, int]) -> None:
    assert said(address, HEADER + ASKED, source="127.0.0.1").startswith(b"HTTP/1.1 400 ")
    assert b"\r\n\r\n127.0.0.1 " in said(address, ASKED, source="127.0.0.1")


def test_whom_it_names_is_no_proxy(address: tuple[str, int]) -> None:
    forged = ASKED.replace(b"Host", b"X-Forwarded-For: 198.51.100.9\r\nHost")
    assert said(address, HEADER + forged).endswith(b"203.0.113.7 4711")


def test_off_nobody_has_to_send_it() -> None:
    with serving(ServerSettings(trusted_proxies=(PROXY,))) as address:
        assert said(address, HEADER + ASKED).startswith(b"HTTP/1.1 400 ")
        assert b"\r\n\r\n127.0.0.2 " in said(address, ASKED)


def test_a_header_that_never_ends_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_S", 0.3)
    with serving(ServerSettings(**TRUSTED)) as address:
        assert said(address, HEADER[:-2]) == b""
        assert said(address) == b""


def test_it_needs_somebody_to_be_trusted() -> None:
    with pytest.raises(ValidationError, match="needs trusted_proxies"):
        ServerSettings(proxy_protocol=True)


@real
@VERSIONS
def test_haproxy_says_who_asks_below_tls_too(tmp_path: Path, option: str) -> None:
    authority = Authority(tmp_path, "authority")
    known = Certificates(*authority.issue("server", "localhost"), None)
    context = ssl.create_default_context(cafile=authority.file)
    with (
        serving(ServerSettings(**TRUSTED), known) as (host, port),
        # Bytes are passed on as they come: who speaks TLS with us is the client.
        balanced(tmp_path, [f"{host}:{port}"], options=option) as proxy,
        socket.create_connection(
            ("127.0.0.1", int(proxy.rpartition(":")[2])), WAIT_S, ("127.0.0.3", 0)
        ) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        sock.sendall(ASKED)
        assert left(sock).endswith("{} {}".format(*sock.getsockname()).encode())


@real
@VERSIONS
def test_behind_haproxy_who_guesses_waits_and_nobody_else(tmp_path: Path, option: str) -> None:
    server = {"users_file": users_file(tmp_path, mara="correct horse"), **TRUSTED}

    def status(password: str, source: str) -> int:
        live = Live(proxy, service=direct.service, loop=direct.loop)
        with live.client(basic("mara", password)) as client:
            said = {"Host": "localhost", "X-Source": source}
            return client.get(f"{PREFIX}/nodes", headers=said).status_code

    # As if they came from networks, of which a machine without any has none.
    elsewhere = "http-request set-src req.hdr(X-Source)"
    with (
        running(tmp_path / "state", server=server) as direct,
        balanced(tmp_path, [direct.address], mode="http", options=option, rule=elsewhere) as proxy,
    ):
        found = {status(f"guess {number}", "203.0.113.7") for number in range(8)}
        assert found == {401, 429}
        assert status("correct horse", "203.0.113.8") == 200


@real
@VERSIONS
def test_haproxys_checks_speak_for_itself(tmp_path: Path, option: str) -> None:
    checked = f"{option} check-send-proxy check inter 100ms"
    with (
        serving(ServerSettings(**TRUSTED)) as (host, port),
        balanced(
            tmp_path, [f"{host}:{port}"], mode="http", options=f"{checked} observe layer4"
        ) as proxy,
        httpx.Client(base_url=f"http://{proxy}", trust_env=False) as client,
    ):
        for _ in range(20):
            assert client.get("/").status_code == 200
