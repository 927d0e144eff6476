"""A recovery that somebody asked for and that had to wait looks again before it acts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.stage import SETTINGS, Stage
from tests.sim.test_node_actions import LOCAL, alone, ended
from tests.sim.test_rules import kinds, play, results

from yaffle.engine.action_inputs.recover_requests import LATE_S, NOT_BEGUN, REQUEST_S
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import actions, incidents

REBOOT = {"operation": "REBOOT"}


async def row(s: Stage, ident: Any) -> Any:
    return await s.store.read(lambda conn: actions.get(conn, ident))


async def held(s: Stage, **said: object) -> Any:
    """Stop everything, ask for a recovery, and return it once it says that it is held."""
    await s.commands.pause(PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None)
    ident = await s.commands.node_recover(LOCAL, s.node_ids()[0], {**REBOOT, **said})
    for _ in range(60):
        if (await row(s, ident)).status_reason == "held: stopped":
            break
        await s.clock.sleep(1)
    assert (await row(s, ident)).status_reason == "held: stopped"
    return ident


def test_a_node_that_is_well_when_the_stop_is_lifted_is_left_alone() -> None:
    async def story(s: Stage) -> None:
        ident = await held(s)
        await s.commands.lift_stop(by="op")
        done = await ended(s, ident)
        assert (done.status, done.outputs["end"]) == ("SUCCEEDED", "already-healthy")
        assert done.status_reason.startswith(f"already-healthy: {NOT_BEGUN}: it was held (stopped)")
        assert await results(s) == [("look", "healthy")]
        assert not kinds(s)

    play(story)


def test_a_node_that_is_ill_by_then_is_recovered() -> None:
    async def story(s: Stage) -> None:
        ident = await held(s)
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(20)
        await s.commands.lift_stop(by="op")
        done = await ended(s, ident)
        assert (done.status, done.outputs["end"]) == ("SUCCEEDED", "recovered")
        assert (await results(s))[:2] == [("look", "sick"), ("act", "done")]

    play(story)


def test_one_that_insists_is_carried_out_however_late() -> None:
    async def story(s: Stage) -> None:
        ident = await held(s, force=True)
        await s.commands.lift_stop(by="op")
        done = await ended(s, ident)
        assert (done.status, done.outputs["end"]) == ("SUCCEEDED", "recovered")
        assert ("act", "done") in await results(s)

    play(story)


def test_a_request_for_a_node_that_is_held_already_is_held_too() -> None:
    """The same guard held the node before: what is new is the request."""

    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None
        )
        s.world.hang(victim)

        async def is_held() -> bool:
            found = await s.store.read(lambda conn: incidents.open_of(conn, victim))
            return found is not None and found.hold_reason == "stopped"

        await s.until(is_held, 60, "the node is held")
        await s.clock.sleep(20)
        ident = await held(s)
        s.world.revive(victim)
        await s.clock.sleep(20)
        await s.commands.lift_stop(by="op")
        assert (await ended(s, ident)).outputs["end"] == "already-healthy"
        assert not kinds(s)

    play(story)


def test_a_request_that_waits_ends_by_itself() -> None:
    async def story(s: Stage) -> None:
        ident = await held(s)
        await s.clock.sleep(REQUEST_S + 20)
        assert (await row(s, ident)).status == "FAILED"
        assert "held: stopped" in (await row(s, ident)).status_reason
        await s.commands.lift_stop(by="op")
        await s.clock.sleep(30)
        assert not kinds(s)

    play(story)


@pytest.mark.parametrize("member", [True, False], ids=["member", "alone"])
def test_what_no_engine_began_in_time_is_late_too(member: bool) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0] if member else await alone(s)
        await s.clock.sleep(30)
        await s.living[0].kill()
        s.world.acts.clear()
        ident = await s.commands.node_recover(LOCAL, victim, REBOOT)
        await s.clock.sleep(LATE_S + SETTINGS.lease)
        s.start()
        assert (await ended(s, ident)).outputs["end"] == "already-healthy"
        assert not kinds(s)

    play(story)
