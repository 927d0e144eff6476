"""Tells systemd that the process is ready, how it is, and that it lives, while it does not fail.

The protocol of sd_notify(3), without its library: one datagram to $NOTIFY_SOCKET. A service that
fails is no longer fed, and after WatchdogSec= systemd restarts it; so the group asked about must not
depend on neighbours (their trouble would restart every service at once), see ADR 0016.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Callable, Mapping
from typing import Final

from yaffle_health.model import Health, Status

READY_POLL_S: Final = 0.25
"""How often a process that fails at its start is asked again."""


class Notifier:
    """The way to the service manager; OSError never leaves it, since nobody could do anything."""

    def __init__(self, place: str) -> None:
        self._place = "\0" + place[1:] if place.startswith("@") else place

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Notifier | None:
        """From NOTIFY_SOCKET; None where no service manager listens (or one behind a vsock)."""
        place = environment.get("NOTIFY_SOCKET", "")
        return cls(place) if place.startswith(("/", "@")) else None

    def send(self, *states: str) -> bool:
        """Send `NAME=value` lines in one datagram; False if it could not be delivered."""
        kind = _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC
        sender = _socket.socket(_socket.AF_UNIX, kind)
        try:
            flags = _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL
            sender.sendto("\n".join(states).encode(), flags, self._place)
        except OSError:
            return False
        finally:
            sender.close()
        return True


def watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    """How long systemd waits for us; None if it does not, or waits for another process."""
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    text = environment.get("WATCHDOG_USEC", "")
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        return None
    return int(text) / 1e6


class Supervisor:
    """What the endpoint's thread does every so often for the service manager."""

    def __init__(
        self,
        notifier: Notifier,
        health: Callable[[], Health],
        *,
        watchdog: float | None,
    ) -> None:
        """`health` is asked each time; `watchdog` is the service manager's patience in seconds."""
        self._notifier, self._health = notifier, health
        # Half of it, as sd_watchdog_enabled(3) asks: one lost turn is no restart.
        self._feed_s = None if watchdog is None else watchdog / 2
        self._ready = False
        self._status: Status | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], health: Callable[[], Health]) -> Supervisor | None:
        """From the environment; None where no service manager listens."""
        notifier = Notifier.of(environment)
        if notifier is None:
            return None
        return cls(notifier, health, watchdog=watchdog_s(environment, os.getpid()))

    def tick(self) -> float | None:
        """Say what there is to say; seconds until there may be more, None for never."""
        try:
            status = self._health().status
        except Exception:  # noqa: BLE001 - the host's code; what cannot tell its health is not fed
            return self._next_s()
        states = list(self._states(status))
        if states and self._notifier.send(*states):
            self._status = status
            self._ready = self._ready or status is not Status.FAIL
        return self._next_s()

    def _states(self, status: Status) -> list[str]:
        states: list[str] = []
        if status is not Status.FAIL:
            if not self._ready:
                states.append("READY=1")
            if self._feed_s is not None:
                states.append("WATCHDOG=1")
        if status is not self._status:
            states.append(f"STATUS=health: {status.value}")
        return states

    def _next_s(self) -> float | None:
        if self._ready:
            return self._feed_s
        return READY_POLL_S if self._feed_s is None else min(READY_POLL_S, self._feed_s)
