"""Several kinds of fencing: each is asked in the policy's order, until one has proved it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.model.operations import FenceResult, FenceVerdict, Operation, PoweredOff
from yaffle.store.tables import proofs, steps
from yaffle.testing import run_virtual

BOTH = ["COMPUTE", "HOST"]
OFF = PoweredOff(host="cmp1", reported="12:00")
REBUILT = [{"name": "RECREATE", "timeout": 60}]


class Saying:
    """A fencer that answers as told; `proves` lets the inner one do its work."""

    def __init__(self, inside: Any, answer: str) -> None:
        self._inside, self.answer = inside, answer
        self.type, self.promises = inside.type, inside.promises
        self.asked = 0

    def supports(self, target: Any) -> bool:
        return self.answer != "knows no such node"

    async def fence(self, target: Any, *, operation_id: Any, deadline_s: float) -> FenceResult:
        self.asked += 1
        if self.answer == "proves":
            result: FenceResult = await self._inside.fence(
                target, operation_id=operation_id, deadline_s=deadline_s
            )
            return result
        verdict = FenceVerdict.REFUSED if self.answer == "refuses" else FenceVerdict.UNKNOWN
        return FenceResult(verdict=verdict, detail=f"it {self.answer}")


class Switch(Saying):
    """A fencer that says which host it has read back as off."""

    async def fence(self, target: Any, *, operation_id: Any, deadline_s: float) -> FenceResult:
        done = await super().fence(target, operation_id=operation_id, deadline_s=deadline_s)
        return replace(done, off=OFF) if done.proof else done


class Hearing:
    """A profile, and what was submitted to it."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        self.heard: list[Operation] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    async def submit(self, op: Operation, **more: Any) -> Any:
        self.heard.append(op)
        return await self._inside.submit(op, **more)


def test_what_a_rung_has_proved_off_is_told_to_its_deletion_and_creation() -> None:
    async def story() -> None:
        async with stage(5) as s:
            s.start()
            drivers: Any = s.lives[0].ctx.drivers
            drivers.fencers["COMPUTE"] = Switch(drivers.fencers["COMPUTE"], "proves")
            await s.build(2, policy(actions=REBUILT))
            (kind,) = drivers.profiles
            drivers.profiles[kind] = profile = Hearing(drivers.profiles[kind])
            s.world.kill(s.node_ids()[0])
            await s.clock.sleep(10)
            await s.until(s.all_well, 120, "healed")
            assert [(op.kind, op.off) for op in profile.heard] == [("DELETE", OFF), ("CREATE", OFF)]

    run_virtual(story, seed=5, cpu_s=60)


class Slow(Saying):
    """A fencer that says how much time it was given: of what is cut short one learns nothing."""

    async def fence(self, target: Any, *, operation_id: Any, deadline_s: float) -> FenceResult:
        self.asked += 1
        await asyncio.sleep(deadline_s * 0.9)
        why = "the switch says on" if deadline_s >= 3 else "no time to ask"
        return FenceResult(verdict=FenceVerdict.UNKNOWN, detail=why)


def test_a_try_that_was_cut_short_does_not_push_out_the_reason() -> None:
    async def story() -> None:
        async with stage(5) as s:
            s.start()
            fencers: Any = s.lives[0].ctx.drivers.fencers
            fencers["COMPUTE"] = slow = Slow(fencers["COMPUTE"], "")
            await s.build(2, policy(actions=REBUILT))
            s.world.kill(s.node_ids()[0])
            query = select(steps.c.detail).where(steps.c.result == "unproved")

            async def unproved() -> Any:
                return await s.store.read(lambda c: c.execute(query).scalars().first())

            await s.until(unproved, 120, "the fence is not proved")
            assert slow.asked > 1
            assert "the switch says on" in await unproved()

    run_virtual(story, seed=5, cpu_s=60)


async def healed(s: Stage, compute: str, host: str) -> tuple[Saying, Saying]:
    fencers: Any = s.lives[0].ctx.drivers.fencers
    inside = fencers["COMPUTE"]
    fencers["COMPUTE"], fencers["HOST"] = Saying(inside, compute), Saying(inside, host)
    s.ctx.drivers.fencers["HOST"] = fencers["HOST"]  # type: ignore[index]
    await s.build(2, policy(fencing=BOTH, actions=REBUILT))
    s.world.kill(s.node_ids()[0])
    return fencers["COMPUTE"], fencers["HOST"]


@pytest.mark.parametrize(
    ("compute", "host", "asked"),
    [
        ("proves", "proves", (True, False)),
        ("refuses", "proves", (True, True)),
        ("cannot tell", "proves", (True, True)),
        ("knows no such node", "proves", (False, True)),
    ],
)
def test_one_proof_is_enough(compute: str, host: str, asked: tuple[bool, bool]) -> None:
    async def story() -> None:
        async with stage(5) as s:
            s.start()
            first, second = await healed(s, compute, host)
            await s.clock.sleep(10)
            await s.until(s.all_well, 120, "healed")
            assert (first.asked > 0, second.asked > 0) == asked
            if compute == "refuses":
                assert first.asked == 1, "a refusal is final"
            rows = await s.store.read(lambda c: c.execute(select(proofs)).all())
            assert len(rows) >= 1

    run_virtual(story, seed=5, cpu_s=60)


def test_what_would_defeat_the_act_is_not_used() -> None:
    """A fence that ends the copy must not come before an act that is to move it."""

    async def story() -> None:
        async with stage(5) as s:
            s.start()
            first, second = await healed(s, "proves", "proves")
            first.defeats = lambda act: "it would" if act == "RECREATE" else ""  # type: ignore[attr-defined]
            await s.clock.sleep(10)
            await s.until(s.all_well, 120, "healed")
            assert (first.asked, second.asked > 0) == (0, True)

    run_virtual(story, seed=5, cpu_s=60)


def test_without_any_proof_nothing_is_built() -> None:
    async def story() -> None:
        async with stage(5) as s:
            s.start()
            first, second = await healed(s, "cannot tell", "refuses")
            ident = s.node_ids()[0]

            async def refused() -> bool:
                said = select(steps.c.detail).where(steps.c.stage == "fence")
                rows = await s.store.read(lambda c: list(c.execute(said).scalars()))
                return any(
                    "COMPUTE: not proved within 30 s: it cannot tell" in str(d)
                    and "HOST: refused: it refuses" in str(d)
                    for d in rows
                )

            await s.until(refused, 150, "both were asked, and both are told")
            assert not s.world.serving(ident)
            assert len(s.world.copies[ident]) == 1
            # The first had its own time, and left the second its.
            assert first.asked > 5
            assert second.asked >= 1

    run_virtual(story, seed=5, cpu_s=60)
