"""The catalogue of diagnoses: what is wrong with an unhealthy node, in one sentence, by priority.

A row matches or not and has no side effects; the first that matches names the incident.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.core.health.check_codes import AS_IT_IS, OF_HOST
from yaffle.model.health import Outcome

if TYPE_CHECKING:
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.model.health import Observation
    from yaffle.model.ids import ModeKey


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the catalogue of problems; its code is also the metric label."""

    code: str
    sentence: str
    matches: Callable[[NodeMemory], bool]


def failing(memory: NodeMemory) -> tuple[Observation, ...]:
    """Return the latest failing observations in the order of their modes."""
    return tuple(
        track.last
        for _, track in sorted(memory.tracks.items(), key=lambda item: _place(item[0]))
        if track.last is not None and track.last.outcome is Outcome.FAIL
    )


def _place(mode: ModeKey) -> tuple[int, str]:
    """Return the sort key of a mode: its place in the policy."""
    place = mode.partition(":")[0]
    return (len(place), mode)


def _codes(*codes: str) -> Callable[[NodeMemory], bool]:
    return lambda memory: any(seen.code in codes for seen in failing(memory))


GONE: Final = "ST-GONE"
PROBLEMS: Final[tuple[Problem, ...]] = (
    Problem("marked", "It was marked unhealthy.", lambda m: m.mark is not None),
    Problem("host-down", "The machine under it is lost.", _codes("HV-DOWN", "HV-GONE")),
    Problem("gone", "There is no such copy any more.", _codes(GONE)),
    Problem("frozen", "It exists but is stopped or frozen.", _codes("ST-FROZEN")),
    Problem("stuck", "What its backend does to it moves no more.", _codes("ST-STUCK")),
    Problem("down", "The backend says that it is not running.", _codes("ST-DOWN")),
    Problem("refusing", "It refuses connections.", _codes("L4-REFUSED", "L7-RESET", "L7-CLOSED")),
    Problem("tls", "Its TLS is broken.", _codes("L6-TLS", "L6-CERT", "L6-TIMEOUT")),
    Problem("hanging", "It accepts connections but does not answer.", _codes("L7-TIMEOUT")),
    Problem(
        "silent",
        "Nothing answers at its address.",
        _codes("L4-TIMEOUT", "L4-UNREACH", "L3-DNS"),
    ),
    Problem(
        "out-of-rotation",
        "Its load balancer finds it down.",
        _codes("LB-DOWN", "LB-SILENT", "LB-FAILED"),
    ),
    Problem("failing", "It answers that it is not well.", lambda m: bool(failing(m))),
)

UNEXPLAINED: Final = Problem(
    "unexplained", "Nothing that was seen of it says what is wrong.", lambda _: True
)


def is_gone(memory: NodeMemory) -> bool:
    """Whether the backend reports that the node's copy does not exist any more."""
    return any(seen.code == GONE for seen in failing(memory))


def left_as_it_is(memory: NodeMemory) -> str | None:
    """Say why a node that counts as well does not run; empty where it does, None where nobody tells.

    By what each mode said last; that its host is up says nothing of the node.
    """
    lasts = [track.last for track in memory.tracks.values() if track.last is not None]
    kept = [seen for seen in lasts if seen.code in AS_IT_IS]
    if kept:
        return f"It is left as it is: {kept[0].detail}"
    told = [o for o in lasts if o.outcome is not Outcome.UNKNOWN and not o.code.startswith(OF_HOST)]
    return "" if told else None


def diagnose(memory: NodeMemory) -> Problem:
    """Return the first row of the catalogue that matches."""
    return next((row for row in PROBLEMS if row.matches(memory)), UNEXPLAINED)


def told(reason: str) -> str:
    """Return the sentence of the catalogue that `reason` begins with, as `explain` wrote it; else ""."""
    return next((row.sentence for row in PROBLEMS if reason.startswith(row.sentence)), "")


def standing(memory: NodeMemory, before: str) -> str:
    """Return the sentence that is true of an unhealthy node now; `before` while nothing says another."""
    row = diagnose(memory)
    return before if row is UNEXPLAINED else row.sentence


def explain(memory: NodeMemory) -> str:
    """Return one line: the problem and the observations behind it."""
    row = diagnose(memory)
    said = memory.mark.reason if row.code == "marked" and memory.mark else ""
    details = "; ".join([said] if said else [seen.detail for seen in failing(memory)])
    return f"{row.sentence} {details}".strip()
