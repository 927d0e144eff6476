"""The transition table of a node's health: for each state and event, the next state.

    INITIALIZING ──pass──▶ HEALTHY ──doubt──▶ SUSPECT ──fail──▶ UNHEALTHY
                              ▲                 │ ▲                 │ │
                              │                 │ └─────waver───────┘ │
                              └──────pass───────┴───────pass──────────┘
    any but INITIALIZING ──unknown──▶ UNKNOWN        any ──restarted──▶ INITIALIZING
    any ──marked──▶ UNHEALTHY

The events are conclusions of `core.health.verdict`: rise, fall, grace and votes are applied already.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from yaffle.model.health import Health

if TYPE_CHECKING:
    from collections.abc import Mapping


class HealthEvent(StrEnum):
    """The events of the table: results of the votes of all detection modes."""

    PASS = "pass"
    """Every vote that counts has risen."""
    DOUBT = "doubt"
    """Something fails, but not long enough, and there is no verdict yet to speak against it."""
    WAVER = "waver"
    """Something fails, but the votes are in and do not condemn: or grace still protects the node."""
    FAIL = "fail"
    """The recovery conditional is met by votes that have fallen."""
    UNKNOWN = "unknown"
    """The answer depends on something that could not be asked."""
    MARKED = "marked"
    """A person or program says so."""
    RESTARTED = "restarted"
    """The node was created, rebuilt or started: grace begins."""


class IllegalTransition(ValueError):
    """Raised for a move that the table does not list, which is a bug."""


_H, _E = Health, HealthEvent

TABLE: Final[Mapping[tuple[Health, HealthEvent], Health]] = {
    (_H.INITIALIZING, _E.PASS): _H.HEALTHY,
    (_H.INITIALIZING, _E.DOUBT): _H.INITIALIZING,
    (_H.INITIALIZING, _E.WAVER): _H.INITIALIZING,
    (_H.INITIALIZING, _E.FAIL): _H.UNHEALTHY,
    # Nothing is known of a node that just started: that is what initializing says already.
    (_H.INITIALIZING, _E.UNKNOWN): _H.INITIALIZING,
    (_H.HEALTHY, _E.PASS): _H.HEALTHY,
    (_H.HEALTHY, _E.DOUBT): _H.SUSPECT,
    (_H.HEALTHY, _E.WAVER): _H.SUSPECT,
    (_H.HEALTHY, _E.FAIL): _H.UNHEALTHY,
    (_H.HEALTHY, _E.UNKNOWN): _H.UNKNOWN,
    (_H.SUSPECT, _E.PASS): _H.HEALTHY,
    (_H.SUSPECT, _E.DOUBT): _H.SUSPECT,
    (_H.SUSPECT, _E.WAVER): _H.SUSPECT,
    (_H.SUSPECT, _E.FAIL): _H.UNHEALTHY,
    (_H.SUSPECT, _E.UNKNOWN): _H.UNKNOWN,
    (_H.UNHEALTHY, _E.PASS): _H.HEALTHY,
    # Counting begins again after blindness; until it is done an earlier verdict stands, unsettled.
    (_H.UNHEALTHY, _E.DOUBT): _H.UNHEALTHY,
    # A verdict that the votes no longer bear is no licence to act.
    (_H.UNHEALTHY, _E.WAVER): _H.SUSPECT,
    (_H.UNHEALTHY, _E.FAIL): _H.UNHEALTHY,
    # Old bad news is no licence to act: what cannot be asked any more is unknown.
    (_H.UNHEALTHY, _E.UNKNOWN): _H.UNKNOWN,
    (_H.UNKNOWN, _E.PASS): _H.HEALTHY,
    (_H.UNKNOWN, _E.DOUBT): _H.SUSPECT,
    (_H.UNKNOWN, _E.WAVER): _H.SUSPECT,
    (_H.UNKNOWN, _E.FAIL): _H.UNHEALTHY,
    (_H.UNKNOWN, _E.UNKNOWN): _H.UNKNOWN,
    **{(state, _E.MARKED): _H.UNHEALTHY for state in Health},
    **{(state, _E.RESTARTED): _H.INITIALIZING for state in Health},
}


def move(health: Health, event: HealthEvent) -> Health:
    """Return the health after `event`, or raise IllegalTransition."""
    try:
        return TABLE[health, event]
    except KeyError:
        raise IllegalTransition(f"{health} has no move on {event}") from None
