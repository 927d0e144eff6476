"""Waiting for a service that was started: until it answers, until it dies, or until the time is up."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final

import httpx

from lab.openstack.errors import LabError, last_lines
from lab.openstack.processes import Processes, Service

ANSWER_S: Final = 300.0
"""A busy machine needs a minute to import Nova, or two."""
ASK_S: Final = 10.0
POLL_S: Final = 0.1


def until(what: str, true: Callable[[], bool], within_s: float, poll_s: float = POLL_S) -> None:
    """Wait until `true()`; say `what` did not happen otherwise."""
    end_s = time.monotonic() + within_s
    while not true():
        if time.monotonic() > end_s:
            raise LabError(f"{what}: not within {within_s:g} s")
        time.sleep(poll_s)


def until_answers(processes: Processes, service: Service, within_s: float = ANSWER_S) -> None:
    """Wait until a service that was started can be worked with."""

    def answered() -> bool:
        if not processes.alive(service.name):
            raise processes.death_of(service)
        return not service.answers or _asked(service.answers)

    try:
        until(f"{service.name} answers at {service.answers}", answered, within_s)
    except LabError as error:
        if processes.alive(service.name):
            log = service.log or processes.log_of(service.name)
            raise LabError(f"{error}\n  {log}:\n{last_lines(log)}") from None
        raise


def _asked(place: str) -> bool:
    if place.startswith("tcp:"):
        return _listens(int(place.removeprefix("tcp:")))
    try:
        httpx.get(place, timeout=ASK_S, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=ASK_S).close()
    except OSError:
        return False
    return True
