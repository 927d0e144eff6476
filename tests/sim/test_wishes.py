"""What a user may have wished is not destroyed: not by a silence, nor by what is not told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.sim import test_rules
from tests.sim.stage import Stage
from tests.sim.test_node_actions import node
from tests.sim.test_refusals import REBOOT, RECREATE, acts
from tests.sim.test_rules import results

from yaffle.model.operations import (
    Actor,
    Cause,
    FenceResult,
    FenceVerdict,
    Hindrance,
    Progress,
    ProgressState,
    Reading,
    Target,
)
from yaffle.testing import Fault, Rule

NOBODY = Cause(actor=Actor.NOBODY, detail="no request since 02:00")
POLLING = [{"type": "NODE_STATUS_POLLING"}]
URL = [
    {
        "type": "NODE_STATUS_POLL_URL",
        "options": {"poll_url": "http://{node_ip}/", "poll_url_retry_limit": 1},
    }
]


class Record:
    """A backend's record of requests, and its word for who is off: in all engines of a stage."""

    def __init__(self, s: Stage, cause: Cause | Exception) -> None:
        self.cause: Cause | Exception = cause
        self.asked = 0
        self.kept = ""
        for ctx in (s.ctx, *(life.ctx for life in s.lives)):
            for profile in ctx.drivers.profiles.values():
                self._keep(profile)

    def _keep(self, profile: Any) -> None:
        read = profile.read

        async def reading(targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
            seen = await read(targets, deadline_s=deadline_s)
            return [self._off(r) if r.backend_status == "SHUTOFF" else r for r in seen]

        async def cause(target: Target, *, deadline_s: float) -> Cause:
            self.asked += 1
            if isinstance(self.cause, Exception):
                raise self.cause
            return self.cause

        profile.read, profile.cause = reading, cause

    def _off(self, seen: Reading) -> Reading:
        return replace(seen, exists=True, event="POWER_OFF", kept=self.kept)


def play(story: Callable[[Stage], Awaitable[None]], **changed: Any) -> None:
    changed.setdefault("actions", REBOOT + RECREATE)
    changed.setdefault("retry", {"attempts": 2, "backoff": 5, "max_backoff": 10})
    test_rules.play(story, 2, **changed)


@pytest.mark.parametrize("modes", [POLLING, URL], ids=["status", "url"])
@pytest.mark.parametrize(
    "silence",
    [
        Cause(actor=Actor.UNASKED, detail="no answer of the cloud within 4 s"),
        TimeoutError("hangs"),
        OSError("connection reset"),
    ],
    ids=["unasked", "late", "cut"],
)
def test_while_nobody_can_be_asked_nothing_is_done_and_no_try_is_spent(
    modes: list[Any], silence: Cause | Exception
) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        record, since = Record(s, silence), len(s.plan.calls)
        s.world.kill(victim)
        await s.clock.sleep(180)
        assert record.asked
        assert not acts(s, since)
        assert ("fence", "proved") not in await results(s)
        assert (await node(s, victim)).exhausted_us is None, "what could not be asked is no attempt"
        record.cause = NOBODY
        await s.until(s.all_well, 120, "healed, now that an answer comes")

    play(story, detection_modes=modes)


def test_what_a_user_has_asked_for_is_left_alone_by_a_check_that_cannot_know() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        user = Cause(actor=Actor.USER, detail="stop at 03:00, requested by user ada")
        record, since = Record(s, user), len(s.plan.calls)
        s.world.kill(victim)
        await s.clock.sleep(120)
        assert not acts(s, since)
        assert "ada" in (await node(s, victim)).status_reason
        record.cause = NOBODY
        await s.until(s.all_well, 120, "it went off by itself, later")

    play(story, detection_modes=URL)


def test_what_is_not_told_is_started_and_never_given_up() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        Record(s, Cause(actor=Actor.UNKNOWN, detail="the record may not be read (403)"))
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
        since = len(s.plan.calls)
        s.world.kill(victim)
        await s.clock.sleep(180)
        assert "submit:REBOOT" in acts(s, since)
        assert set(acts(s, since)) <= {"submit:REBOOT"}
        assert ("act", "failed") in await results(s)
        assert ("look", "unclear") in await results(s)

    play(story, detection_modes=URL)


def test_a_locked_node_is_left_alone_by_every_rung_and_by_a_person_too() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        record, since = Record(s, NOBODY), len(s.plan.calls)
        record.kept = "it is locked: unlock it"
        s.world.kill(victim)
        await s.clock.sleep(60)
        await s.commands.recover(victim, by="op")
        await s.clock.sleep(60)
        assert not acts(s, since)
        assert "it is locked" in (await node(s, victim)).status_reason
        record.kept = ""
        await s.until(s.all_well, 120, "healed, unlocked")

    play(story, detection_modes=URL, node_force_recreate=True)


def test_a_rung_that_could_not_be_asked_for_hands_over_to_no_stronger_one() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        Record(s, NOBODY)
        away = [True]
        for ctx in (s.ctx, *(life.ctx for life in s.lives)):
            for profile in ctx.drivers.profiles.values():
                _away(profile, away)
        since = len(s.plan.calls)
        s.world.kill(victim)
        await s.clock.sleep(180)
        assert not acts(s, since)
        found = set(await results(s))
        assert ("act", "unclear") in found
        assert {stage for stage, _ in found} == {"look", "act"}
        assert (await node(s, victim)).exhausted_us is None
        away.clear()
        await s.until(s.all_well, 120, "healed by the same rung")

    play(story, detection_modes=URL)


@pytest.mark.parametrize("kind", ["KILL", "DELETE"])
def test_a_lock_that_came_after_the_look_is_waived_by_no_consent(kind: str) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        record = Record(s, NOBODY)
        for ctx in (s.ctx, *(life.ctx for life in s.lives)):
            for fencer in ctx.drivers.fencers.values():
                _locked_by_now(fencer, record, "fence", kind == "KILL")
            for profile in ctx.drivers.profiles.values():
                _locked_by_now(profile, record, "submit", kind == "DELETE")
        since = len(s.plan.calls)
        s.world.kill(victim)
        await s.clock.sleep(120)
        found = set(await results(s))
        assert ("fence" if kind == "KILL" else "delete", "unclear") in found
        assert not {result for _, result in found} & {"waived", "left-behind"}
        assert "submit:CREATE" not in acts(s, since)

    play(story, detection_modes=URL, actions=RECREATE, node_force_recreate=True)


def _locked_by_now(driver: Any, record: Record, name: str, bars: bool) -> None:
    """Let somebody lock the node when a driver is about to act, which then leaves it alone."""
    if not bars:
        return
    locked = {"detail": "it is locked: unlock it", "hindrance": Hindrance.BARRED}

    async def asked(*_: Any, **__: Any) -> Progress | FenceResult:
        record.kept = str(locked["detail"])
        if name == "fence":
            return FenceResult(verdict=FenceVerdict.REFUSED, **locked)  # type: ignore[arg-type]
        return Progress(state=ProgressState.FAILED, **locked)  # type: ignore[arg-type]

    setattr(driver, name, asked)


def _away(profile: Any, away: list[bool]) -> None:
    """Let a driver say that its backend does not answer."""
    submit, poll = profile.submit, profile.poll
    silent = Progress(
        state=ProgressState.RUNNING, detail="no usable answer", hindrance=Hindrance.UNASKED
    )

    def guarded(call: Any) -> Any:
        async def asked(op: Any, **more: Any) -> Progress:
            return silent if away else await call(op, **more)

        return asked

    profile.submit, profile.poll = guarded(submit), guarded(poll)
