"""Meaning of network errors: their rows, and which of several addresses' errors is reported."""

from __future__ import annotations

import errno
import os
import socket
from enum import IntEnum
from typing import Final, NamedTuple


class Rank(IntEnum):
    """The rank of an address's failure; of several the lowest is reported."""

    OURS = 0
    REFUSED = 1
    UNREACHABLE = 2
    NO_FAMILY = 3
    FORBIDDEN = 4


class Failure(NamedTuple):
    """Why one address did not do."""

    rank: Rank
    code: str
    what: str


NO_ADDRESS: Final = Failure(Rank.OURS, "L3-DNS", "the name has no address")

_ERRORS: Final = {
    errno.ECONNREFUSED: Failure(Rank.REFUSED, "L4-REFUSED", "connection refused"),
    errno.ECONNRESET: Failure(Rank.REFUSED, "L4-REFUSED", "connection refused (reset)"),
    errno.ETIMEDOUT: Failure(Rank.UNREACHABLE, "L4-TIMEOUT", "no connection"),
    errno.EHOSTUNREACH: Failure(Rank.UNREACHABLE, "L4-UNREACH", "host unreachable"),
    errno.ENETUNREACH: Failure(Rank.UNREACHABLE, "L4-UNREACH", "network unreachable"),
    errno.EHOSTDOWN: Failure(Rank.UNREACHABLE, "L4-UNREACH", "host down"),
    errno.EAFNOSUPPORT: Failure(Rank.NO_FAMILY, "X-LOCAL", "address family not supported here"),
}


def connect_failure(number: int, family: int) -> Failure:
    """Return the failure that an `errno` number means for a connection to an address of that family."""
    if number == errno.EADDRNOTAVAIL and family == socket.AF_INET6:
        # IPv6 switched off here, or no free port: the other family may still tell.
        return Failure(Rank.NO_FAMILY, "X-LOCAL", "no IPv6 address of our own")
    # What is not in the table is our own side: descriptors, memory, ports, a local firewall.
    return _ERRORS.get(number, Failure(Rank.OURS, "X-LOCAL", text(number)))


def forbidden(why: str) -> Failure:
    """The address rules refuse this address."""
    return Failure(Rank.FORBIDDEN, "X-REFUSED-ADDRESS", why)


def text(number: int | None) -> str:
    """The system's words for an error number."""
    return os.strerror(number).lower() if number else "unknown error"
