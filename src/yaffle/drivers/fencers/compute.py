"""Fences a node through its own profile: kill everything that runs of it, then read it back."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.core.recovery.answer_preference import more_telling
from yaffle.integrations.driver_settings import Section
from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    FenceResult,
    FenceVerdict,
    Hindrance,
    Operation,
    Progress,
    ProgressState,
    Promise,
    Proof,
    Target,
)
from yaffle.ports.context import DriverContext
from yaffle.ports.profile import Profile

if TYPE_CHECKING:
    from yaffle.ports.fencer import Fencer, SupportsFenceExclusion

MOVES: Final = "EVACUATE"
"""The act that needs the old copy's record, which a kill takes away."""
KILL: Final = "KILL"
"""The verb that a profile declares when it can end and prove the end of a copy at once."""
_METHOD: Final = "kill+read-back"
"""Of a profile that does not say how it kills."""
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
_READ_BACK_S: Final = 0.25
"""Share of the deadline that is kept for reading back."""


class ComputeFencer:
    """Confirmed only by a reading taken after the kill; whatever is late or unclear is UNKNOWN."""

    type: ClassVar[str] = "COMPUTE"
    promises: ClassVar[frozenset[Promise]] = frozenset()

    def __init__(self, context: DriverContext) -> None:
        Section(f"drivers.{self.type}", context.settings).finish()
        self._clock = context.clock
        self._profiles = context.profiles

    def supports(self, target: Target) -> bool:
        """Whether the node's profile is known and offers KILL."""
        profile = self._profiles.get(target.profile_type)
        return profile is not None and KILL in profile.operations

    def defeats(self, act: str) -> str:
        """Say that what is to be moved must not be ended first."""
        return "" if act != MOVES else f"it would end the copy that {MOVES} is to move"

    async def fence(
        self, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> FenceResult:
        """Kill, wait for the proof, read back."""
        profile = self._profiles.get(target.profile_type)
        if profile is None or KILL not in profile.operations:
            return _refused(f"profile {target.profile_type} offers no {KILL}: nothing was done")
        until_s = self._clock.monotonic_s() + deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                reserve_s = deadline_s * _READ_BACK_S
                progress = await self._kill(profile, target, operation_id, until_s - reserve_s)
                return await self._read_back(profile, target, progress, until_s)
        except TimeoutError:
            return _unknown(f"not proved within {deadline_s:g} s")

    async def _kill(
        self, profile: Profile, target: Target, operation_id: OperationId, until_s: float
    ) -> Progress:
        op = Operation(kind=KILL, target=target, timeout_s=max(1.0, self._left_s(until_s)))
        pause_s = _PAUSE_S
        progress = await profile.submit(
            op, operation_id=operation_id, deadline_s=self._left_s(until_s)
        )
        while progress.state in (ProgressState.RUNNING, ProgressState.ABSENT):
            if self._left_s(until_s) <= pause_s:
                return progress
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            # ABSENT: somebody's later operation replaced ours, or it could not be written down.
            again = profile.poll if progress.state is ProgressState.RUNNING else profile.submit
            answer = await again(op, operation_id=operation_id, deadline_s=self._left_s(until_s))
            if answer.state is ProgressState.ABSENT and not progress.untold:
                # Why it was refused is what tells; that no trace is left of it follows from that.
                progress = replace(answer, detail=progress.detail)
            else:
                progress = more_telling(progress, answer)
        return progress

    async def _read_back(
        self, profile: Profile, target: Target, progress: Progress, until_s: float
    ) -> FenceResult:
        readings = await profile.read([target], deadline_s=max(0.1, self._left_s(until_s)))
        reading = readings[0]
        gone = not reading.exists and reading.up is False
        match progress.state:
            case ProgressState.DONE if gone:
                evidence = f"{progress.detail}; read back: {reading.backend_status}"
                return self._confirmed(progress.method or _METHOD, evidence)
            case ProgressState.DONE:
                seen = f"{reading.backend_status} ({reading.detail})"
                return _unknown(f"killed, but read back as {seen}")
            case ProgressState.FAILED:
                return _refused(progress.detail, progress.hindrance)
            case _:
                return _unknown(f"not proved in time: {progress.detail}", progress.hindrance)

    def _confirmed(self, method: str, evidence: str) -> FenceResult:
        proof = Proof(
            method=method,
            evidence=evidence,
            at_us=self._clock.now_us(),
            by=f"{socket.gethostname()}/{os.getpid()}",
        )
        return FenceResult(verdict=FenceVerdict.CONFIRMED, detail=evidence, proof=proof)

    def _left_s(self, until_s: float) -> float:
        return max(0.05, until_s - self._clock.monotonic_s())


def _refused(detail: str, hindrance: Hindrance = Hindrance.NONE) -> FenceResult:
    return FenceResult(verdict=FenceVerdict.REFUSED, detail=detail, hindrance=hindrance)


def _unknown(detail: str, hindrance: Hindrance = Hindrance.NONE) -> FenceResult:
    return FenceResult(verdict=FenceVerdict.UNKNOWN, detail=detail, hindrance=hindrance)


if TYPE_CHECKING:
    _conforms: type[Fencer] = ComputeFencer
    _discerns: type[SupportsFenceExclusion] = ComputeFencer
