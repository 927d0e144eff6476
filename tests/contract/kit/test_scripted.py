"""The kit's own drivers keep the kit's own checks, in virtual time; and a bad driver does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest

from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import Delivery, Operation, Progress, ProgressState, Target
from yaffle.model.policy import DetectionMode, ModeType, UrlOptions
from yaffle.ports import Seen
from yaffle.testing import (
    Fault,
    FaultPlan,
    ForgetfulProfile,
    Rule,
    ScriptedAlerts,
    ScriptedDetector,
    ScriptedFencer,
    ScriptedHostMonitor,
    ScriptedNotifier,
    ScriptedProfile,
    VirtualClock,
    World,
    check_alert_driver,
    check_detector,
    check_fencer,
    check_host_monitor,
    check_notifier,
    check_profile,
    run_virtual,
)

SPEC = {"create_s": 1.0, "delete_s": 0.5}
URL = DetectionMode(
    key=ModeKey("0:NODE_STATUS_POLL_URL"),
    type=ModeType.NODE_STATUS_POLL_URL,
    url=UrlOptions(poll_url="http://{node_ip}/"),
)


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world = World(clock=self.clock)
        self.plan = FaultPlan(self.clock)

    def hang(self, call: str) -> Callable[[], Any]:
        @asynccontextmanager
        async def hanging() -> AsyncIterator[None]:
            rule = Rule(fault=Fault.HANG, call=call)
            self.plan.rules.append(rule)
            yield
            self.plan.rules.remove(rule)

        return hanging

    async def node(self, name: str) -> Target:
        profile = ScriptedProfile(self.world, self.plan)
        target = Target(
            node_id=NodeId(name),
            name=name,
            physical_id="",
            profile_type=profile.type,
            spec=profile.validate({"create_s": 0.0}),
        )
        op = Operation(kind="CREATE", target=target)
        made = await profile.submit(op, operation_id=f"make-{name}", deadline_s=1)  # type: ignore[arg-type]
        return replace(target, physical_id=made.physical_id or "")


@pytest.mark.parametrize("kind", [ScriptedProfile, ForgetfulProfile])
def test_profile(kind: type[ScriptedProfile]) -> None:
    async def story() -> None:
        b = Bench()
        await check_profile(lambda: kind(b.world, b.plan), SPEC, clock=b.clock, hang=b.hang("*"))
        assert not b.world.overlaps

    run_virtual(story)


def test_detector() -> None:
    async def story() -> None:
        b = Bench()
        targets = [await b.node(n) for n in ("a", "b", "c")]
        b.world.kill(targets[1].node_id)
        detector = ScriptedDetector(b.world, b.plan)
        seen = await check_detector(detector, targets, URL, clock=b.clock, hang=b.hang("check"))
        assert [o.code for o in seen] == ["L7-OK", "L4-REFUSED", "L7-OK"]

    run_virtual(story)


def test_fencer() -> None:
    async def story() -> None:
        b = Bench()
        target = await b.node("a")

        async def runs() -> bool:
            return bool(b.world.alive(target.node_id))

        fencer = ScriptedFencer(b.world, b.plan)
        await check_fencer(fencer, target, runs, clock=b.clock, hang=b.hang("fence"))
        assert not b.world.alive(target.node_id)

    run_virtual(story)


def test_notifier() -> None:
    async def story() -> None:
        b = Bench()
        notifier = ScriptedNotifier(b.clock, b.plan)
        await check_notifier(notifier, clock=b.clock, hang=b.hang("send"))

    run_virtual(story)


def test_scripted_host_monitor() -> None:
    async def story() -> None:
        b = Bench()
        monitor = ScriptedHostMonitor(b.clock, b.plan)
        monitor.seen = {"cmp1": Seen.UP, "cmp2": Seen.LOST}
        monitor.fence("cmp2")

        @asynccontextmanager
        async def blinded() -> AsyncIterator[None]:
            b.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
            yield
            b.plan.rules.clear()

        await check_host_monitor(
            monitor, clock=b.clock, up="cmp1", blinded=blinded, hang=b.hang("look")
        )
        with pytest.raises(AssertionError, match="cmp2 is well"):
            await check_host_monitor(monitor, clock=b.clock, up="cmp2")

    run_virtual(story)


def test_scripted_alerts() -> None:
    async def story() -> None:
        b = Bench()
        alerts = ScriptedAlerts(b.clock, b.plan)
        await check_alert_driver(alerts, clock=b.clock, hang=b.hang("send"))
        assert alerts.received[0] == alerts.received[1]

    run_virtual(story)


class TellsOnce(ScriptedAlerts):
    """A bad driver: takes a repeat for a mistake."""

    async def send(self, failure: Any, *, deadline_s: float) -> Any:
        if failure in self.received:
            return Delivery.REFUSED, "again?"
        return await super().send(failure, deadline_s=deadline_s)


def test_a_driver_that_refuses_a_repeat_is_found_out() -> None:
    async def story() -> None:
        b = Bench()
        with pytest.raises(AssertionError, match="a receiver that is well accepts"):
            await check_alert_driver(TellsOnce(b.clock, b.plan), clock=b.clock)

    run_virtual(story)


class Sweeps(ScriptedProfile):
    """A bad driver: its DELETE does not look whom it deletes."""

    async def submit(self, op: Operation, **rest: Any) -> Progress:
        if op.kind == "DELETE":
            op = replace(op, target=replace(op.target, physical_id=""))
        return await super().submit(op, **rest)


class Repeats(ScriptedProfile):
    """A bad driver: promises to act once, and forgets."""

    async def submit(self, op: Operation, **rest: Any) -> Progress:
        if self.world.find(rest["operation_id"]) is not None and op.kind == "CREATE":
            return Progress(state=ProgressState.FAILED, detail="again?")
        return await super().submit(op, **rest)


class Sleeps(ScriptedProfile):
    """A bad driver: waits for its backend however long that takes."""

    async def read(self, targets: Any, *, deadline_s: float) -> Any:
        return await super().read(targets, deadline_s=100 * deadline_s)


class Doubles(ScriptedProfile):
    """A bad driver: CREATE does not look whether an older copy runs."""

    async def submit(self, op: Operation, **rest: Any) -> Progress:
        if op.kind == "CREATE" and op.target.physical_id:
            return Progress(state=ProgressState.DONE, physical_id="second")
        return await super().submit(op, **rest)


class KnowsNames(ScriptedProfile):
    """A bad driver: its DELETE looks for no copy whose id it is not told."""

    async def submit(self, op: Operation, **rest: Any) -> Progress:
        if op.kind == "DELETE" and not op.target.physical_id:
            return Progress(state=ProgressState.DONE, detail="there is no such copy")
        return await super().submit(op, **rest)


class InParts(ScriptedProfile):
    """A good driver: DELETE has a second part, and is to be submitted again for it."""

    begun: ClassVar[Counter[str]] = Counter()
    parts: ClassVar[float] = 2

    async def submit(self, op: Operation, **rest: Any) -> Progress:
        if op.kind != "DELETE":
            return await super().submit(op, **rest)
        self.begun[rest["operation_id"]] += 1
        if self.begun[rest["operation_id"]] < self.parts:
            return Progress(state=ProgressState.RUNNING, detail="the first part")
        return await super().submit(op, **rest)

    async def poll(self, op: Operation, **rest: Any) -> Progress:
        if 0 < self.begun[rest["operation_id"]] < self.parts:
            return Progress(state=ProgressState.ABSENT)
        return await super().poll(op, **rest)


class NeverDone(InParts):
    """A bad driver: there is always another part."""

    parts = math.inf


def test_what_asks_to_be_submitted_again_is() -> None:
    async def story() -> None:
        b = Bench()
        make = partial(InParts, b.world, b.plan)
        await check_profile(make, SPEC, clock=b.clock, hang=b.hang("*"))

    run_virtual(story)
    assert 2 in InParts.begun.values()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (NeverDone, "no end within"),
        (Sweeps, "DELETE of an older copy touched the present one"),
        (Repeats, "the same operation id must act once"),
        (Sleeps, "read did not come back"),
        (Doubles, "CREATE must refuse while an older copy runs"),
        (KnowsNames, "DELETE without a copy's id must end whatever is the node's"),
    ],
)
def test_a_bad_profile_is_found_out(kind: type[ScriptedProfile], sentence: str) -> None:
    async def story() -> None:
        b = Bench()
        hang = b.hang("read") if kind is Sleeps else None
        await check_profile(lambda: kind(b.world, b.plan), SPEC, clock=b.clock, hang=hang)

    with pytest.raises(AssertionError, match=sentence):
        run_virtual(story)
