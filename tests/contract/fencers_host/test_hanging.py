"""HOST fencing with agents that do not end: nothing of them outlives its time, or whoever wanted it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.contract.fencers_host.rack import Rack, node, running, until
from tests.servers.process import stands_still

from yaffle.integrations import process_tree
from yaffle.model.ids import OperationId
from yaffle.model.operations import FenceVerdict

CONFIRMED, UNKNOWN = FenceVerdict.CONFIRMED, FenceVerdict.UNKNOWN


def test_a_hanging_agent_dies_in_time_with_all_its_children(rack: Rack) -> None:
    mark = str(10_000_000 + uuid.uuid4().int % 1_000_000)
    rack.plan(status={"children": mark, "wait": 600})
    children = rack.folder / "has-children"
    result = rack.fence_on(node(), deadline_s=4, enough=lambda _: children.exists())
    assert children.exists()
    assert result.verdict is UNKNOWN
    assert "did not end in time" in result.detail
    assert running(f"sleep {mark}") == []
    assert running(str(rack.agent)) == []


def test_an_off_that_hangs_leaves_time_to_read_back(rack: Rack) -> None:
    rack.plan(off={"works": True, "wait": 600})
    result = rack.fence_on(node(), deadline_s=6, enough=lambda found: found.verdict is CONFIRMED)
    assert result.verdict is CONFIRMED, result
    assert rack.calls == ["status 7", "off 7", "status 7"]
    assert running(str(rack.agent)) == []


def test_who_gives_up_leaves_nothing_behind(rack: Rack) -> None:
    mark = str(20_000_000 + uuid.uuid4().int % 1_000_000)
    rack.plan(status={"children": mark, "wait": 600})

    async def given_up() -> None:
        fencer = rack.fencer()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(
                fencer.fence(node(), operation_id=OperationId("f"), deadline_s=60)
            )
            while not (rack.folder / "has-children").exists():
                await asyncio.sleep(0.02)
            task.cancel()

    asyncio.run(given_up())
    until(lambda: not running(f"sleep {mark}") and not running(str(rack.agent)))


def test_what_a_runner_without_a_turn_has_started_dies_with_it(rack: Rack) -> None:
    """On a machine that gives it none when its time is over: a late off would hit somebody else."""
    mark = str(40_000_000 + uuid.uuid4().int % 1_000_000)
    rack.plan(status={"children": mark, "wait": 600})

    async def given_up() -> None:
        fencer = rack.fencer()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(
                fencer.fence(node(), operation_id=OperationId("f"), deadline_s=600)
            )
            while not (rack.folder / "has-children").exists():
                await asyncio.sleep(0.02)
            (agent,) = running(str(rack.agent))
            runner = int(process_tree.stat(agent)[1])
            os.kill(runner, signal.SIGSTOP)
            until(lambda: stands_still(runner))
            until(lambda: len(running(f"sleep {mark}")) >= 2)
            task.cancel()

    asyncio.run(given_up())
    until(lambda: not running(f"sleep {mark}") and not running(str(rack.agent)))


ENGINE = """
import asyncio, sys
from pathlib import Path
from tests.contract.fencers_host.rack import Rack, node
rack = Rack(Path(sys.argv[1]))
rack.plan(status={"children": sys.argv[2], "wait": 600})
print(rack.fence(node(), deadline_s=float(sys.argv[3])).verdict)
"""


@pytest.mark.parametrize(
    ("number", "deadline_s"),
    [pytest.param(signal.SIGKILL, 600, id="killed"), pytest.param(signal.SIGSTOP, 3, id="frozen")],
)
def test_no_agent_outlives_its_engine_or_its_time(
    tmp_path: Path, number: signal.Signals, deadline_s: float
) -> None:
    # Where the agent has not even begun when its time is over, it is given more.
    for factor in (1, 4, 16):
        mark = str(30_000_000 + uuid.uuid4().int % 1_000_000)
        folder = tmp_path / str(factor)
        folder.mkdir()
        children = folder / "has-children"
        engine = subprocess.Popen(
            [sys.executable, "-c", ENGINE, str(folder), mark, str(factor * deadline_s)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            until(lambda: children.exists() or engine.poll() is not None)  # noqa: B023
            were_seen = bool(running(f"sleep {mark}"))
            engine.send_signal(number)
            # Frozen, the engine cannot say stop; the time that it gave is over all the same.
            until(lambda: not running(f"sleep {mark}") and not running(f"{folder}/fence_"))  # noqa: B023
        finally:
            engine.kill()
            engine.wait(60)
        if were_seen:
            break
    assert were_seen
