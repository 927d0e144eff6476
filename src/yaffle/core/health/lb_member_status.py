"""Check codes for what load balancers say of a pool's member, and how several of them combine.

ERROR and DOWN are failures. Whatever an operator does to a member is not: OFFLINE, MAINT, NO_MONITOR
and "no check" tell nothing of the node; DRAIN and NOLB are said of one whose checks pass.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.model.health import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HAPROXY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "UP": "LB-UP",
        "UP n/m": "LB-FALLING",
        "UP (INI)": "LB-INITIAL",
        "DOWN": "LB-DOWN",
        "DOWN n/m": "LB-DOWN",
        "DOWN (agent)": "LB-DOWN",
        "NOLB": "LB-DRAIN",
        "NOLB n/m": "LB-DRAIN",
        "DRAIN": "LB-DRAIN",
        "DRAIN n/m": "LB-DRAIN",
        "DRAIN (agent)": "LB-DRAIN",
        "MAINT": "LB-MAINT",
        "MAINT (resolution)": "LB-MAINT",
        "MAINT (via b/s)": "LB-MAINT",
        "no check": "LB-UNCHECKED",
    }
)
"""The column `status` of `show stat`, with `n/m` for the checks that are still wanted for a change,
and `(INI)` where the column `check_status` says that no check has ended yet (HAProxy 1.5 to 3.0)."""

OCTAVIA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ONLINE": "LB-UP",
        "DEGRADED": "LB-DEGRADED",
        "DRAINING": "LB-DRAIN",
        # Octavia tells no reason: whether the member answered badly, or not at all, nobody knows.
        "ERROR": "LB-FAILED",
        "OFFLINE": "LB-MAINT",
        "NO_MONITOR": "LB-UNCHECKED",
    }
)
"""A member's `operating_status` in Octavia's API, version 2."""

PROVISIONING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PENDING_CREATE": "LB-INITIAL",
        "PENDING_DELETE": "LB-MAINT",
        "DELETED": "LB-MAINT",
        # Octavia could not make the balancer what it should be: what is checked is anybody's guess.
        "ERROR": "LB-UNCHECKED",
    }
)
"""Where a member's `provisioning_status` comes before the other, which holds while it is settled."""
_SETTLED: Final = frozenset({"ACTIVE", "PENDING_UPDATE"})

_COUNTS: Final = re.compile(r" \d+/\d+$", re.ASCII)
_VIA: Final = re.compile(r"^MAINT \(via .*\)$")


def haproxy(status: str, check: str, detail: str) -> str:
    """Return the code for HAProxy's columns `status`, `check_status` and `last_chk`.

    A server is UP until its first check has ended, so that UP beside INI is nobody's finding.
    """
    last = check.removeprefix("* ")
    word = "MAINT (via b/s)" if _VIA.match(status) else _COUNTS.sub(" n/m", status)
    if word.startswith("UP") and last == "INI":
        word = "UP (INI)"
    code = HAPROXY.get(word, "LB-ODD")
    return "LB-SILENT" if code == "LB-DOWN" and _is_silence(last, detail) else code


def octavia(operating: str, provisioning: str, *, admin_up: bool) -> str:
    """Return the code for what Octavia says of a member: what is done to it comes before how it is."""
    if not admin_up:
        return "LB-MAINT"
    if provisioning in _SETTLED:
        return OCTAVIA.get(operating, "LB-ODD")
    return PROVISIONING.get(provisioning, "LB-ODD")


def _is_silence(check: str, detail: str) -> bool:
    """Whether nothing at all answered the balancer: it may be the balancer that is cut off.

    L4CON without a word (another check is under way) counts as silence: that makes us more careful.
    """
    return check == "L4TOUT" or (check == "L4CON" and "refused" not in detail.lower())


def combined(codes: Sequence[str]) -> str:
    """Return what several balancers of one pool say together; `codes` is never empty.

    Those that did not answer have no say. A node is down only if all that answer say so; where one
    says down and another up it is in doubt, and where one knows nothing, or somebody has set it
    aside there, nothing is known.
    """
    answered = [code for code in codes if code not in {"LB-TIMEOUT", "LB-ERROR"}]
    if not answered:
        return codes[0]
    by_outcome: dict[Outcome, str] = {}
    for code in answered:
        by_outcome.setdefault(OUTCOMES[code].outcome, code)
    if set(by_outcome) == {Outcome.FAIL}:
        return "LB-DOWN" if "LB-DOWN" in answered else answered[0]
    well = by_outcome.get(Outcome.PASS) or by_outcome.get(Outcome.WARN)
    if well is not None and Outcome.FAIL in by_outcome:
        return "LB-SPLIT"
    return well or by_outcome[Outcome.UNKNOWN]
