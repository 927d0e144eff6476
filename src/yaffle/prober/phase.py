"""Phases of an attempt, and the row of the table that running out of time in each is."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Phase(IntEnum):
    """The phase of an attempt; decides which row a timeout is."""

    RESOLVE = 0
    CONNECT = 1
    HANDSHAKE = 2
    SEND = 3
    RECEIVE = 4
    DONE = 5


# Names of a module are looked up much faster than members of an enum.
RESOLVE, CONNECT, HANDSHAKE, SEND, RECEIVE, DONE = Phase

TIMEOUTS: Final = {
    RESOLVE: ("X-DNS", "the resolver did not answer in time"),
    CONNECT: ("L4-TIMEOUT", "no connection"),
    HANDSHAKE: ("L6-TIMEOUT", "no TLS handshake"),
    SEND: ("L7-TIMEOUT", "connected, but no whole answer"),
    RECEIVE: ("L7-TIMEOUT", "connected, but no whole answer"),
}
