"""Parses the PROXY protocol, versions 1 and 2.

https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt. Read to its last byte and not beyond: what
follows is TLS or HTTP, and somebody else's to read.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
START: Final = b"PROXY "
LINE_MAX: Final = 107
"""Bytes of a header of version 1, its end of line included."""
BLOCK_MAX: Final = 1024
"""Bytes of addresses and TLVs in version 2; addresses of Unix sockets need 216."""
LOCAL: Final = 0x20
PROXIED: Final = 0x21
_LENGTHS: Final = {0x11: 4, 0x21: 16}
"""Version 2: TCP over IPv4 or IPv6 → bytes of one address."""
_FAMILIES: Final = {"TCP4": 4, "TCP6": 6}

Caller = tuple[str, int]
Read = Callable[[int], Awaitable[bytes]]
"""Return exactly so many bytes, or fewer at the end of the connection."""


class NoHeader(Exception):
    """Raised where the connection begins with no such header; the message says why."""


async def read_caller(read: Read) -> Caller | None:
    """Return whom the proxy speaks for; None where it speaks for itself, or of no TCP connection."""
    start = await read(len(SIGNATURE))
    if start == SIGNATURE:
        return await _version_2(read)
    if not start.startswith(START):
        raise NoHeader("it does not begin with one")
    line = bytearray(start)
    # By single bytes: nothing in front of it says how long it is.
    while not line.endswith(b"\r\n"):
        if len(line) >= LINE_MAX or not (byte := await read(1)):
            raise NoHeader("its line does not end")
        line += byte
    return _version_1(bytes(line[:-2]))


def _version_1(line: bytes) -> Caller | None:
    """Return the caller of `PROXY TCP4 SOURCE DESTINATION PORT PORT`."""
    words = line.decode("latin-1").split(" ")
    if words[1] == "UNKNOWN":
        return None
    version = _FAMILIES.get(words[1])
    if version is None or len(words) != 6:
        raise NoHeader("its line is none of TCP4, TCP6 or UNKNOWN")
    try:
        source, destination = (ipaddress.ip_address(word) for word in words[2:4])
    except ValueError:
        raise NoHeader("its addresses are none") from None
    ports = [int(word) for word in words[4:] if word.isascii() and word.isdecimal()]
    if {source.version, destination.version} != {version} or len(ports) != 2:
        raise NoHeader("its addresses or ports are not what it says they are")
    return _caller(source.packed, ports[0])


async def _version_2(read: Read) -> Caller | None:
    head = await read(4)
    if len(head) < 4 or head[0] not in {LOCAL, PROXIED}:
        raise NoHeader("its version or command is unknown")
    length = int.from_bytes(head[2:4])
    if length > BLOCK_MAX:
        raise NoHeader(f"it is longer than {BLOCK_MAX} bytes")
    block = await read(length)
    size = _LENGTHS.get(head[1], 0)
    if len(block) < length or (head[0] == PROXIED and length < 2 * size + 4 * bool(size)):
        raise NoHeader("it is cut off")
    if head[0] == LOCAL or not size:
        return None
    return _caller(block[:size], int.from_bytes(block[2 * size : 2 * size + 2]))


def _caller(packed: bytes, port: int) -> Caller:
    if port > 0xFFFF:
        raise NoHeader("its ports are none")
    return str(ipaddress.ip_address(packed)), port
