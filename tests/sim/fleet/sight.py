"""The rules of looking: nothing is healed for what was not seen, seen long ago, or seen by nobody.

Computed from the looks that were overheard at the detectors, not from what the engine remembers. In
doubt (an answer that came at the very moment of the decision) the engine is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.fleet.looks import Look, is_down

from yaffle.core.health.staleness import voting
from yaffle.model.health import Outcome
from yaffle.model.policy import Conditional
from yaffle.model.timing import JITTER, SLACK_S, check_s

if TYPE_CHECKING:
    from tests.sim.fleet.fleet import Fleet, Life

    from yaffle.model.policy import DetectionMode, HealthPolicy

MARGIN_S = 1.0
WAKES_S = 1.5
"""A process that goes on, or whose clock jumped, has noticed it by then."""
MANY = 2
"""So many have to be silent before it may be the one who asks."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One recovery that was admitted of its holder's own accord."""

    what: str
    life: Life
    node_id: str
    cluster_id: str
    policy: HealthPolicy
    asked_s: float
    """When the transaction was asked for; what was seen since may not have counted."""
    claimed_s: float

    @property
    def modes(self) -> tuple[DetectionMode, ...]:
        return voting(self.policy.detection)

    def looks(self, node_id: str, mode: DetectionMode) -> Sequence[Look]:
        """Return what the holder saw of a node until it asked."""
        return [k for k in self.life.looks[node_id, mode.key] if k.ended_s <= self.asked_s]

    @property
    def bound_s(self) -> float:
        """How long ago, at most, the last look of every mode is over."""
        interval_s = self.policy.detection.interval_s
        checks_s = max(check_s(m, interval_s) for m in self.modes)
        return interval_s * (1 + JITTER) + 2 * (checks_s + SLACK_S) + MARGIN_S


def judge(fleet: Fleet, asked: Asked) -> None:
    """Fail if the holder had not seen enough for it."""
    detection = asked.policy.detection
    missed_s = _missed_s(fleet, asked)

    def fell(mode: DetectionMode, until_s: float) -> bool:
        every = asked.life.looks[asked.node_id, mode.key]
        # A look that was under way when something was missed is counted by when it ended.
        looks = [k for k in every if missed_s <= k.ended_s <= until_s]
        return is_down(looks, detection, asked.claimed_s)

    down = [m for m in asked.modes if fell(m, asked.asked_s)]
    late = [m for m in asked.modes if fell(m, fleet.now_s)]
    need = 1 if detection.conditional is Conditional.ANY_FAILED else len(asked.modes)
    if max(len(down), len(late)) < need:
        fleet.referee.fail(
            f"{asked.what} before {detection.fall} fresh looks had failed"
            f" (since {max(missed_s, asked.claimed_s):.3f})"
        )
    if len(down) >= need:
        _not_blind(fleet, asked, down)
    _past_grace(fleet, asked)


def _missed_s(fleet: Fleet, asked: Asked) -> float:
    """Return since when the holder has missed nothing: what it saw before counts no more."""
    life = asked.life
    lost_s = life.lost_s.get(asked.cluster_id, -1.0)
    if fleet.stalled or asked.asked_s - life.missed_s < WAKES_S:
        return lost_s
    return max(lost_s, life.missed_s)


def _past_grace(fleet: Fleet, asked: Asked) -> None:
    """A new life is left alone until it was well once, or its time is over."""
    born_s = fleet.ledger.born_s.get(asked.node_id)
    if born_s is None or fleet.fooled:
        return
    age_s = fleet.now_s - born_s
    if age_s > asked.policy.detection.node_update_timeout_s - MARGIN_S:
        return
    seen = (
        k
        for life in fleet.lives
        for m in asked.modes
        for k in life.looks[asked.node_id, m.key]
        if k.ended_s >= born_s
    )
    if not any(k.outcome in {Outcome.PASS, Outcome.WARN} for k in seen):
        fleet.referee.fail(f"{asked.what} in its grace, {age_s:.1f} s after it was made")


# --- is it the engine? ---------------------------------------------------------------------------


def _not_blind(fleet: Fleet, asked: Asked, down: Sequence[DetectionMode]) -> None:
    """A failure that silence alone bears out counts only where somebody answered by that road."""
    if asked.asked_s - asked.life.upset_s < 2 * asked.bound_s:
        return  # what it remembers of the others may have been emptied meanwhile
    fall = asked.policy.detection.fall
    against = [k for m in down for k in asked.looks(asked.node_id, m)[-fall - 2 :]]
    if any(k.answered for k in against):
        return
    silent = [_silence(fleet, asked, m) for m in down]
    if all(silent):
        fleet.referee.fail(f"{asked.what}, to whom nobody answers: {'; '.join(silent)}")


def _silence(fleet: Fleet, asked: Asked, mode: DetectionMode) -> str:
    """Return how many were asked in vain by this road of late; empty where it proves nothing."""
    rows = fleet.base.rows("select id from nodes where cluster_id = ?", asked.cluster_id)
    if len(rows) > 1:
        start_s = asked.asked_s - asked.bound_s
        return _unheard(asked, {asked.cluster_id: [r.id for r in rows]}, mode, start_s, fleet)
    failed = [k.ended_s for k in _run(asked.looks(asked.node_id, mode))]
    every: dict[str, list[str]] = {}
    for row in fleet.base.rows("select id, cluster_id from nodes"):
        if row.cluster_id in asked.life.engine.watches:
            every.setdefault(row.cluster_id, []).append(row.id)
    start_s = min([asked.asked_s - asked.bound_s, *failed])
    return _unheard(asked, every, mode, start_s, fleet)


def _run(looks: Sequence[Look]) -> Iterable[Look]:
    """Yield the looks since the last that passed."""
    for look in reversed(looks):
        if look.outcome in {Outcome.PASS, Outcome.WARN}:
            return
        yield look


def _unheard(
    asked: Asked,
    nodes: dict[str, list[str]],
    mode: DetectionMode,
    start_s: float,
    fleet: Fleet,
) -> str:
    count = 0
    for cluster_id, idents in nodes.items():
        modes = [
            m for m in voting(fleet.referee.policy(cluster_id).detection) if m.type == mode.type
        ]
        for ident in idents:
            every = [k for m in modes for k in asked.life.looks[ident, m.key]]
            looks = [k for k in every if k.ended_s >= start_s - MARGIN_S]
            if any(k.answered for k in looks):
                return ""
            # One that began anew since was asked for another life, and that is forgotten.
            anew = fleet.ledger.born_s.get(ident, -1.0) >= start_s - MARGIN_S
            before_s = asked.asked_s - WAKES_S
            count += not anew and any(start_s <= k.ended_s <= before_s for k in looks)
    return f"{count} nodes by {mode.type.value}" if count >= MANY else ""
