"""Heartbeats of hosts: what an agent says, and what each vantage point has heard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from yaffle.model.msgspec_init import prepared

Name = Annotated[str, msgspec.Meta(pattern="^[!-~]{1,255}$")]
BootId = Annotated[str, msgspec.Meta(pattern="^[!-~]{1,64}$")]


@prepared
class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a host's agent (`yaffle.integrations.host_agent`), as JSON."""

    host: Name
    boot: BootId
    """The kernel's id of this boot."""
    uptime_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    at_s: Annotated[float, msgspec.Meta(ge=0, le=1e11)]
    """The host's own clock: seconds since the epoch."""
    disk_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """For how long its disk has taken no write."""
    every_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 2.0
    """How far its heartbeats are apart."""
    goodbye: bool = False
    """Whether it is the last one, on purpose: the host shuts down, or its agent was stopped."""
    clean: bool = False
    """Whether the boot before this one ended with a goodbye, by the record on the host's disk."""


@prepared
class HeardHost(msgspec.Struct, frozen=True, kw_only=True):
    """What a vantage point has heard of one host."""

    boot: str
    uptime_s: float
    """Of that boot, at the last heartbeat, by the host's own word."""
    silent_s: float
    """Since the last heartbeat, at the time when this was stored."""
    beats: int
    """How many came without a gap until now."""
    goodbye: bool = False
    closed: bool = False
    """Whether its side has closed the connection since, which a host that is gone does not."""
    cleaned: str = ""
    """The boot that began last after a goodbye: who has not heard that must not take it for a failure."""
    refused: str = ""
    """Why it was refused just now; empty where it was not. Whoever calls is not dead."""
    every_s: float = 2.0
    disk_s: float = 0.0
    ahead_s: float = 0.0
    """How far the host's clock is ahead of ours."""
    expires_s: float = 0.0
    """When its certificate ends (seconds since the epoch); 0 where that was not noted yet."""
    restarts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Boots that began without a goodbye before, and when (seconds since the epoch)."""


@prepared
class VantagePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One place that hosts report to, as it stored what it has heard."""

    name: str
    at_us: int
    """When that was."""
    every_s: float
    """How long after the time before; 0 for the first."""
    listening_s: float
    """For how long it has listened without a break: what it missed before that is its own fault."""
    hosts: Mapping[str, HeardHost]
    """Every host that it has ever heard of."""
