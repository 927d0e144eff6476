"""A member that is down because somebody wants it so is neither active nor well by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.jobs import a_cluster, act, members, parts, the_cluster
from tests.sim.jobs import play as told
from tests.sim.stage import Stage, policy
from tests.sim.test_refusals import REBOOT, RECREATE, acts
from tests.sim.test_rules import results
from tests.sim.test_unasked import eyes

from yaffle.model.health import Observation, Outcome
from yaffle.store.tables import events, incidents

WHY = "SHUTOFF: it is off; stop at 03:00, requested by user ada"
REASON = f"It is left as it is: {WHY}"


class Eyes:
    """What every mode says of one node, in place of what is so."""

    def __init__(self, s: Stage, victim: str) -> None:
        self.victim, self.says = victim, ""
        eyes(s, self._see)

    def _see(self, seen: Observation) -> Observation:
        if seen.node_id != self.victim:
            return seen
        match self.says:
            case "stopped":
                word = {"code": "EV-OWN-WILL", "detail": WHY, "backend_status": "SHUTOFF"}
                return replace(seen, outcome=Outcome.WARN, **word)
            case "locked":
                word = {"code": "ST-LOCKED", "detail": "locked by ada", "backend_status": "SHUTOFF"}
                return replace(seen, outcome=Outcome.WARN, **word)
            case "down":
                return replace(seen, outcome=Outcome.FAIL, code="ST-DOWN", detail="off")
            case "unclear":
                return replace(seen, outcome=Outcome.UNKNOWN, code="ST-UNCLEAR", detail="no answer")
            case _:
                return seen


async def watched(s: Stage, **changed: Any) -> tuple[Eyes, int]:
    """A cluster of three whose grace is over, one of which is told otherwise of; and the calls so far."""
    await a_cluster(s, 3, policy(**changed))
    await s.clock.sleep(30)
    return Eyes(s, (await members(s))[0].id), len(s.plan.calls)


async def first(s: Stage) -> tuple[str, str, str]:
    row = (await members(s))[0]
    return row.status, row.health, row.status_reason


async def incident_states(s: Stage) -> list[tuple[str, str]]:
    query = select(incidents.c.state, incidents.c.reason).order_by(incidents.c.opened_us)
    return [tuple(r) for r in await s.store.read(lambda c: c.execute(query).all())]


@pytest.mark.parametrize("says", ["stopped", "locked"])
def test_it_counts_as_warning_with_its_reason_until_it_runs_again(says: str) -> None:
    async def story(s: Stage) -> None:
        seen, since = await watched(s, actions=RECREATE)
        assert (await the_cluster(s)).status == "ACTIVE"
        seen.says = says
        await s.clock.sleep(40)
        reason = REASON if says == "stopped" else "It is left as it is: locked by ada"
        assert await first(s) == ("WARNING", "healthy", reason)
        cluster = await the_cluster(s)
        assert cluster.status == "WARNING"
        assert "below desired_capacity (3)" in cluster.status_reason
        # It is written once, and not with every look.
        version = (await members(s))[0].updated_us
        await s.clock.sleep(120)
        assert (await members(s))[0].updated_us == version
        # Whoever cannot be asked for a while does not say that it runs.
        seen.says = "unclear"
        await s.clock.sleep(5)
        assert (await first(s))[0] == "WARNING"
        seen.says = says
        await s.clock.sleep(60)
        assert await first(s) == ("WARNING", "healthy", reason)
        seen.says = ""
        await s.clock.sleep(40)
        assert await first(s) == ("ACTIVE", "healthy", "it runs again")
        assert (await the_cluster(s)).status == "ACTIVE"
        assert acts(s, since) == []
        assert await incident_states(s) == []
        told_of = select(events.c.action).where(
            events.c.action.in_(["LEFT_AS_IT_IS", "RUNS_AGAIN"])
        )
        found = await s.store.read(lambda c: c.scalars(told_of.order_by(events.c.seq)).all())
        assert found[0] == "LEFT_AS_IT_IS"
        assert found[-1] == "RUNS_AGAIN"

    told(story)


def test_what_was_sick_and_is_stopped_then_did_not_get_well_by_itself() -> None:
    async def story(s: Stage) -> None:
        seen, since = await watched(s, actions=RECREATE, mode="observe")
        seen.says = "down"
        await s.clock.sleep(40)
        assert [state for state, _ in await incident_states(s)] == ["held"]
        seen.says = "stopped"
        await s.clock.sleep(40)
        assert await incident_states(s) == [("superseded", REASON)]
        assert await first(s) == ("WARNING", "healthy", REASON)
        seen.says = "down"
        await s.clock.sleep(40)
        assert len(await incident_states(s)) == 2, "it fails anew"
        assert (await first(s))[0] == "WARNING"
        assert acts(s, since) == []

    told(story)


def test_who_is_stopped_while_it_is_healed_has_not_recovered() -> None:
    async def story(s: Stage) -> None:
        seen, since = await watched(s, actions=REBOOT)
        seen.says = "down"

        async def acted() -> bool:
            return bool(acts(s, since))

        await s.until(acted, 60, "rebooted")
        seen.says = "stopped"
        await s.clock.sleep(200)
        assert await incident_states(s) == [("superseded", REASON)]
        assert ("verify", "passed") not in await results(s)
        assert await first(s) == ("WARNING", "healthy", REASON)

    told(story)


async def recovered(s: Stage, **given: Any) -> list[str]:
    """Recover the cluster; return which of its nodes that asked for."""
    row = await act(s, "recover", given)
    return [p.target for p in await parts(s, row.id) if p.action == "NODE_RECOVER"]


def test_who_names_it_has_it_back() -> None:
    async def story(s: Stage) -> None:
        seen, since = await watched(s, actions=RECREATE)
        seen.says = "stopped"
        await s.clock.sleep(40)
        await s.commands.recover(seen.victim, by="op")

        async def made() -> bool:
            if acts(s, since):
                seen.says = ""
            return (await first(s))[0] == "ACTIVE"

        await s.until(made, 60, "it is made anew for who asked for it")
        assert (await members(s))[0].health_reason == ""
        await s.clock.sleep(60)
        assert (await first(s))[:2] == ("ACTIVE", "healthy")

    told(story)


def test_a_check_says_that_it_is_not_active_and_a_cluster_is_recovered_without_it() -> None:
    async def story(s: Stage) -> None:
        seen, since = await watched(s, actions=RECREATE)
        seen.says = "stopped"
        await s.clock.sleep(40)
        await act(s, "check")
        assert (await first(s))[0] == "WARNING"
        assert await recovered(s) == []
        assert await recovered(s, check=True) == []
        # Not either while nobody can be asked how it is.
        seen.says = "unclear"
        await s.clock.sleep(200)
        assert (await first(s))[1] == "unknown"
        assert await recovered(s) == []
        assert acts(s, since) == []
        assert (await first(s))[0] == "WARNING"

    told(story)


def test_it_is_not_said_to_run_again_because_nobody_looks_any_more() -> None:
    async def story(s: Stage) -> None:
        seen, _ = await watched(s, actions=RECREATE)
        seen.says = "stopped"
        await s.clock.sleep(40)
        await act(s, "policy_detach", {"policy_id": "web-policy-0"})
        await s.clock.sleep(120)
        assert (await first(s))[0::2] == ("WARNING", REASON)
        assert await recovered(s) == []

    told(story)


def test_nor_is_one_that_nothing_watches() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2)
        seen, since = Eyes(s, (await members(s))[0].id), len(s.plan.calls)
        seen.says = "stopped"
        assert await recovered(s, check=True) == []
        status, _, why = await first(s)
        assert (status, why) == ("WARNING", f"Check: Node is not ACTIVE. left alone: {WHY}")
        assert await recovered(s) == []
        assert acts(s, since) == []
        seen.says = ""
        await act(s, "check")
        assert (await first(s))[0] == "ACTIVE"
        seen.says = "down"
        row = await act(s, "recover", {"check": True}, status="FAILED")
        assert "NODE_RECOVER" in {p.action for p in await parts(s, row.id)}

    told(story)
