"""How long a failure may take, worst case, in numbers a person can check before attaching a policy.

An upper bound for a failure that every check sees, of a node past its grace, with nothing held and
nothing queued; brakes, budgets and cool-downs come on top and are told by `yaffle why`.

    detect  = the slowest mode: fall × interval × 1.1 + one check with all its attempts,
              (attempts - 1) × (timeout + retry_interval) + timeout
    prepare = evidence, snapshot
    fence   = per rung that may make a second copy: 30 s per fencer, or node_delete_timeout
    recover = every rung runs into its timeout
    total   = detect + prepare + fence + recover
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from yaffle.model.policy import (
    Conditional,
    Detection,
    DetectionMode,
    HealthPolicy,
    ModeType,
    Recovery,
    UrlOptions,
)

JITTER: Final = 0.10
"""Share by which an interval may come late."""
STATUS_CHECK_S: Final = 10.0
"""Longest that one question to a backend takes; shorter where the interval is."""
FENCE_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTime:
    """One mode's worst case."""

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
    prepare_s: float
    fence_s: float
    recover_s: float

    @property
    def total_s(self) -> float | None:
        """From the failure to the end of the last rung; None where detection is not bounded."""
        if self.detect_s is None:
            return None
        return self.detect_s + self.prepare_s + self.fence_s + self.recover_s

    def lines(self) -> tuple[str, ...]:
        """Return the arithmetic for people, the sum first."""
        by_mode = ", ".join(f"{mode.key} {_shown(mode.detect_s)}" for mode in self.modes)
        by_all = f"{_shown(self.detect_seen_by_all_s)} when every mode sees the failure"
        times = (("fence", self.fence_s), ("recover", self.recover_s), ("prepare", self.prepare_s))
        return (
            self._sum(),
            f"detect <= {_shown(self.detect_s)} ({self.conditional}: {by_mode}; {by_all})",
            ", ".join(f"{name} <= {_shown(time_s)}" for name, time_s in times),
            f"a new or changed node is left alone for up to {_shown(self.grace_s)} first",
            "brakes, budgets and cool-downs come on top: `yaffle why NODE` tells",
        )

    def _sum(self) -> str:
        parts = (
            "detect + prepare + fence + recover" if self.prepare_s else "detect + fence + recover"
        )
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
            "prepare_s": self.prepare_s,
            "fence_s": self.fence_s,
            "recover_s": self.recover_s,
            "total_s": self.total_s,
        }


def arithmetic(policy: HealthPolicy) -> Arithmetic:
    """Return the worst-case times of `policy`."""
    detection, recovery = policy.detection, policy.recovery
    modes = tuple(
        ModeTime(key=mode.key, detect_s=detect_s(mode, detection)) for mode in detection.modes
    )
    # Events never vote (DESIGN §1.2): beside a polling mode they can only make detection faster.
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
        prepare_s=_prepare_s(recovery),
        fence_s=_fence_s(recovery),
        recover_s=sum(action.timeout_s for action in recovery.actions),
    )


def detect_s(mode: DetectionMode, detection: Detection) -> float | None:
    """Return how long one mode takes to count `fall` fails; None for events."""
    if mode.type is ModeType.LIFECYCLE_EVENTS:
        return None
    pace = detection.fall * detection.interval_s * (1 + JITTER)
    if mode.url is not None:
        return round(pace + url_check_s(mode.url), 3)
    check = min(STATUS_CHECK_S, detection.interval_s)
    return round(pace + (2 * check if detection.confirm_status else check), 3)


def url_check_s(url: UrlOptions) -> float:
    """Return how long one check of a URL takes, all its attempts included."""
    return (url.retry_limit - 1) * (url.timeout_s + url.retry_interval_s) + url.timeout_s


def _prepare_s(recovery: Recovery) -> float:
    evidence = recovery.evidence.timeout_s if recovery.evidence is not None else 0.0
    snapshot = recovery.snapshot
    return evidence + (snapshot.timeout_s if snapshot is not None and snapshot.take else 0.0)


def _fence_s(recovery: Recovery) -> float:
    # A rung that failed may have left a copy behind, so each further one fences again.
    rungs = sum(1 for action in recovery.actions if not action.in_place)
    fencers = len(recovery.fencing)
    once = FENCE_TIMEOUT_S * fencers if fencers else recovery.node_delete_timeout_s
    return rungs * once


def _shown(seconds: float | None) -> str:
    return "no bound" if seconds is None else f"{round(seconds, 1):g} s"
