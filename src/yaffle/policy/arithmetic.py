"""Worst-case times of a failure, in numbers a person can check before attaching a policy.

An upper bound for a failure that every check sees, of a node past its grace, with nothing held and
nothing queued; guards, budgets, cool-downs and outages of our own come on top, and `yaffle why` tells.

    check   = a URL: attempts × timeout + (attempts - 1) × retry_interval
              a status: 10 s, or the interval where that is shorter, but 2 s at least; twice in 1.0-1.2
              and 1 s for the answer to arrive
    detect  = the slowest mode: fall × (interval × 1.1, or longer where a check takes longer) + check
    look    = the slowest check, once
    prepare = 5 s to decide, evidence, snapshot,
              and before each action, and after evidence or a snapshot,
              4 s + 3 × (look + 1 s) to look again
    fence   = per action that may make a second copy: 34 s if the policy names fencing,
              and for RECREATE node_delete_timeout + 4 s
    recover = per action: timeout + 4 s + rise × (look + 1 s), less where the interval is below 2 s
    total   = detect + prepare + fence + recover

The 4 s let the last call to a driver end. That the engine keeps these bounds is simulated
(tests/sim_long/test_bound.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from yaffle.model.policy import (
    Conditional,
    Detection,
    DetectionMode,
    HealthPolicy,
    ModeType,
    Recovery,
    RecoveryAction,
    RungKind,
)
from yaffle.model.timing import (
    ADOPT_S,
    DECIDE_S,
    JITTER,
    LOOK_PAUSE_S,
    LOOK_TRIES,
    OVERRUN_S,
    SLACK_S,
    check_s,
    fence_s,
    status_check_s,
    verify_pace_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTime:
    """The worst case of one mode."""

    key: str
    detect_s: float | None
    """None: not bounded, because an event that never comes is never seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Worst-case times of one policy, in seconds."""

    conditional: Conditional
    modes: tuple[ModeTime, ...]
    detect_s: float | None
    """For a failure that only the slowest mode sees (ANY_FAILED) or that all must see (ALL_FAILED)."""
    detect_seen_by_all_s: float | None
    """ANY_FAILED: the fastest mode decides when all see the failure."""
    grace_s: float
    look_s: float
    """Of `prepare_s`: looking again before one action."""
    prepare_s: float
    fence_s: float
    recover_s: float
    fall: int
    """How many failed looks in a row make a node unhealthy."""
    confirmed: bool
    """Whether a failed look at the status is repeated at once before it counts."""

    @property
    def total_s(self) -> float | None:
        """The time from failure to the end of the last rung (s); None where detection has no bound."""
        if self.detect_s is None:
            return None
        return self.detect_s + self.prepare_s + self.fence_s + self.recover_s

    def lines(self) -> tuple[str, ...]:
        """Return the arithmetic for people, the sum first."""
        by_mode = ", ".join(f"{mode.key} {_shown(mode.detect_s)}" for mode in self.modes)
        by_all = f"{_shown(self.detect_seen_by_all_s)} when every mode sees the failure"
        looking = f"looking again before each action, {_shown(self.look_s)}"
        return (
            self._sum(),
            f"detect <= {_shown(self.detect_s)} ({self.conditional}: {by_mode}; {by_all})",
            self._fall(),
            f"prepare <= {_shown(self.prepare_s)} ({_shown(DECIDE_S)} to decide; {looking})",
            f"fence <= {_shown(self.fence_s)}, recover <= {_shown(self.recover_s)}",
            f"a new or changed node is left alone for up to {_shown(self.grace_s)} first",
            "guards, budgets, further attempts and our own outages come on top: `yaffle why NODE` tells",
        )

    def _fall(self) -> str:
        looks = (
            "1 failed look makes" if self.fall == 1 else f"{self.fall} failed looks in a row make"
        )
        again = "; one at the status is repeated at once before it counts" if self.confirmed else ""
        return f"fall {self.fall}: {looks} a node unhealthy{again}"

    def _sum(self) -> str:
        parts = "detect + prepare + fence + recover"
        if self.total_s is None:
            return f"{parts}: not bounded, because an event that never comes is never seen"
        return f"{parts} <= {_shown(self.total_s)}"

    def as_json(self) -> dict[str, object]:
        """Return the numbers under the names of the fields."""
        return {
            "conditional": self.conditional.value,
            "modes": [{"key": mode.key, "detect_s": mode.detect_s} for mode in self.modes],
            "detect_s": self.detect_s,
            "detect_seen_by_all_s": self.detect_seen_by_all_s,
            "grace_s": self.grace_s,
            "look_s": self.look_s,
            "prepare_s": self.prepare_s,
            "fence_s": self.fence_s,
            "recover_s": self.recover_s,
            "total_s": self.total_s,
            "fall": self.fall,
            "confirmed": self.confirmed,
        }


def arithmetic(policy: HealthPolicy) -> Arithmetic:
    """Return the worst-case times of `policy`."""
    detection, recovery = policy.detection, policy.recovery
    modes = tuple(
        ModeTime(key=mode.key, detect_s=detect_s(mode, detection)) for mode in detection.modes
    )
    # Events never vote (design/failure#health): beside polling they can only make detection faster.
    bounds = [mode.detect_s for mode in modes if mode.detect_s is not None]
    slowest = max(bounds, default=None)
    fastest = min(bounds, default=None)
    return Arithmetic(
        conditional=detection.conditional,
        modes=modes,
        detect_s=slowest,
        detect_seen_by_all_s=fastest
        if detection.conditional is Conditional.ANY_FAILED
        else slowest,
        grace_s=detection.node_update_timeout_s,
        look_s=look_again_s(detection),
        prepare_s=_prepare_s(detection, recovery),
        fence_s=sum(_fence_s(action, recovery) for action in recovery.actions),
        recover_s=sum(_act_s(action, detection) for action in recovery.actions),
        fall=detection.fall,
        confirmed=detection.confirm_status,
    )


def detect_s(mode: DetectionMode, detection: Detection) -> float | None:
    """Return how long one mode takes to count `fall` fails; None for events."""
    if mode.type is ModeType.LIFECYCLE_EVENTS:
        return None
    interval_s = detection.interval_s
    once_s = check_s(mode, interval_s)
    # The prober keeps to its grid: a round that is still going on when the next is due skips that.
    rounds = math.ceil(once_s / interval_s + JITTER) if mode.url is not None else 1
    asked_s = once_s + SLACK_S
    if detection.confirm_status and mode.url is None:
        asked_s *= 2
    pace_s = max(rounds * interval_s * (1 + JITTER), asked_s + interval_s * JITTER)
    return round(detection.fall * pace_s + asked_s, 3)


def _one_look_s(detection: Detection) -> float:
    """Return the time of one look (s): all modes are asked at once; where none votes, the status is."""
    checks = [
        check_s(mode, detection.interval_s)
        for mode in detection.modes
        if mode.type is not ModeType.LIFECYCLE_EVENTS
    ]
    return max(checks, default=status_check_s(detection.interval_s)) + SLACK_S


def look_again_s(detection: Detection) -> float:
    """Return how long it takes to look again before one action."""
    return ADOPT_S + LOOK_TRIES * (_one_look_s(detection) + LOOK_PAUSE_S)


def _prepare_s(detection: Detection, recovery: Recovery) -> float:
    evidence, snapshot = recovery.evidence, recovery.snapshot
    evidence_s = evidence.timeout_s if evidence is not None and evidence.console_log else 0.0
    snapshot_s = snapshot.timeout_s if snapshot is not None and snapshot.take else 0.0
    # What takes its time before an act makes the look before that an old one; at most once a rung.
    rungs = len(recovery.actions)
    looks = rungs + min(rungs, (evidence_s > 0) + (snapshot_s > 0))
    return DECIDE_S + looks * look_again_s(detection) + evidence_s + snapshot_s


def _fence_s(action: RecoveryAction, recovery: Recovery) -> float:
    """Return how long it takes to make sure, before `action`, that the copy there is dead."""
    # Whether a workflow is in place is the operator's word, which a document cannot know.
    if action.in_place and action.kind is RungKind.BUILTIN:
        return 0.0
    longest_s = fence_s(len(recovery.fencing)) + OVERRUN_S if recovery.fencing else 0.0
    if action.kind is not RungKind.BUILTIN or action.name != "RECREATE":
        return longest_s
    return longest_s + max(recovery.node_delete_timeout_s, ADOPT_S) + OVERRUN_S


def _act_s(action: RecoveryAction, detection: Detection) -> float:
    """Return how long act and verification take: one timeout for both, and `rise` looks at least."""
    looks_s = _one_look_s(detection) + verify_pace_s(detection.interval_s)
    return action.timeout_s + OVERRUN_S + detection.rise * looks_s


def _shown(seconds: float | None) -> str:
    return "no bound" if seconds is None else f"{round(seconds, 1):g} s"
