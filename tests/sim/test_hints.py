"""What the backend says to have happened travels with the recovery; its cheapest cure comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.model.health import Hint, Observation, Outcome
from yaffle.store.tables import actions, steps
from yaffle.testing import run_virtual

LISTENING = [{"type": "LIFECYCLE_EVENTS"}]
CURES = {"POWER_OFF": "START", "PAUSE": "UNPAUSE"}


class Listening:
    """Reads as status polling does, and says what must have happened to who is down."""

    type = "LIFECYCLE_EVENTS"

    def __init__(self, inside: Any, event: str) -> None:
        self._inside, self._event = inside, event

    async def check(self, targets: Any, mode: Any, *, deadline_s: float) -> Sequence[Observation]:
        seen = await self._inside.check(targets, mode, deadline_s=deadline_s)
        hint = Hint(event=self._event, state="SHUTOFF", publisher="nova-compute:cmp1")
        return [
            replace(one, hint=hint, authoritative=True) if one.outcome is Outcome.FAIL else one
            for one in seen
        ]


def equip(s: Stage, event: str, cures: dict[str, str]) -> None:
    for ctx in (s.ctx, *(life.ctx for life in s.lives)):
        detectors: Any = ctx.drivers.detectors
        detectors["LIFECYCLE_EVENTS"] = Listening(detectors["NODE_STATUS_POLLING"], event)
        for profile in ctx.drivers.profiles.values():
            if cures:
                profile.cures = cures  # type: ignore[attr-defined]


async def walked(s: Stage) -> list[tuple[str, str]]:
    """The operations of the last recovery with what they came to, in order."""

    def read(conn: Any) -> list[tuple[str, str]]:
        rows = conn.execute(
            select(steps.c.operation, steps.c.result)
            .where(steps.c.phase == "ended", steps.c.stage.in_(("act", "create")))
            .join(actions, actions.c.id == steps.c.action_id)
            .where(actions.c.action == "NODE_RECOVER")
            .order_by(steps.c.seq)
        )
        return [(str(row[0]), str(row[1])) for row in rows]

    return list(await s.store.read(read))


def heal(event: str, cures: dict[str, str]) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Stop a node behind everybody's back; return what was done and what travelled with it."""
    found: list[Any] = []

    async def story() -> None:
        async with stage(3) as s:
            s.start()
            equip(s, event, cures)
            await s.build(2, policy(detection_modes=LISTENING))
            victim = s.node_ids()[0]
            s.world.kill(victim)
            await s.clock.sleep(10)
            await s.until(s.all_well, 120, "healed")

            def inputs(conn: Any) -> Any:
                asked = select(actions.c.inputs).where(actions.c.action == "NODE_RECOVER")
                return conn.execute(asked).scalar()

            found.append(await walked(s))
            found.append({**(await s.store.read(inputs)), "physical": s.world.present(victim)})

    run_virtual(story, seed=3, cpu_s=60)
    return found[0], found[1]


def test_what_is_switched_off_is_switched_on_and_nothing_else() -> None:
    done, inputs = heal("POWER_OFF", CURES)
    assert done == [("START", "done")]
    assert (inputs["event"], inputs["state"]) == ("POWER_OFF", "SHUTOFF")
    assert inputs["publisher"] == "nova-compute:cmp1"
    assert inputs["instance_id"] == inputs["physical"].physical_id
    assert "T" in inputs["timestamp"]


@pytest.mark.parametrize(
    ("event", "cures"),
    [
        pytest.param("POWER_OFF", {}, id="a profile that knows no cures"),
        pytest.param("REBUILD", CURES, id="an event that has none"),
        pytest.param("PAUSE", CURES, id="an operation that the profile lacks"),
    ],
)
def test_without_a_cure_the_policy_alone_counts(event: str, cures: dict[str, str]) -> None:
    done, _ = heal(event, cures)
    assert done[0][0] == "REBOOT"
