"""A node's lock goes with the node, and is held by one at a time all the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.contract.local_process.world import World, wait_for

from yaffle.drivers.profiles.local_process.folder import Busy, Folder
from yaffle.model.operations import ProgressState


@pytest.mark.parametrize(
    "command", [["/bin/sleep", "600"], ["/nowhere/at-all"]], ids=["", "failed"]
)
def test_nothing_stays_of_a_node_that_was_deleted(world: World, command: list[str]) -> None:
    target = world.target(command=command, port="auto")
    world.run("CREATE", target)
    assert world.run("DELETE", target).state is ProgressState.DONE
    left = {p.relative_to(world.state_dir) for p in world.state_dir.rglob("*") if p.is_file()}
    assert left == {Path("ports/.lock"), Path(f"tombstones/{target.node_id}.json")}


def test_a_lock_that_is_removed_by_each_holder_has_one_at_a_time(world: World) -> None:
    """Whoever opened the file before it was removed must not hold it beside who makes a new one."""
    folder = Folder(world.state_dir, world.target().node_id)
    counting = threading.Lock()
    held, worst = 0, 0

    def hold_once() -> bool:
        nonlocal held, worst
        with suppress(Busy), folder.locked():
            with counting:
                held += 1
                worst = max(worst, held)
            threading.Event().wait(0.0005)
            with counting:
                held -= 1
            return True
        return False

    def hold(_: int) -> None:
        for _ in range(60):
            wait_for(hold_once, every_s=0.001)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(hold, range(12)))
    assert worst == 1
