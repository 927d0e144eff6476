"""A node of another machine is never judged gone, and nothing is done to it, by whoever cannot see it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.local_process.world import World, wait_for

from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.profiles.local_process import LocalProcess
from yaffle.engine.runtime.machine_id import home_of
from yaffle.errors import ConfigError
from yaffle.model.ids import OperationId
from yaffle.model.machine_identity import MachineIdentity
from yaffle.model.operations import FenceVerdict, Operation, Progress, ProgressState, Target
from yaffle.ports import DriverContext

HERE = MachineIdentity(ident="here", host="alpha")
THERE = MachineIdentity(ident="there", host="beta")


def driver(world: World, state_dir: Path, home: MachineIdentity) -> LocalProcess:
    """A driver as an engine on that machine has it."""
    return LocalProcess(DriverContext(clock=world.clock, state_dir=state_dir, home=home))


def run(profile: LocalProcess, kind: str, target: Target) -> Progress:
    """Submit, and poll to the end, as an engine does."""

    async def carry_out() -> Progress:
        op, ident = Operation(kind=kind, target=target), OperationId(f"{kind}-{target.node_id}")
        done = await profile.submit(op, operation_id=ident, deadline_s=60)
        while done.state is ProgressState.RUNNING:
            await asyncio.sleep(0.02)
            done = await profile.poll(op, operation_id=ident, deadline_s=60)
        return done

    return asyncio.run(carry_out())


@pytest.fixture
def node(world: World) -> Target:
    """A node that was made here, as the database knows it afterwards."""
    target = world.target()
    done = run(driver(world, world.state_dir, HERE), "CREATE", target)
    assert done.state is ProgressState.DONE
    assert done.attributes is not None
    assert HERE.stamp().items() <= done.attributes.items()
    return replace(target, physical_id=done.physical_id or "", attributes=done.attributes)


def test_elsewhere_nothing_is_known_of_it(world: World, node: Target, tmp_path: Path) -> None:
    there = driver(world, tmp_path / "other", THERE)
    stranger = world.target(1)
    both = asyncio.run(there.read([node, stranger], deadline_s=60))
    assert (both[0].exists, both[0].up, both[0].backend_status) == (True, None, "elsewhere")
    assert "belongs to host alpha" in both[0].detail
    assert (both[1].exists, both[1].backend_status) == (False, "gone")
    ours = driver(world, world.state_dir, HERE)
    assert asyncio.run(ours.read([node], deadline_s=60))[0].up is True


@pytest.mark.parametrize("kind", ["CREATE", "DELETE", "REBOOT", "STOP", "START"])
def test_elsewhere_nothing_is_done_to_it(
    kind: str, world: World, node: Target, tmp_path: Path
) -> None:
    # The same state directory even, as over a network: the machine is what counts.
    for state_dir in (tmp_path / "other", world.state_dir):
        done = run(driver(world, state_dir, THERE), kind, node)
        assert done.state is ProgressState.FAILED
        assert "belongs to host alpha" in done.detail
    assert len(world.carriers(node)) == 1
    assert not (tmp_path / "other" / "nodes").exists()


def test_elsewhere_no_fence_is_proved(world: World, node: Target, tmp_path: Path) -> None:
    there = driver(world, tmp_path / "other", THERE)
    context = DriverContext(
        clock=world.clock, state_dir=tmp_path / "other", profiles={there.type: there}
    )
    done = asyncio.run(
        ComputeFencer(context).fence(node, operation_id=OperationId("f"), deadline_s=60)
    )
    assert done.verdict is FenceVerdict.REFUSED
    assert done.proof is None
    assert len(world.carriers(node)) == 1


def test_what_there_is_to_show_says_where_it_is(world: World, node: Target, tmp_path: Path) -> None:
    there = driver(world, tmp_path / "other", THERE)
    assert "host alpha" in asyncio.run(there.capture(node, deadline_s=60))
    assert "host alpha" in str(asyncio.run(there.describe(node, deadline_s=60)))


def test_every_engine_of_one_machine_may_act(world: World, node: Target) -> None:
    second = driver(world, world.state_dir, replace(HERE, host="renamed"))
    pid = next(iter(world.carriers(node)))
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: asyncio.run(second.read([node], deadline_s=60))[0].up is False)
    assert run(second, "DELETE", node).state is ProgressState.DONE
    assert not world.carriers(node)


def test_a_home_is_drawn_once_for_each_machine(tmp_path: Path) -> None:
    ids = [tmp_path / "a", tmp_path / "b"]
    for path, letter in zip(ids, "ab", strict=True):
        path.write_text(f"{letter * 32}\n")
    state = tmp_path / "state"
    first, second = (home_of(state, machine_id=path) for path in ids)
    assert first.ident != second.ident, "two machines that share a folder are two homes"
    assert home_of(state, machine_id=ids[0]) == first
    assert home_of(tmp_path / "else", machine_id=ids[0]).ident != first.ident
    nameless = home_of(state, machine_id=tmp_path / "none")
    assert nameless.ident not in {first.ident, second.ident}
    assert home_of(state, machine_id=tmp_path / "none") == nameless


def test_engines_that_start_at_once_share_a_home(tmp_path: Path) -> None:
    found: list[str] = []
    start = threading.Barrier(8)

    def begin() -> None:
        start.wait(60)
        found.append(home_of(tmp_path).ident)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [p.name for p in (tmp_path / "homes").iterdir() if p.name.startswith(".")] == []


def test_a_home_that_cannot_be_kept_is_a_fault_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "homes").write_text("not a folder")
    with pytest.raises(ConfigError, match="state_dir"):
        home_of(tmp_path)


def test_who_is_foreign() -> None:
    assert HERE.foreign({}) == ""
    assert HERE.foreign(HERE.stamp()) == ""
    assert "host beta" in HERE.foreign(THERE.stamp())
    same_host = replace(THERE, host=HERE.host)
    assert "another state directory" in HERE.foreign(same_host.stamp())
