"""How a node's process ended is told where the kernel still tells it: nobody but its parent is asked."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.local_process.world import World

from yaffle.model.operations import ProgressState

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def childless() -> Iterator[None]:
    """Let what our launchers leave be ours, and wait for it only at the end."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


@pytest.mark.parametrize(
    ("end", "told"),
    [
        pytest.param("os.kill(os.getpid(), 9)", ", killed by SIGKILL", id="signal"),
        pytest.param("os._exit(3)", ", exit code 3", id="code"),
        pytest.param("os._exit(0)", "", id="well"),
    ],
)
@pytest.mark.usefixtures("childless")
def test_how_it_ended_is_told(world: World, tmp_path: Path, end: str, told: str) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    code = f"import os; open({str(go)!r}).read(); {end}"
    target = world.target(command=[sys.executable, "-I", "-S", "-c", code])
    made = world.run("CREATE", target)
    assert made.state is ProgressState.DONE
    pid = int(re.findall(r"pid (\d+)", made.detail)[0])
    go.write_text("")
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    assert world.read(target).detail == f"pid {pid} has ended{told} and was not reaped"
    assert os.waitpid(pid, 0)[0] == pid
    assert world.read(target).backend_status == "exited"
    world.run("DELETE", target)
