"""Headers of the PROXY protocol: who is named, what is refused, and that not a byte more is read."""

from __future__ import annotations

import asyncio
import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.api.http.proxy_protocol import (
    BLOCK_MAX,
    LINE_MAX,
    SIGNATURE,
    Caller,
    NoHeader,
    read_caller,
)

REST = b"GET / HTTP/1.1\r\n"


def read(data: bytes) -> tuple[Caller | None, bytes]:
    """Return the caller, and what was left unread."""
    left = [data]

    async def take(count: int) -> bytes:
        found, left[0] = left[0][:count], left[0][count:]
        return found

    return asyncio.run(read_caller(take)), left[0]


def block(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return SIGNATURE + bytes([command, family]) + size.to_bytes(2) + body


def tcp4(source: str = "203.0.113.7", port: int = 4711, tlvs: bytes = b"") -> bytes:
    addresses = ipaddress.IPv4Address(source).packed + bytes(4)
    return block(0x21, 0x11, addresses + struct.pack("!HH", port, 443) + tlvs)


TCP6 = ipaddress.IPv6Address("2001:db8::7").packed + bytes(16) + struct.pack("!HH", 4711, 443)

GOOD = [
    pytest.param(b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", ("203.0.113.7", 4711), id="v1"),
    pytest.param(b"PROXY TCP6 2001:db8::7 ::1 4711 443\r\n", ("2001:db8::7", 4711), id="v1-six"),
    pytest.param(b"PROXY UNKNOWN\r\n", None, id="v1-unknown"),
    pytest.param(b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n", None, id="v1-unknown-and-more"),
    pytest.param(tcp4(), ("203.0.113.7", 4711), id="v2"),
    pytest.param(tcp4(tlvs=b"\x03\x00\x04abcd"), ("203.0.113.7", 4711), id="v2-tlvs"),
    pytest.param(block(0x21, 0x21, TCP6), ("2001:db8::7", 4711), id="v2-six"),
    pytest.param(block(0x20, 0x00, b""), None, id="v2-local"),
    pytest.param(block(0x20, 0x11, TCP6), None, id="v2-local-with-addresses"),
    pytest.param(block(0x21, 0x31, bytes(216)), None, id="v2-unix"),
]


@pytest.mark.parametrize(("header", "caller"), GOOD)
def test_who_is_named_and_nothing_more_is_read(header: bytes, caller: Caller | None) -> None:
    assert read(header + REST) == (caller, REST)


BAD = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(99),
    "nothing": b"",
    "lower case": b"proxy TCP4 203.0.113.7 192.0.2.1 1 2\r\n",
    "no end": b"PROXY UNKNOWN" + b" " * LINE_MAX,
    "an end too late": b"PROXY UNKNOWN" + b" " * (LINE_MAX - 14) + b"\r\n",
    "LF alone": b"PROXY TCP4 203.0.113.7 192.0.2.1 1 2\n",
    "cut off": b"PROXY TCP4 203.0.113.7 192",
    "UDP": b"PROXY UDP4 203.0.113.7 192.0.2.1 1 2\r\n",
    "too few words": b"PROXY TCP4 203.0.113.7 192.0.2.1 1\r\n",
    "a blank too many": b"PROXY TCP4  203.0.113.7 192.0.2.1 1 2\r\n",
    "another family": b"PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
    "a name": b"PROXY TCP4 localhost 192.0.2.1 1 2\r\n",
    "no port": b"PROXY TCP4 203.0.113.7 192.0.2.1 -1 2\r\n",
    "a port too large": b"PROXY TCP4 203.0.113.7 192.0.2.1 65536 2\r\n",
    "version 3": block(0x31, 0x11, bytes(12)),
    "an unknown command": block(0x22, 0x11, bytes(12)),
    "v2 too short": block(0x21, 0x11, bytes(11)),
    "v2 cut off": block(0x21, 0x11, bytes(11), 12),
    "v2 too long": block(0x21, 0x11, bytes(BLOCK_MAX + 1)),
    "a signature alone": SIGNATURE,
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(NoHeader):
        read(data)


@given(st.binary(max_size=64), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE]))
def test_any_bytes_are_a_header_or_none(data: bytes, start: bytes) -> None:
    try:
        caller, _ = read(start + data)
    except NoHeader:
        return
    if caller is not None:
        ipaddress.ip_address(caller[0])
        assert 0 <= caller[1] <= 0xFFFF
