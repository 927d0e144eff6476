"""What cannot be provoked on one machine: how attempts add up, and what the system's errors mean."""

from __future__ import annotations

import errno
import socket

import pytest

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.prober.check import Check
from yaffle.prober.connecting import Rank, connect_failure, forbidden
from yaffle.prober.loop import Loop
from yaffle.prober.resolver import failure
from yaffle.prober.rules import ready
from yaffle.prober.wire import Ask, Options


@pytest.mark.parametrize(
    ("endings", "reported"),
    [
        (["L4-REFUSED", "L4-REFUSED"], "L4-REFUSED"),
        (["L4-REFUSED", "L7-STATUS"], "L7-STATUS"),
        (["L4-REFUSED", "L7-OK"], "L7-OK"),
        (["X-DNS", "L7-OK"], "L7-OK"),
        (["X-DNS", "L4-REFUSED"], "X-DNS"),
        (["L4-REFUSED", "X-LOCAL"], "X-LOCAL"),
        (["X-LATE"], "X-LATE"),
        (["L7-WARN"], "L7-WARN"),
    ],
)
def test_a_failure_needs_every_attempt_to_fail(endings: list[str], reported: str) -> None:
    codes: list[str] = []
    rules = ready(Options(True, "", len(endings), 5.0, 5.0, False))
    check = Check(
        Loop(), Ask(1, "n", "http://{port}/"), rules, lambda _id, code, _d, _t: codes.append(code)
    )
    check._left = len(endings)
    for ending in endings:
        assert codes == []
        check.attempt_ended(ending, "", 1)
    assert codes == [reported]


@pytest.mark.parametrize(
    ("number", "family", "code"),
    [
        (errno.ECONNREFUSED, socket.AF_INET, "L4-REFUSED"),
        (errno.ENETUNREACH, socket.AF_INET, "L4-UNREACH"),
        (errno.EHOSTUNREACH, socket.AF_INET6, "L4-UNREACH"),
        (errno.ETIMEDOUT, socket.AF_INET, "L4-TIMEOUT"),
        (errno.EADDRNOTAVAIL, socket.AF_INET, "X-LOCAL"),
        (errno.EADDRNOTAVAIL, socket.AF_INET6, "X-LOCAL"),
        (errno.EMFILE, socket.AF_INET, "X-LOCAL"),
        (errno.EPERM, socket.AF_INET, "X-LOCAL"),
        (errno.ENETDOWN, socket.AF_INET, "X-LOCAL"),
        (0, socket.AF_INET, "X-LOCAL"),
    ],
)
def test_errors_of_connecting(number: int, family: int, code: str) -> None:
    assert connect_failure(number, family).code == code
    assert code in OUTCOMES


def test_our_own_trouble_outweighs_an_answer() -> None:
    """No free IPv4 port and IPv6 refused: we cannot know what IPv4 would have said."""
    ours = connect_failure(errno.EADDRNOTAVAIL, socket.AF_INET)
    refused = connect_failure(errno.ECONNREFUSED, socket.AF_INET6)
    no_ipv6 = connect_failure(errno.EADDRNOTAVAIL, socket.AF_INET6)
    assert ours.rank < refused.rank < no_ipv6.rank < forbidden("").rank == Rank.FORBIDDEN


def test_only_the_name_servers_word_is_no_such_name() -> None:
    assert failure(socket.EAI_NONAME, "").code == "L3-DNS"
    assert failure(socket.EAI_AGAIN, "").code == "X-DNS"
    assert failure(socket.EAI_FAIL, "").code == "X-DNS"
    assert failure(0, "").code == "X-DNS"
