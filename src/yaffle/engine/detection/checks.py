"""Runs checks: of one node now with every mode, before and after an act, and of a cluster by a mode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.health.check_codes import AS_IT_IS, OF_HOST, OUTCOMES, judge
from yaffle.core.health.staleness import voting
from yaffle.core.health.verdict import Belief, Vote, vote
from yaffle.core.recovery.objections import Objection
from yaffle.engine.detection.cluster_snapshot import members
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import StoreUnavailable
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import ModeKey
from yaffle.model.policy import Detection, DetectionMode, ModeType
from yaffle.model.timing import SLACK_S, check_s
from yaffle.ports import SupportsClusterCheck

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.operations import Target
    from yaffle.ports import Detector, Whole

log = structlog.get_logger()

STATUS: Final = DetectionMode(
    key=ModeKey("0:NODE_STATUS_POLLING"), type=ModeType.NODE_STATUS_POLLING
)
"""Asked where a policy has no mode that votes (events only, or no policy at all)."""

_BELIEFS: Final = {
    Outcome.PASS: Belief.UP,
    Outcome.WARN: Belief.UP,
    Outcome.FAIL: Belief.DOWN,
    Outcome.UNKNOWN: Belief.UNKNOWN,
}
STATUS_MAX: Final = 255
GONE: Final = frozenset({"ST-GONE", "ST-DOWN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of checking one node by every voting mode."""

    vote: Vote
    observations: tuple[Observation, ...]

    @property
    def detail(self) -> str:
        """Return what each mode reported, in one line."""
        return "; ".join(f"{o.detail}" for o in self.observations)

    @property
    def answer_s(self) -> float:
        """Seconds that the backend took to answer; the node's own latency does not count."""
        took_us = [
            o.took_us
            for o in self.observations
            if not o.mode.endswith(ModeType.NODE_STATUS_POLL_URL)
        ]
        return max(took_us, default=0) / 1e6

    @property
    def failing(self) -> Sequence[Observation]:
        """The observations that fail."""
        return [o for o in self.observations if o.outcome is Outcome.FAIL]

    @property
    def answered(self) -> bool:
        """Whether some answer supports the result; without one the fault may be ours."""
        return any(o.answered for o in self.failing or self.observations)

    @property
    def unasked(self) -> bool:
        """Whether there is no verdict because something could not be asked.

        A connection error that the policy takes for no failure is an answer: nothing was heard.
        """
        unknown = [o for o in self.observations if o.outcome is Outcome.UNKNOWN]
        heard = all(o.code in OUTCOMES and OUTCOMES[o.code].connection_error for o in unknown)
        return self.vote in {Vote.UNKNOWN, Vote.PENDING} and not heard

    @property
    def host_lost(self) -> bool:
        """Whether the backend reports the node's host as lost."""
        return any(o.code.startswith(OF_HOST) for o in self.failing)

    @property
    def left(self) -> Objection:
        """Why the node passes although it does not run: somebody wants it off."""
        codes = {o.code for o in self.observations} & AS_IT_IS
        if self.vote is not Vote.PASS or not codes:
            return Objection.NONE
        return Objection.LOCKED if codes == {"ST-LOCKED"} else Objection.WISHED

    @property
    def backend_status(self) -> str:
        """The backend's own word, if a mode has one."""
        return next((o.backend_status for o in self.observations if o.backend_status), "")

    @property
    def gone(self) -> bool:
        """Whether the backend reports that nothing runs, so that waiting is no use."""
        return any(o.code in GONE for o in self.observations)


def modes_of(detection: Detection) -> tuple[DetectionMode, ...]:
    """Return the modes to ask; never empty."""
    return voting(detection) or (STATUS,)


async def check_now(ctx: EngineContext, target: Target, detection: Detection) -> CheckReport:
    """Check one node by every voting mode now and combine the results; bounded, never raises."""
    modes, interval_s = modes_of(detection), detection.interval_s

    async def whole() -> Sequence[Target]:
        return await cluster_of(ctx, target)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(ask(ctx, [target], mode, interval_s, whole=whole)) for mode in modes
        ]
    seen = tuple(task.result()[0] for task in tasks)
    beliefs = tuple(_BELIEFS[o.outcome] for o in seen)
    return CheckReport(vote=vote(beliefs, detection.conditional), observations=seen)


async def cluster_of(ctx: EngineContext, target: Target) -> Sequence[Target]:
    """Return all watched nodes of the target's cluster, itself as given; empty where unknown."""
    ident = target.cluster_id
    if ident is None:
        return [target]
    try:
        found = await ctx.store.read(lambda conn: members(conn, ident))
    except StoreUnavailable as error:
        log.warning("cannot read the cluster", cluster=ident, error=str(error))
        return ()
    return [target if one.node_id == target.node_id else one for one in found]


async def ask(
    ctx: EngineContext,
    targets: Sequence[Target],
    mode: DetectionMode,
    interval_s: float,
    *,
    whole: Whole,
) -> Sequence[Observation]:
    """Check some nodes of `whole` by one mode; whatever goes wrong on our side is unknown."""
    made = [t for t in targets if t.physical_id]
    answer = await _ask_made(ctx, made, mode, interval_s, whole) if made else ()
    seen = {o.node_id: o for o in answer}
    return [seen.get(t.node_id) or never_made(ctx, [t], mode)[0] for t in targets]


async def poll(
    ctx: EngineContext, targets: Sequence[Target], mode: DetectionMode, detection: Detection
) -> Sequence[Observation]:
    """Check all watched nodes of a cluster by one mode, and confirm failures as the policy says."""

    async def whole() -> Sequence[Target]:
        return targets

    interval_s = detection.interval_s
    seen = await ask(ctx, targets, mode, interval_s, whole=whole) if targets else ()
    if detection.confirm_status:
        seen = await confirmed(ctx, targets, mode, interval_s, seen)
    return seen


async def confirmed(
    ctx: EngineContext,
    targets: Sequence[Target],
    mode: DetectionMode,
    interval_s: float,
    seen: Sequence[Observation],
) -> Sequence[Observation]:
    """Read what failed once more at once: documents ≤ 1.2 have a `fall` of 1 (design/policies)."""
    failed = {o.node_id for o in seen if o.outcome is Outcome.FAIL}
    again = [t for t in targets if t.node_id in failed]

    async def whole() -> Sequence[Target]:
        return targets

    answer = await ask(ctx, again, mode, interval_s, whole=whole) if again else ()
    second = {o.node_id: o for o in answer}
    return [second.get(o.node_id, o) for o in seen]


def never_made(
    ctx: EngineContext, targets: Sequence[Target], mode: DetectionMode
) -> Sequence[Observation]:
    """Return the observations of nodes whose creation failed: no copy was ever made.

    That is a fact and not "could not ask": a URL that lacks the port of a node which never came to
    be would stay unknown for ever, and the node with it.
    """
    return reported(ctx, targets, mode, "ST-GONE", "no copy was ever made: its creation failed")


async def _ask_made(
    ctx: EngineContext,
    targets: Sequence[Target],
    mode: DetectionMode,
    interval_s: float,
    whole: Whole,
) -> Sequence[Observation]:
    detector = ctx.drivers.detectors.get(mode.type)
    budget_s = check_s(mode, interval_s)
    if detector is None:
        return reported(ctx, targets, mode, "X-BUG", f"no detector for {mode.type} is installed")
    answer = await call_driver(
        # Room beyond the check's own time-outs: theirs say what failed, ours only "unknown".
        lambda: _checked(detector, targets, mode, whole, budget_s + SLACK_S / 2),
        Sequence,  # type: ignore[type-abstract]
        within_s=budget_s + SLACK_S,
        what=f"the {mode.type} detector",
    )
    if isinstance(answer, Failure):
        code = "X-DEADLINE" if answer.late else "X-BUG"
        return reported(ctx, targets, mode, code, answer.why)
    seen = [usable(o) for o in answer]
    about = [(o.node_id, o.mode) for o in seen if o is not None]
    if about != [(t.node_id, mode.key) for t in targets]:
        return reported(ctx, targets, mode, "X-BUG", "the detector's answer makes no sense")
    return [o for o in seen if o is not None]


async def _checked(
    detector: Detector,
    targets: Sequence[Target],
    mode: DetectionMode,
    whole: Whole,
    deadline_s: float,
) -> object:
    if isinstance(detector, SupportsClusterCheck):
        return await detector.check_among(targets, mode, whole=whole, deadline_s=deadline_s)
    return await detector.check(targets, mode, deadline_s=deadline_s)


def usable(seen: object) -> Observation | None:
    """Return the observation as rows can keep it; None if it is none, whatever it calls itself."""
    if not isinstance(seen, Observation) or not isinstance(seen.outcome, Outcome):
        return None
    words = (seen.node_id, seen.mode, seen.code, seen.detail, seen.backend_status)
    numbers = (seen.at_us, seen.took_us)
    if not all(isinstance(w, str) for w in words) or not all(isinstance(n, int) for n in numbers):
        return None
    if len(seen.backend_status) <= STATUS_MAX and "\0" not in seen.detail + seen.backend_status:
        return seen
    return replace(
        seen,
        detail=seen.detail.replace("\0", ""),
        backend_status=seen.backend_status.replace("\0", "")[:STATUS_MAX],
    )


def reported(
    ctx: EngineContext, targets: Sequence[Target], mode: DetectionMode, code: str, detail: str
) -> Sequence[Observation]:
    """Return an observation with the same check code for each target, made by us."""
    return [
        Observation(
            node_id=t.node_id,
            mode=mode.key,
            outcome=judge(code),
            code=code,
            detail=detail[:500],
            at_us=ctx.clock.now_us(),
            answered=OUTCOMES[code].answered,
        )
        for t in targets
    ]
