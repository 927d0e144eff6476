"""What a recovery leaves to read: one incident, one message a topic, the ladder as seed 1 shows it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from sqlalchemy import select
from tests.sim.stage import policy, stage

from yaffle.model.operations import Promise
from yaffle.store import incidents
from yaffle.store.actions import unfinished
from yaffle.store.tables import actions, outbox
from yaffle.testing import Fault, Rule, run_virtual


class Listed:
    """A workflow driver that is installed, and whose workflows are never reached here."""

    type: ClassVar[str] = "MISTRAL_WORKFLOW"
    promises: ClassVar[frozenset[Promise]] = frozenset()

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Accept."""


def test_the_action_holds_the_ladder_as_seed_1_shows_it() -> None:
    ladder = [
        {"name": "REBOOT", "params": {"type": "SOFT"}},
        {"name": "REBUILD"},
        {
            "name": "my_evacuation_workflow",
            "type": "MISTRAL_WORKFLOW",
            "params": {"node_id": "{{ node.physicalid }}"},
        },
    ]

    async def story() -> None:
        async with stage(2) as s:
            s.ctx.drivers.workflows["MISTRAL_WORKFLOW"] = Listed()  # type: ignore[index]
            s.start()
            await s.build(3, policy(actions=ladder))
            await s.clock.sleep(30)
            victim = next(n for n in await s.nodes())
            s.world.kill(victim.id)
            await s.clock.sleep(20)
            await s.until(s.all_well, 60, "healed")
            query = select(actions.c.data).where(actions.c.action == "NODE_RECOVER")
            (data,) = await s.store.read(lambda c: c.execute(query).scalars().all())
            filled = {**ladder[2], "params": {"node_id": victim.physical_id}}
            assert data["health"]["recover_action"] == [ladder[0], ladder[1], filled]
            assert json.loads(json.dumps(data)) == data

    run_virtual(story, seed=2, cpu_s=30)


@pytest.mark.parametrize("seed", range(4))
def test_a_mark_leads_to_one_incident_and_one_message_of_each_topic(seed: int) -> None:
    async def story() -> None:
        async with stage(seed) as s:
            s.start()
            await s.build(3, policy())
            await s.clock.sleep(30 + s.rng.random() * 10)
            victim = s.node_ids()[0]
            await s.commands.mark(victim, reason="its disk clicks", by="op")
            await s.clock.sleep(90)
            assert await s.all_well()
            found = await s.store.read(
                lambda c: incidents.listed(c, open_only=False, node_id=victim, limit=9)
            )
            assert [i.state for i in found] == ["recovered"]
            rows = await s.store.read(lambda c: c.execute(select(outbox)).all())
            told = Counter(row.topic for row in rows if victim in json.dumps(row.body))
            assert told == {
                "incident.opened": 1,
                "incident.recovering": 1,
                "incident.recovered": 1,
            }

    run_virtual(story, seed=seed, cpu_s=30)


@pytest.mark.parametrize(("wanted", "captures"), [(True, 1), (False, 0)])
def test_evidence_is_taken_only_if_the_console_log_is_wanted(wanted: bool, captures: int) -> None:
    async def story() -> None:
        async with stage(4) as s:
            s.start()
            await s.build(3, policy(evidence={"console_log": wanted}))
            await s.clock.sleep(30)
            victim = s.node_ids()[0]
            s.world.kill(victim)
            await s.clock.sleep(20)
            await s.until(s.all_well, 60, "healed")
            assert sum(call == "capture" for _, call, _ in s.plan.calls) == captures
            found: Any = await s.store.read(lambda c: incidents.last_of(c, victim))
            assert bool(found.evidence) is wanted

    run_virtual(story, seed=4, cpu_s=30)


def test_what_goes_on_after_an_acknowledgement_is_timed_from_there() -> None:
    async def story() -> None:
        async with stage(7) as s:
            s.start()
            await s.build(3, policy(retry={"attempts": 1, "backoff": 5, "max_backoff": 5}))
            s.plan.rules.append(Rule(fault=Fault.FAIL, call="*:REBOOT"))
            s.plan.rules.append(Rule(fault=Fault.FAIL, call="*:CREATE"))
            victim = s.node_ids()[0]
            s.world.kill(victim)
            await s.clock.sleep(200)
            first = await s.store.read(lambda c: incidents.last_of(c, victim))
            assert first is not None
            assert first.state == "exhausted"
            assert first.first_fail_us < first.opened_us
            s.plan.rules.clear()
            await s.commands.acknowledge(first.id, by="op")
            await s.until(s.all_well, 60, "healed")
            second = await s.store.read(lambda c: incidents.last_of(c, victim))
            assert second is not None
            assert second.id != first.id
            acknowledged = await s.store.read(lambda c: incidents.by_id(c, first.id))
            assert acknowledged is not None
            assert second.first_fail_us == acknowledged.acknowledged_us

    run_virtual(story, seed=7, cpu_s=30)


def test_who_gets_well_after_a_try_in_vain_did_not_do_so_by_itself() -> None:
    async def story() -> None:
        async with stage(8) as s:
            s.start()
            rest = {"attempts": 3, "backoff": 60, "max_backoff": 60}
            await s.build(3, policy(actions=[{"name": "REBOOT", "timeout": 10}], retry=rest))
            victim = s.node_ids()[0]
            s.plan.rules.append(Rule(fault=Fault.FAIL, call="*:REBOOT"))
            s.world.hang(victim)

            async def in_vain() -> bool:
                row = await s.store.read(lambda c: incidents.last_of(c, victim))
                busy = await s.store.read(lambda c: unfinished(c, node_id=victim))
                return row is not None and row.started_us is not None and not busy

            await s.until(in_vain, 60, "its attempt has ended in vain")
            s.world.revive(victim)
            await s.until(s.all_well, 30, "it is well before the next")
            row = await s.store.read(lambda c: incidents.last_of(c, victim))
            assert row is not None
            assert row.state == "already-healthy"
            assert row.reason == "it became healthy after its last attempt had ended"

    run_virtual(story, seed=8, cpu_s=30)
