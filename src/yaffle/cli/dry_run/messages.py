"""Messages of a watch, as values and as sentences: pure, the same live and in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from yaffle.cli import durations
from yaffle.core.decision_audit.schema import RECORD, Unreadable, unpack
from yaffle.engine.explain import holds
from yaffle.model.health import Outcome
from yaffle.model.incident import HoldReason
from yaffle.model.policy import Recovery, RecoveryAction

ACTION: Final = "WATCH"
"""Of the events that a watch leaves; their status is the kind."""
_INDENT: Final = " " * 21


class Kind(StrEnum):
    """The subject of a line."""

    BEGAN = "began"
    WOULD = "would"
    """Yaffle would have acted."""
    HELD = "held"
    """Yaffle would not have acted although the server failed."""
    WISH = "wish"
    """Somebody wanted it so: no failure."""
    OVER = "over"
    """It runs again, or failed no more, without Yaffle."""
    LEFT = "left"
    """A failure that is judged no more: somebody wants it so, or nothing watches it."""
    ARRIVED = "arrived"
    GONE = "gone"
    """Watched no more."""
    AWAY = "away"
    BACK = "back"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the report."""

    kind: Kind
    text: str
    """The first line, the time apart."""
    more: tuple[tuple[str, str], ...] = ()
    """Word and sentence of the lines below."""
    data: Mapping[str, object] = field(default_factory=dict)

    def shown(self, at_us: int) -> str:
        """Return it for people."""
        head = f"{stamp(at_us)}  {self.text}"
        return "\n".join([head, *(f"{_INDENT}{word:<9} {said}" for word, said in self.more)])

    def as_json(self, at_us: int) -> dict[str, object]:
        """Return it for programs."""
        more: dict[str, str] = {}
        for word, said in self.more:
            key = word.replace(" ", "_")
            more[key] = f"{more[key]}; {said}" if key in more else said
        head = {"at": iso(at_us), "kind": self.kind.value, "text": self.text}
        return {**head, **self.data, "more": more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A node that was judged, with what is known of it."""

    node: str
    cluster: str
    word: str
    """The backend's."""
    looks: int
    """How many failed in a row; 0 where that was not kept."""
    since_us: int | None
    problem: str


def looks_of(inputs: Mapping[str, object]) -> int:
    """Return how many looks in a row had failed when this was decided."""
    try:
        heard = unpack(inputs.get(RECORD)).believed.heard
    except Unreadable:
        return 0
    failed = [h for h in heard if h.last is not None and h.last.outcome is Outcome.FAIL]
    return max((h.fails for h in failed), default=0)


def would(failing: Failing, recovery: Recovery, at_us: int) -> Line:
    """Tell what would have been done."""
    rungs = recovery.actions
    first, rest = rung(rungs[0]), ", then ".join(map(rung, rungs[1:]))
    after = f"; had that not helped: {rest}" if rest else ""
    return Line(
        kind=Kind.WOULD,
        text=f"{_head(failing, at_us)}: Yaffle would have tried {first}{after}",
        more=(("because", failing.problem), ("fence", fence(recovery)), ("held by", OBSERVED)),
        data={
            "group": failing.cluster,
            "looks": failing.looks,
            "operation": rungs[0].name,
            "ladder": list(map(rung, rungs)),
        },
    )


def calm(found: Sequence[tuple[Line, int]]) -> list[tuple[Line, int]]:
    """Return what to print of many lines at once: of many alike the first, and how many more.

    All of them are kept, and --report counts them.
    """
    alike: dict[tuple[object, ...], list[tuple[Line, int]]] = {}
    for line, at_us in found:
        key = (
            line.kind,
            line.data.get("group"),
            line.data.get("operation", line.data.get("reason")),
        )
        alike.setdefault(key, []).append((line, at_us))
    shown: list[tuple[Line, int]] = []
    for (kind, group, _), some in alike.items():
        if len(some) <= MANY:
            shown += some
            continue
        line, at_us = some[0]
        where = f" in {group}" if group else ""
        more = Line(
            kind=Kind(str(kind)), text=f"… and {len(some) - 1} more like it{where}, at once"
        )
        shown += [(line, at_us), (more, some[-1][1])]
    return shown


MANY: Final = 5
"""So many lines alike are printed one by one."""
OBSERVED: Final = "this watch, which only looks; no limit stood against it"


def held(failing: Failing, reason: HoldReason, numbers: Mapping[str, object], at_us: int) -> Line:
    """Tell why nothing would have been done."""
    return Line(
        kind=Kind.HELD,
        text=f"{_head(failing, at_us)}: Yaffle would have left it alone for now",
        more=(
            ("because", failing.problem),
            ("held by", f"{reason.value}: {holds.sentence(reason, numbers)}"),
        ),
        data={
            "group": failing.cluster,
            "looks": failing.looks,
            "reason": reason.value,
            "numbers": dict(numbers),
        },
    )


def fence(recovery: Recovery) -> str:
    """Say before which actions what would have to be proved."""
    rungs = recovery.actions
    inside = [action.name for action in rungs if action.in_place]
    outside = [action.name for action in rungs if not action.in_place]
    parts = [f"none before {_and(inside)}, which cannot make a second copy"] if inside else []
    if outside and recovery.fencing:
        methods = _and([kind.value for kind in recovery.fencing])
        parts.append(f"{methods} before {_and(outside)}, and proof that the old copy has ended")
    elif outside:
        waived = recovery.node_force_recreate
        proof = "no proof, by the policy's consent" if waived else "proof that the old copy is gone"
        parts.append(f"none is set up; {proof} before {_and(outside)}")
    return "; ".join(parts)


def _head(failing: Failing, at_us: int) -> str:
    word = failing.word or "failing"
    times = {0: "", 1: " for 1 look"}.get(failing.looks, f" for {failing.looks} looks")
    ago = ""
    if failing.since_us is not None:
        lasted = durations.shown(max(0.0, (at_us - failing.since_us) / 1e6))
        ago = f", {lasted} since the first"
    return f"{failing.node} ({failing.cluster}) has been {word}{times}{ago}"


def rung(action: RecoveryAction) -> str:
    """Return one action with its parameters."""
    params = ", ".join(f"{key} {value}" for key, value in action.params.items())
    return f"{action.name} ({params})" if params else action.name


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def stamp(us: int) -> str:
    """Return a time as people here read it, to the second."""
    return datetime.fromtimestamp(us / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso(us: int | None) -> str | None:
    """Return a time for programs."""
    if us is None:
        return None
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat(timespec="milliseconds")
