"""A Nova that refuses every act for minutes (409) is asked for the same ever more rarely."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.contract.projects.cloud import NAME, SERVICES, FakeCloud, served

from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack.sent_requests import REFUSED_MAX_S, Sent
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import (
    FenceVerdict,
    Hindrance,
    Operation,
    Progress,
    ProgressState,
    Reading,
    Target,
)
from yaffle.ports import DriverContext

CALL_S = 1.0
"""A step gives a fencer so long at once."""


class Leaping(SystemClock):
    """The real time, but that who sleeps wakes at once, so much later."""

    leapt_s = 0.0

    def now_us(self) -> int:
        return super().now_us() + round(self.leapt_s * 1_000_000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.leapt_s

    async def sleep(self, seconds: float) -> None:
        self.leapt_s += seconds
        await asyncio.sleep(0)


class World:
    """One server in one project, its driver, and its fencer."""

    def __init__(self, cloud: FakeCloud, folder: Path) -> None:
        cloud.conflicts = True
        cloud.tokens[SERVICES] = ("service", "service")
        cloud.clouds_yaml(folder / "clouds.yaml")
        settings = {"cloud": NAME, "clouds_file": str(folder / "clouds.yaml")}
        self.cloud, self.clock = cloud, Leaping()
        self.nova = NovaServer(DriverContext(clock=self.clock, state_dir=folder, settings=settings))
        self.fencer = ComputeFencer(
            DriverContext(clock=self.clock, state_dir=folder, profiles={NovaServer.type: self.nova})
        )
        self.target = Target(
            node_id=NodeId(str(uuid.uuid4())), name="n",
            physical_id=cloud.add("service", str(uuid.uuid4())),
            profile_type=NovaServer.type, spec={},
        )  # fmt: skip
        self.operation_id = OperationId(str(uuid.uuid4()))

    def acts(self) -> int:
        """Return how many acts Nova was asked for."""
        return sum(path.endswith("/action") for _, _, path in self.cloud.asked)


def test_a_fence_asks_a_cloud_that_refuses_it_ever_more_rarely_and_goes_on_within_seconds(
    tmp_path: Path,
) -> None:
    """A step asks its fencer anew every second or two: the pause must not begin anew with that."""

    async def scene(world: World) -> None:
        clock = world.clock

        async def fence(seconds: float) -> list[str]:
            said = []
            until_s = clock.monotonic_s() + seconds
            while clock.monotonic_s() < until_s:
                done = await world.fencer.fence(
                    world.target, operation_id=world.operation_id, deadline_s=CALL_S
                )
                assert done.verdict is FenceVerdict.UNKNOWN
                said.append(done.detail)
                await clock.sleep(1.0)
            return said

        await world.nova.read([world.target], deadline_s=60)  # logs in
        said = await fence(30)
        assert any("image_uploading" in one for one in said), "what Nova says is what is told"
        assert not any("no trace" in one for one in said)
        assert 5 <= world.acts() <= 11
        world.cloud.conflicts, before = False, world.acts()
        await fence(REFUSED_MAX_S)
        assert world.acts() > before

    with served() as cloud:
        asyncio.run(scene(World(cloud, tmp_path)))


class Answering:
    """A profile whose kill is never answered, and which says of it that it left no trace."""

    operations = frozenset({"KILL"})

    async def submit(self, *_: object, **__: object) -> Progress:
        return Progress(
            state=ProgressState.RUNNING,
            detail="no answer",
            hindrance=Hindrance.UNASKED,
            untold=True,
        )

    async def poll(self, *_: object, **__: object) -> Progress:
        return Progress(state=ProgressState.ABSENT, detail="no trace")

    async def read(self, targets: Sequence[Target], **_: object) -> list[Reading]:
        return [
            Reading(exists=True, up=True, backend_status="ACTIVE", detail="up") for _ in targets
        ]


def test_a_poll_that_was_answered_is_no_kill_that_nobody_could_be_asked_about(
    tmp_path: Path,
) -> None:
    """That could not be asked gives the attempt back; here the backend was asked, and has answered."""
    profiles: Any = {NovaServer.type: Answering()}
    target = Target(
        node_id=NodeId("n"), name="n", physical_id="s", profile_type=NovaServer.type, spec={}
    )
    fencer = ComputeFencer(DriverContext(clock=Leaping(), state_dir=tmp_path, profiles=profiles))
    # The kill has three quarters of that: it ends after a poll, with the next pause too long.
    done = asyncio.run(fencer.fence(target, operation_id=OperationId("o"), deadline_s=1.0))
    assert (done.verdict, done.hindrance) == (FenceVerdict.UNKNOWN, Hindrance.NONE), done


def test_a_refusal_that_lasts_for_days_is_counted_without_end() -> None:
    assert Sent(at_s=0.0, conflicts=100_000).pause_s(1.0) == REFUSED_MAX_S - 1.0


def test_an_act_is_marked_and_asked_for_at_that_pace_too(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        op = Operation(kind="REBOOT", target=world.target, params={"type": "HARD"})
        for _ in range(60):
            done = await world.nova.submit(op, operation_id=world.operation_id, deadline_s=10)
            assert done.state is ProgressState.RUNNING
            await world.clock.sleep(1.0)
        assert 8 <= world.acts() <= 16
        marks = sum(path.endswith("/metadata") for _, _, path in world.cloud.asked)
        assert marks == world.acts()

    with served() as cloud:
        asyncio.run(scene(World(cloud, tmp_path)))
