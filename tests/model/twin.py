"""A dumb twin of the core: the same promises, computed the slow way from a diary of what happened.

Nothing here imports a function of the core. Counts are regular expressions over the diary's letters,
thresholds are fractions, guards are sentences of design/failure#guards read one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.model.health import Health
from yaffle.model.incident import HoldReason, PauseKind, PauseScope
from yaffle.model.policy import Conditional, Detection, RecoveryMode, WhenExceeded

SECOND = 1_000_000
R = HoldReason

LIFTED_BY_A_PERSON = {R.NEEDS_HUMAN, R.COOLING_DOWN, R.STORM, R.DOMAIN_STORM, R.OBSERVE_MODE}
ORDER = [
    R.STOPPED,
    R.MAINTENANCE,
    R.DEPENDENCY_LOST,
    R.BLIND,
    R.NODE_BUSY,
    R.RESETTLING,
    R.NEEDS_HUMAN,
    R.COOLING_DOWN,
    R.STORM,
    R.DOMAIN_STORM,
    R.IN_FLIGHT,
    R.OBSERVE_MODE,
]


@dataclass(slots=True)
class Diary:
    """What one mode was told about one node, as letters: `p`, `f`, `u`, `F` authoritative, ` ` a hole."""

    letters: str = ""
    last_us: int | None = None
    answered: bool = False

    def hole(self, now_us: int, stale_us: int) -> None:
        """Note that the last answer is too old, or of the future, to count any longer."""
        if self.last_us is not None and abs(now_us - self.last_us) > stale_us:
            self.letters, self.last_us, self.answered = " ", None, False

    def write(self, letter: str, at_us: int, now_us: int, stale_us: int, *, answered: bool) -> None:
        if self.last_us is not None and at_us < self.last_us <= now_us + stale_us:
            return  # overtaken
        self.hole(at_us, stale_us)
        self.letters += letter
        self.last_us, self.answered = at_us, answered

    def fallen(self, detection: Detection) -> bool:
        """Whether `fall` failures stand in the diary and nothing after them says otherwise."""
        few = f"u{{0,{detection.fall - 1}}}"
        risen = f"p(?:{few}p){{{detection.rise - 1}}}"
        acquitted = re.compile(f"u{{{detection.fall}}}|{risen}")
        rest = acquitted.split(self.letters)[-1]
        return re.search(f"F|f(?:{few}f){{{detection.fall - 1}}}", rest) is not None

    def has_risen(self, detection: Detection) -> bool:
        few = f"u{{0,{detection.fall - 1}}}"
        return re.search(f"p(?:{few}p){{{detection.rise - 1}}}", self.letters) is not None


@dataclass(slots=True)
class Life:
    """What the twin remembers of one node."""

    diaries: dict[str, Diary] = field(default_factory=dict)
    born_us: int | None = None
    """When the present grace began, if it may still last."""
    tries: int = 0

    def forget(self, modes: list[str]) -> None:
        self.diaries = {mode: Diary() for mode in modes}

    def condemned(self, detection: Detection) -> bool:
        fallen = [d.fallen(detection) for d in self.diaries.values()]
        return any(fallen) if detection.conditional is Conditional.ANY_FAILED else all(fallen)

    def surely_in_grace(self, detection: Detection, now_us: int) -> bool:
        """Whether grace protects the node; an early end is believed wherever it might have come."""
        if (
            self.born_us is None
            or now_us - self.born_us >= detection.node_update_timeout_s * SECOND
        ):
            return False
        risen = [d.has_risen(detection) for d in self.diaries.values()]
        return not (detection.grace_ends_early and any(risen))


def paused(view: ClusterView, node: NodeView, kind: PauseKind, now_us: int) -> bool:
    for pause in view.pauses:
        begun = pause.starts_us <= now_us
        over = pause.expires_us is not None and pause.expires_us <= now_us
        where = {
            PauseScope.ALL: True,
            PauseScope.CLUSTER: pause.target_id == view.cluster_id,
            PauseScope.NODE: pause.target_id == node.node_id,
        }[pause.scope]
        if pause.kind is kind and begun and not over and where:
            return True
    return False


def too_many(sick: int, of: int, view: ClusterView) -> bool:
    """More than the count or the share of the policy, and more than one."""
    limit = view.recovery.limits.max_unhealthy
    if sick <= 1:
        return False
    if limit.count is not None:
        return sick > limit.count
    # sick > ceil(share) for a whole number is sick - 1 >= share.
    return Fraction(sick - 1) >= Fraction(str(limit.percent)) / 100 * of


def in_trouble(view: ClusterView, started: set[str], now_us: int) -> list[NodeView]:
    """Nodes that are sick, doubted or in recovery, and are not in maintenance."""
    return [
        n
        for n in view.nodes
        if not paused(view, n, PauseKind.MAINTENANCE, now_us)
        and (n.recovering or n.node_id in started or n.health in {Health.UNHEALTHY, Health.SUSPECT})
    ]


def blind(lives: dict[str, Life], references: tuple[bool, ...]) -> bool:
    asked = [
        [d.answered for d in life.diaries.values() if d.last_us is not None]
        for life in lives.values()
    ]
    asked = [answers for answers in asked if answers]
    # A failing reference target is one of the two.
    targets = len(asked) + len(references) if asked else 0
    return targets >= 2 and not any(map(any, asked)) and not any(references)


def reasons(
    view: ClusterView,
    node: NodeView,
    started: set[str],
    *,
    is_blind: bool,
    now_us: int,
) -> list[HoldReason]:
    """Return every reason to leave the node alone, given those that this pass has started."""
    limits, retry = view.recovery.limits, view.recovery.retry
    busy_ones = sum(n.recovering or n.node_id in started for n in view.nodes)
    lenient = limits.when_exceeded is WhenExceeded.SLOW and busy_ones == 0
    released = view.released_until_us is not None and now_us < view.released_until_us
    trouble = in_trouble(view, started, now_us)
    members = [
        n
        for n in view.nodes
        if n.domain == node.domain and not paused(view, n, PauseKind.MAINTENANCE, now_us)
    ]
    near = [n for n in trouble if n.domain == node.domain]
    rest_us = (node.retry.next_us or 0) - now_us
    found = {
        R.STOPPED: paused(view, node, PauseKind.STOP, now_us),
        R.MAINTENANCE: paused(view, node, PauseKind.MAINTENANCE, now_us),
        R.DEPENDENCY_LOST: bool(view.lost),
        R.BLIND: is_blind,
        R.NODE_BUSY: bool(node.busy),
        R.RESETTLING: not node.settled and not node.marked,
        R.NEEDS_HUMAN: node.retry.exhausted_us is not None or node.retry.attempts >= retry.attempts,
        R.COOLING_DOWN: 0 < rest_us <= retry.max_backoff_s * SECOND,
        R.STORM: not released
        and not lenient
        and too_many(len(trouble), view.desired_capacity, view),
        R.DOMAIN_STORM: not released
        and not lenient
        and limits.domain is not None
        and bool(node.domain)
        and too_many(len(near), len(members), view),
        R.OBSERVE_MODE: view.recovery.mode is RecoveryMode.OBSERVE,
        R.IN_FLIGHT: busy_ones >= limits.max_in_flight,
    }
    return [reason for reason in ORDER if found[reason]]


def lifted(node: NodeView, reason: HoldReason) -> bool:
    """Whether the request of a person, if there is one, lifts this reason."""
    if not node.requested_by:
        return False
    unjudged = reason is R.RESETTLING and node.health is not Health.UNHEALTHY
    return reason in LIFTED_BY_A_PERSON or unjudged
