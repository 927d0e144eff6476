"""COMPUTE fencing: confirmed only with a proof that was read back."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.contract.local_process.world import PYTHON, World, wait_for

from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.profiles.local_process import LocalProcess
from yaffle.drivers.profiles.local_process.procfs import Procfs
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import OperationId
from yaffle.model.operations import (
    FenceResult,
    FenceVerdict,
    Hindrance,
    Operation,
    ProgressState,
    Reading,
    Target,
)
from yaffle.ports import DriverContext

ESCAPE = (
    "import os, signal, time, pathlib\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "if os.fork() == 0: os.setsid(); pathlib.Path('ready').touch()\n"
    "time.sleep(600)"
)


def fence(
    fencer: ComputeFencer, target: Target, name: str = "fence-1", deadline_s: float = 10
) -> FenceResult:
    return asyncio.run(fencer.fence(target, operation_id=OperationId(name), deadline_s=deadline_s))


def test_a_fence_is_proved_and_idempotent(world: World) -> None:
    target = world.target(command=[*PYTHON, ESCAPE])
    assert world.run("CREATE", target).state is ProgressState.DONE
    wait_for((world.folder(target) / "work" / "ready").exists)
    pids = sorted(world.carriers())
    assert len(pids) == 2
    result = fence(world.fencer(), target)
    assert result.verdict is FenceVerdict.CONFIRMED, result
    assert not world.carriers()
    assert result.proof
    assert result.proof.method == "sigkill+procfs"
    assert str(pids) in result.proof.evidence
    assert "no carrier of" in result.proof.evidence
    assert result.proof.by.endswith(str(os.getpid()))
    for name in ("fence-1", "fence-2"):
        assert fence(world.fencer(), target, name).verdict is FenceVerdict.CONFIRMED


def test_what_never_was_is_confirmed(world: World) -> None:
    assert fence(world.fencer(), world.target()).verdict is FenceVerdict.CONFIRMED
    assert not world.folder(world.target()).exists()


def test_an_old_proof_does_not_cover_a_new_copy(world: World) -> None:
    target = world.target()
    world.run("CREATE", target)
    assert fence(world.fencer(), target).verdict is FenceVerdict.CONFIRMED
    world.run("START", target)
    result = fence(world.fencer(), target)
    assert result.verdict is FenceVerdict.UNKNOWN
    assert result.proof is None
    assert len(world.carriers()) == 1


def test_without_proc_nothing_is_confirmed(world: World, tmp_path: Path) -> None:
    target = world.target()
    world.run("CREATE", target)
    # It takes all of its time: what was held up for longer than that has not even said why.
    result = fence(world.fencer(Procfs(tmp_path / "no-proc")), target, deadline_s=4)
    assert result.verdict is FenceVerdict.UNKNOWN
    assert "cannot tell" in result.detail
    assert len(world.carriers()) == 1
    assert result.proof is None


class Starved(Procfs):
    """A machine that has no descriptor left whenever a process is to be looked at."""

    def _bytes(self, pid: int, place: str) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class Halved(Procfs):
    """One that has none left for what a process carries."""

    def _environ(self, pid: int, place: str) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("procfs", [Starved, Halved])
def test_out_of_descriptors_nothing_is_taken_for_gone(world: World, procfs: type[Procfs]) -> None:
    target = world.target()
    world.run("CREATE", target)
    # Nobody has noted which process it is: then only what it carries tells.
    (world.folder(target) / "launch.json").unlink()
    result = fence(world.fencer(procfs()), target, deadline_s=2)
    assert (result.verdict, result.proof) == (FenceVerdict.UNKNOWN, None), result
    reading = asyncio.run(world.profile(procfs()).read([target], deadline_s=60))[0]
    assert (reading.up, reading.asked) == (None, False), reading
    op = Operation(kind="CREATE", target=target)
    made = asyncio.run(
        world.profile(procfs()).submit(op, operation_id=OperationId("again"), deadline_s=60)
    )
    assert (made.state, made.hindrance) == (ProgressState.FAILED, Hindrance.UNASKED), made
    assert len(world.carriers()) == 1


class Optimist(LocalProcess):
    """Reads back that the node is still there, whatever KILL said."""

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        readings = await super().read(targets, deadline_s=deadline_s)
        return [dataclasses.replace(reading, exists=True) for reading in readings]


def test_the_reading_has_the_last_word(world: World) -> None:
    target = world.target()
    world.run("CREATE", target)
    plain = DriverContext(clock=world.clock, state_dir=world.state_dir)
    profile = Optimist(plain)
    fencer = ComputeFencer(dataclasses.replace(plain, profiles={profile.type: profile}))
    assert fence(fencer, target).verdict is FenceVerdict.UNKNOWN


def test_profiles_without_the_verb_are_not_supported(world: World) -> None:
    plain = DriverContext(clock=world.clock, state_dir=world.state_dir)
    stranger = ComputeFencer(plain)
    assert not stranger.supports(world.target())
    assert fence(stranger, world.target()).verdict is FenceVerdict.REFUSED
    assert world.fencer().supports(world.target())


def test_what_is_to_be_moved_is_not_ended_first() -> None:
    fencer = ComputeFencer(DriverContext(clock=SystemClock(), state_dir=Path()))
    assert "move" in fencer.defeats("EVACUATE")
    assert fencer.defeats("RECREATE") == ""
