"""A snapshot of the failed copy: taken first, booted once, and never what a recovery waits for."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.store.tables import actions, steps
from yaffle.testing import run_virtual
from yaffle.testing.faults import Fault, Rule

REBUILD = {"name": "REBUILD", "timeout": 30}
RECREATE = {"name": "RECREATE", "timeout": 60}
TAKE = {"take": True, "restore": True, "timeout": 20}


async def walked(s: Stage) -> list[tuple[str, str, str]]:
    """What was kept and what was made, in order: stage, result, and what it was made of."""

    def read(conn: Any) -> list[tuple[str, str, str]]:
        rows = conn.execute(
            select(steps.c.stage, steps.c.result, steps.c.data)
            .where(steps.c.phase == "ended", steps.c.stage.in_(("snapshot", "act", "create")))
            .join(actions, actions.c.id == steps.c.action_id)
            .where(actions.c.action == "NODE_RECOVER")
            .order_by(actions.c.created_us, steps.c.seq)
        )
        return [(row[0], row[1], str(row[2].get("booted_from", ""))) for row in rows]

    return list(await s.store.read(read))


def heal(snapshot: dict[str, Any], ladder: list[dict[str, Any]], *faults: tuple[str, Fault]) -> Any:
    """Kill one of three nodes, let some calls go wrong; return what was done, and of what it is."""
    found: list[Any] = []

    async def story() -> None:
        async with stage(5) as s:
            s.start()
            await s.build(3, policy(snapshot=snapshot, actions=ladder))
            await s.clock.sleep(30)
            victim = s.node_ids()[0]
            for call, fault in faults:
                s.plan.rules.append(Rule(fault=fault, call=call, times=1))
            first = s.world.present(victim)
            assert first is not None
            s.world.kill(victim)
            await s.clock.sleep(20)
            await s.until(s.all_well, 200, "healed")
            last = s.world.present(victim)
            assert last is not None
            assert not s.world.overlaps
            found.extend([await walked(s), last.spec["image"], f"image of {first.physical_id}"])

    run_virtual(story, seed=5, wall_s=30)
    return found


@pytest.mark.parametrize("last", [REBUILD, RECREATE], ids=["rebuild", "recreate"])
def test_the_new_disk_is_the_old_one(last: dict[str, Any]) -> None:
    done, image, old = heal(TAKE, [last])
    made = "act" if last is REBUILD else "create"
    assert done == [("snapshot", "done", ""), (made, "done", old)]
    assert image == old


def test_taken_is_not_booted_unless_that_is_wanted() -> None:
    done, image, _ = heal({**TAKE, "restore": False}, [RECREATE])
    assert done == [("snapshot", "done", ""), ("create", "done", "")]
    assert image == ""


@pytest.mark.parametrize(
    "fault", [Fault.FAIL, Fault.HANG, Fault.LOSE, Fault.LIE], ids=lambda f: f.value
)
def test_without_a_snapshot_the_profiles_own_image_is_booted(fault: Fault) -> None:
    done, image, old = heal(TAKE, [RECREATE], ("submit:SNAPSHOT", fault))
    # What hung or was lost is asked for again within its time, and may be had after all.
    kept = done[0][1] == "done"
    assert done[0][0] == "snapshot"
    assert kept is (fault in {Fault.HANG, Fault.LOSE})
    assert done[1:] == [("create", "done", old if kept else "")]
    assert image == (old if kept else "")


def test_what_did_not_help_is_not_booted_again() -> None:
    done, image, old = heal(TAKE, [REBUILD, RECREATE], ("submit:REBUILD", Fault.HALF))
    assert done == [("snapshot", "done", ""), ("act", "failed", old), ("create", "done", "")]
    assert image == ""


def test_a_second_try_takes_none_and_boots_none() -> None:
    done, image, old = heal(TAKE, [REBUILD], ("submit:REBUILD", Fault.LIE))
    assert done == [
        ("snapshot", "done", ""),
        ("act", "done", old),
        ("snapshot", "failed", ""),
        ("act", "done", ""),
    ]
    assert image == ""
