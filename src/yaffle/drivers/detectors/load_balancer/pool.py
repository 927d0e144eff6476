"""Pools as any balancer tells them: the members, or why there is nothing to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of the pool (HAProxy: server), as a source says it is."""

    name: str
    address: str
    """`10.0.0.7:80`, `[2001:db8::7]:80`; empty where the source does not show it."""
    code: str
    """Row of `core.health.check_codes.OUTCOMES`."""
    words: str
    """The balancer's own: `DOWN 1/2, L7STS 503, HTTP status check returned code <3C>503<3E>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Answer where there is nothing to read; the code is LB-TIMEOUT, LB-ERROR or LB-NO-POOL."""

    code: str
    why: str


Pool = Sequence[Member] | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A pool among all that a balancer has."""

    pool: str
    """What to ask for it by: HAProxy's backend, Octavia's id."""
    name: str
    """What a person calls it."""
    members: Sequence[Member]

    @property
    def words(self) -> str:
        """Return it for messages."""
        return self.name if self.pool == self.name else f"{self.name} ({self.pool})"


Pools = Sequence[Listed] | Failed
