"""Asks profiles how nodes are and, of those that do not run, who wanted that.

Seed 1 heals a server "stopped accidentally"; one that a user has stopped is none. So a failure of a
node whose backend keeps a record of requests stands only after that record was looked at; what
could not be looked at in time is unknown. A reading is worth the call, its cause is a call of its
own for each node: these are bounded, and the answer is kept for as long as nothing has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from yaffle.core.health.backend_status_codes import Seen, classify, copy_of
from yaffle.core.health.check_codes import judge
from yaffle.drivers.detectors.lifecycle.messages import Heard
from yaffle.integrations.batch_read import Asked, BatchReader, Question, observation
from yaffle.integrations.tracing import Memo, Tracer, unfound, wished
from yaffle.model.health import Hint, Observation, Outcome
from yaffle.model.operations import Cause, Reading, Target
from yaffle.model.policy import DetectionMode
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import Profile, SupportsCauseLookup

READ_SHARE: Final = 0.7
"""Of the time there is for the reading; the rest is for the causes."""
_GONE_WORDS: Final = frozenset({"DELETE", "SOFT_DELETE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one target came to."""

    seen: Seen
    at_us: int
    took_us: int
    reading: Reading | None
    memo: Memo | None = None
    """The cause, where one was asked for or remembered."""

    @property
    def outcome(self) -> Outcome:
        """What the row means."""
        return judge(self.seen[0])

    def as_observation(
        self, target: Target, mode: DetectionMode, heard: Heard | None
    ) -> Observation:
        """Return the observation; `heard` is why it was asked for, None where nothing was heard."""
        return observation(
            target,
            mode,
            self.seen,
            at_us=self.at_us,
            took_us=self.took_us,
            authoritative=heard is not None,
            hint=self._hint(heard) if self.outcome is Outcome.FAIL else None,
            copy=None if self.reading is None else copy_of(target, self.reading),
        )

    def _hint(self, heard: Heard | None) -> Hint | None:
        """Return what happened by the reading's word, else by the event's where it fits the reading."""
        read = self.reading.event if self.reading is not None else ""
        word = heard.word if heard is not None else ""
        if self.seen[0] == "ST-GONE" and word not in _GONE_WORDS:
            word = ""  # it was powered off, and then it went: nothing starts it again
        if not (read or word):
            return None
        if heard is None:
            return Hint(event=read or word, state=self.seen[2])
        return Hint(
            event=read or word, state=heard.state or self.seen[2], publisher=heard.publisher
        )


class Reader:
    """Reads many targets at once; never raises, and never takes longer than it was told."""

    def __init__(self, context: DriverContext) -> None:
        self._clock = context.clock
        self._profiles = context.profiles
        self._tracer = Tracer(context)
        question = Question(
            read_of=lambda profile: cast("Profile", profile).read,
            classify=classify,
            cannot="cannot be read",
            error="ST-ERROR",
            timeout="ST-TIMEOUT",
            age_us_of=lambda reading: reading.age_us,
        )
        self._asker: BatchReader[Reading] = BatchReader(context, question)

    async def read(
        self,
        targets: Sequence[Target],
        *,
        deadline_s: float,
        memos: Sequence[Memo | None] = (),
    ) -> Sequence[Found]:
        """Return what each target came to, in order; `memos` are the causes that still hold."""
        until_s = self._clock.monotonic_s() + deadline_s
        asked = await self._asker.ask(targets, deadline_s=deadline_s * READ_SHARE)
        known = memos or [None] * len(targets)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._caused(profile, target, one, memo, until_s))
                if (profile := self._tracing(target, one)) is not None
                else None
                for target, one, memo in zip(targets, asked, known, strict=True)
            ]
        return [
            _found(one, one.seen, None) if task is None else task.result()
            for one, task in zip(asked, tasks, strict=True)
        ]

    def _tracing(self, target: Target, one: Asked[Reading]) -> SupportsCauseLookup | None:
        """Return whom to ask for the cause of a failure; None where there is none, or nobody knows."""
        if one.answer is None or judge(one.seen[0]) is not Outcome.FAIL:
            return None
        profile: object = self._profiles.get(target.profile_type)
        return profile if isinstance(profile, SupportsCauseLookup) else None

    async def _caused(
        self,
        profile: SupportsCauseLookup,
        target: Target,
        one: Asked[Reading],
        memo: Memo | None,
        until_s: float,
    ) -> Found:
        if memo is None or memo.reading != one.answer:
            began_s = self._clock.monotonic_s()
            answer = await self._tracer.ask(profile, target, until_s)
            if not isinstance(answer, Cause):
                return _found(one, unfound(one.seen, answer), None)
            memo = Memo(reading=one.answer, cause=answer, at_s=began_s)
        return _found(one, wished(one.seen, memo.cause), memo)


def _found(one: Asked[Reading], seen: Seen, memo: Memo | None) -> Found:
    return Found(seen=seen, at_us=one.at_us, took_us=one.took_us, reading=one.answer, memo=memo)
