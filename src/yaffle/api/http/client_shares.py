"""The client of a request, behind proxies too, and its share of the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from yaffle.config import is_loopback

PREFIX_6: Final = 64
"""Whoever has one IPv6 address has a network of these."""


def share_of(address: str) -> str:
    """Return what an address shares its part of the server with: itself, or its IPv6 network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if is_loopback(address):
        return address
    return str(ipaddress.ip_network((int(found), PREFIX_6), strict=False))


class Proxies:
    """The proxies whose word about their callers counts (`server.trusted_proxies`)."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(one, strict=False) for one in networks)

    def __contains__(self, address: str) -> bool:
        """Whether it is the address of a trusted proxy."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._networks)

    def caller(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return who asks: the last address of X-Forwarded-For that no trusted proxy has.

        Each proxy adds at the end whom it saw; what stands before that is the caller's own word.
        """
        if peer not in self:
            return peer
        said = [part.strip() for value in forwarded for part in value.split(",")]
        for address in reversed(said):
            try:
                peer = str(ipaddress.ip_address(address.strip("[]")))
            except ValueError:
                # Not what a proxy writes: the proxy before it is the last that is known.
                return peer
            if peer not in self:
                return peer
        return peer
