"""HOST:PORT as people write it in settings, and whether it can be reached from elsewhere."""

from __future__ import annotations

import ipaddress
from typing import Final

OFF: Final = "off"
"""Instead of an address: do not listen."""


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT` or `[V6]:PORT`; raise ValueError naming the fault."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:8777")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether the host can only be this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
