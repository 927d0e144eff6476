"""What a profile may offer besides: the scripted one keeps the checks, bad ones do not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.contract.kit.test_real import CLOCK, SLEEP, local, nodes
from tests.contract.kit.test_scripted import Bench

from yaffle.model.ids import NodeId
from yaffle.model.operations import (
    Inspection,
    InspectionState,
    Operation,
    OperationSpec,
    Progress,
    Target,
    inside,
    on_the_wire,
)
from yaffle.model.properties import Schema, TypeName, shown, updatable
from yaffle.testing import ScriptedProfile, check_adopting, check_profile, check_update, run_virtual


def blank(name: str) -> Target:
    return Target(
        node_id=NodeId(name),
        name=name,
        physical_id="",
        profile_type=ScriptedProfile.type,
        spec={"answer_s": 0.0},
    )


def adopting(kind: type[ScriptedProfile]) -> None:
    async def story() -> None:
        b = Bench()
        stray = ScriptedProfile(b.world).validate({"image": "theirs", "delete_s": 0.1})
        b.world.appear("stray-1", stray)
        await check_adopting(
            lambda: kind(b.world, b.plan), "stray-1", blank("a"), blank("b"), clock=b.clock
        )

    run_virtual(story)


def test_adopting() -> None:
    adopting(ScriptedProfile)


class TakesByLooking(ScriptedProfile):
    """A bad driver: its inspection takes the thing away."""

    async def inspect(self, identity: str, **rest: Any) -> Inspection:
        found = await super().inspect(identity, **rest)
        self.world.give(identity, NodeId("x"))
        return found


class SharesIt(ScriptedProfile):
    """A bad driver: it lets two nodes have the same copy."""

    async def adopt(self, target: Target, *, deadline_s: float) -> Inspection:
        await super().adopt(target, deadline_s=deadline_s)
        return Inspection(state=InspectionState.FOUND, detail="yours too")


@pytest.mark.parametrize(
    ("kind", "why"),
    [(TakesByLooking, "inspecting changes nothing"), (SharesIt, "one owner")],
)
def test_bad_adopters(kind: type[ScriptedProfile], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        adopting(kind)


def updating(kind: type[ScriptedProfile]) -> None:
    async def story() -> None:
        b = Bench()
        target = await b.node("a")
        await check_update(lambda: kind(b.world, b.plan), target, {"label": "x"}, clock=b.clock)
        copies = b.world.alive(target.node_id)
        assert [c.spec["label"] for c in copies] == ["x"]

    run_virtual(story)


def test_update() -> None:
    updating(ScriptedProfile)


class MakesAnother(ScriptedProfile):
    """A bad driver: it calls another copy an update."""

    async def submit(self, op: Operation, **rest: Any) -> Progress:
        done = await super().submit(op, **rest)
        return replace(done, physical_id="another") if op.kind == "UPDATE" else done

    async def poll(self, op: Operation, **rest: Any) -> Progress:
        done = await super().poll(op, **rest)
        return replace(done, physical_id="another") if op.kind == "UPDATE" else done


def test_bad_updater() -> None:
    with pytest.raises(AssertionError, match="keeps the copy"):
        updating(MakesAnother)


class SaysTooLittle(ScriptedProfile):
    """A bad driver: it accepts what its schema does not name."""

    schema: ClassVar[Schema] = {k: v for k, v in ScriptedProfile.schema.items() if k != "label"}


class UpdatesByCopying(ScriptedProfile):
    operations: ClassVar[Mapping[str, OperationSpec]] = {
        **ScriptedProfile.operations,
        "UPDATE": OperationSpec(description="", in_place=False),
    }


@pytest.mark.parametrize(
    ("kind", "why"), [(SaysTooLittle, "does not name: label"), (UpdatesByCopying, "in place")]
)
def test_bad_schemas(kind: type[ScriptedProfile], why: str) -> None:
    async def story() -> None:
        b = Bench()
        await check_profile(lambda: kind(b.world, b.plan), {}, clock=b.clock)

    with pytest.raises(AssertionError, match=why):
        run_virtual(story)


def test_a_local_process_is_described_and_never_adopted(tmp_path: Path) -> None:

    async def story() -> None:
        async with nodes(tmp_path, "a") as (profile, targets):
            facts = await profile.describe(targets[0], deadline_s=60.0)
            assert facts["status"] == "running"
            assert facts["node_ip"] == "127.0.0.1"
            assert "time.sleep(600)" in str(facts["command"])
            assert abs(int(str(facts["started_us"])) - CLOCK.now_us()) < 60_000_000
            seen = await profile.inspect(
                str(facts["pid"]), overrides={}, snapshot=False, deadline_s=60.0
            )
            assert seen.state is InspectionState.REFUSED
            assert "no marker" in seen.detail
        gone = await local(tmp_path).describe(targets[0], deadline_s=60.0)
        assert gone["status"] == "gone"
        assert "pid" not in gone

    asyncio.run(story())
    assert local(tmp_path).validate(SLEEP).keys() == local(tmp_path).schema.keys()


# --- names and schemas ------------------------------------------------------------------------------


def test_operations_have_lower_case_names_outside(tmp_path: Path) -> None:
    operations = local(tmp_path).operations
    assert sorted(on_the_wire(operations)) == ["reboot", "rebuild", "start", "stop"]
    assert inside(operations, "reboot") == "REBOOT"
    assert inside(operations, "REBOOT") is None
    for own in ("create", "delete", "update", "kill", "dance"):
        assert inside(ScriptedProfile.operations, own) is None


def test_a_schema_is_shown_as_senlin_shows_it(tmp_path: Path) -> None:
    told = shown(local(tmp_path).schema)
    assert told["command"] == {
        "type": "List",
        "required": True,
        "updatable": False,
        "description": told["command"]["description"],  # type: ignore[index]
        "schema": {"*": {"type": "String", "required": False, "updatable": False}},
    }
    assert told["stop_signal"]["default"] == "TERM"  # type: ignore[index]


@pytest.mark.parametrize(
    ("old", "new", "can"),
    [
        pytest.param({"label": "a"}, {"label": "b"}, True, id="updatable"),
        pytest.param({"label": "a", "image": "x"}, {"label": "b", "image": "y"}, False, id="mixed"),
        pytest.param({"image": "x"}, {}, False, id="left-out"),
        pytest.param({"image": "x"}, {"image": "x"}, True, id="nothing-differs"),
        pytest.param({}, {"colour": "x"}, False, id="unknown"),
    ],
)
def test_what_can_be_updated(old: dict[str, object], new: dict[str, object], can: bool) -> None:
    assert updatable(ScriptedProfile.schema, old, new) is can


def test_type_names() -> None:
    name = TypeName.of("yaffle.local.process-1.0")
    assert (name.name, name.version) == ("yaffle.local.process", "1.0")
    assert name.support("2026.11") == {"1.0": [{"status": "SUPPORTED", "since": "2026.11"}]}
    assert TypeName.of("bare") == TypeName(name="bare", version="1.0")
