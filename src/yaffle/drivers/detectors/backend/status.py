"""NODE_STATUS_POLLING: asks each node's profile how the node is, many at a time.

Only the profile's word counts here. A failed reading is read again by the engine where the policy
says so (`confirm_status`), not by this detector.

Where the state says what helps (off: START), it is asked who wanted that, where the backend tells:
what a user has switched off is left alone, as by who listens, and of the rest the cheapest cure comes
first. A copy that is gone, or in error, needs no such question.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, cast

from yaffle.core.health.backend_status_codes import Seen, classify, copy_of
from yaffle.core.health.check_codes import judge
from yaffle.integrations.batch_read import Asked, BatchReader, Question, observation
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.tracing import Memo, Tracer, unfound, wished
from yaffle.model.health import Hint, Observation, Outcome
from yaffle.model.operations import Actor, Cause, Reading, Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import Profile, SupportsCauseLookup, SupportsUndo

if TYPE_CHECKING:
    from yaffle.model.ids import NodeId
    from yaffle.ports.detector import Detector

READ_SHARE: Final = 0.85
"""Of the time there is for the reading; the rest is for the causes."""
MEMO_S: Final = 60.0
"""How long a cause is believed of many: nobody would tell us that it has changed."""
MEMOS_MAX: Final = 20_000


class StatusDetector:
    """Detector that reads all nodes of a kind at their backend; what cannot be asked is unknown."""

    type: ClassVar[str] = "NODE_STATUS_POLLING"

    def __init__(self, context: DriverContext) -> None:
        Section(f"drivers.{self.type}", context.settings).finish()
        question = Question(
            read_of=lambda profile: cast("Profile", profile).read,
            classify=classify,
            cannot="cannot be read",
            error="ST-ERROR",
            timeout="ST-TIMEOUT",
            age_us_of=lambda reading: reading.age_us,
        )
        self._asker: BatchReader[Reading] = BatchReader(context, question)
        self._clock = context.clock
        self._profiles = context.profiles
        self._tracer = Tracer(context)
        self._memos: OrderedDict[NodeId, Memo] = OrderedDict()

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order; who asks about one is about to act upon it."""
        until_s = self._clock.monotonic_s() + deadline_s
        kinds = {target.profile_type for target in targets}
        traces = any(isinstance(self._profiles.get(kind), SupportsCauseLookup) for kind in kinds)
        read_s = deadline_s * (READ_SHARE if traces else 1.0)
        asked = await self._asker.ask(targets, deadline_s=read_s)
        fresh = len(targets) == 1
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._caused(profile, target, one, until_s, fresh=fresh))
                if (profile := self._tracing(target, one)) is not None
                else None
                for target, one in zip(targets, asked, strict=True)
            ]
        return [
            self._observed(target, mode, one, one.seen if task is None else task.result())
            for target, one, task in zip(targets, asked, tasks, strict=True)
        ]

    def _observed(
        self, target: Target, mode: DetectionMode, one: Asked[Reading], seen: Seen
    ) -> Observation:
        fails = judge(seen[0]) is Outcome.FAIL and self._curable(target, one)
        event = one.answer.event if one.answer is not None else ""
        return observation(
            target,
            mode,
            seen,
            at_us=one.at_us,
            took_us=one.took_us,
            hint=Hint(event=event, state=seen[2]) if fails else None,
            copy=None if one.answer is None else copy_of(target, one.answer),
        )

    def _curable(self, target: Target, one: Asked[Reading]) -> bool:
        """Whether the state that was read says what helps."""
        profile: object = self._profiles.get(target.profile_type)
        if not isinstance(profile, SupportsUndo) or one.answer is None:
            return False
        return one.answer.event in profile.cures

    def _tracing(self, target: Target, one: Asked[Reading]) -> SupportsCauseLookup | None:
        """Return whom to ask for the cause; None where there is nobody, or nothing to ask."""
        if judge(one.seen[0]) is not Outcome.FAIL or not self._curable(target, one):
            self._memos.pop(target.node_id, None)
            return None
        profile: object = self._profiles.get(target.profile_type)
        return profile if isinstance(profile, SupportsCauseLookup) else None

    async def _caused(
        self,
        profile: SupportsCauseLookup,
        target: Target,
        one: Asked[Reading],
        until_s: float,
        *,
        fresh: bool,
    ) -> Seen:
        """Return what a failure is, by who wanted it; what was told lately is believed of many."""
        began_s = self._clock.monotonic_s()
        reading = None if one.answer is None else replace(one.answer, age_us=0)
        memo = None if fresh else self._memos.get(target.node_id)
        if memo is None or memo.reading != reading or began_s - memo.at_s > MEMO_S:
            answer = await self._tracer.ask(profile, target, until_s)
            if not isinstance(answer, Cause):
                return unfound(one.seen, answer)
            memo = Memo(reading=reading, cause=answer, at_s=began_s)
            self._keep(target.node_id, memo)
        return wished(one.seen, memo.cause)

    def _keep(self, ident: NodeId, memo: Memo) -> None:
        """Keep what somebody is known to have wished, or not; anything else is asked anew."""
        self._memos.pop(ident, None)
        if memo.cause.actor in {Actor.USER, Actor.NOBODY}:
            self._memos[ident] = memo
        while len(self._memos) > MEMOS_MAX:
            self._memos.popitem(last=False)


if TYPE_CHECKING:
    _conforms: type[Detector] = StatusDetector
