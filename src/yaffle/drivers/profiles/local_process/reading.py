"""Reading of nodes, without a lock and without changing anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from yaffle.drivers.profiles.local_process import process_table
from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.procfs import STOPPED, Procfs, ProcUnreadable, Stat
from yaffle.drivers.profiles.local_process.record import Launch, Record, RecordUnreadable
from yaffle.model.operations import Reading, Target

_UNCLEAR: Final = "unclear"


class Reader:
    """One pass: the list of processes is read once, and only when some node needs it."""

    def __init__(
        self, state_dir: Path, procfs: Procfs, passes: process_table.Passes | None = None
    ) -> None:
        self._state_dir = state_dir
        self._procfs = procfs
        self._source = passes or process_table.Passes(procfs)
        self._passes: list[process_table.Snapshot] = []

    def read(self, targets: Sequence[Target]) -> list[Reading]:
        """Return one reading per target, in order; never raises what it expects."""
        return [self._guarded(target) for target in targets]

    def _guarded(self, target: Target) -> Reading:
        try:
            return self._one(Folder(self._state_dir, target.node_id))
        except (OSError, ValueError, ProcUnreadable, RecordUnreadable) as error:
            return _unclear(f"cannot tell: {error}")

    def _one(self, folder: Folder) -> Reading:
        self._procfs.check()
        record, launch = folder.load(), folder.load_launch()
        physical_id = "" if record is None else record.physical_id
        main = None
        if launch is not None and not launch.error:
            main = self._procfs.find(launch.identity)
        if main is not None and main.alive:
            return self._present(main, physical_id)
        rest = self._rest(folder, launch)
        if record is None and not rest.empty:
            return _unclear(f"no record, but processes carry the node's marker: pids {rest}")
        status, detail = self._absent(record, launch, main)
        if not rest.empty:
            detail += f"; still there: pids {rest}"
        return Reading(
            exists=not rest.empty,
            up=False,
            backend_status=status,
            detail=detail,
            physical_id=physical_id,
        )

    def _present(self, main: Stat, physical_id: str) -> Reading:
        status, up = "running", True
        if main.state in STOPPED:
            status, up = "stopped (frozen)", False
        elif self._procfs.frozen(main.pid):
            status, up = "frozen (control group)", False
        return Reading(
            exists=True,
            up=up,
            backend_status=status,
            detail=f"pid {main.pid} ({main.command}), state {main.state}",
            physical_id=physical_id,
        )

    def _absent(
        self, record: Record | None, launch: Launch | None, main: Stat | None
    ) -> tuple[str, str]:
        if record is None:
            return "gone", "no such node here"
        if launch is None:
            return "gone", "never started"
        if launch.error:
            return "gone", f"not started: {launch.error}"
        if not record.wanted:
            return "off", "stopped on request"
        if main is not None:
            return "zombie", f"pid {main.pid} has ended{main.ending} and was not reaped"
        if launch.boot != self._procfs.boot():
            return "gone", f"pid {launch.pid} ended with an earlier boot of the machine"
        if self._procfs.stat(launch.pid) is not None:
            return "gone", f"pid {launch.pid} has ended; its number belongs to another process now"
        return "exited", f"pid {launch.pid} has ended"

    def _rest(self, folder: Folder, launch: Launch | None) -> process_table.ProcessTable:
        """Return what lives of the node; two passes before "nothing"."""
        started = None if launch is None or launch.error else launch.identity
        found = process_table.ProcessTable(members=(), doubtful=())
        for number in range(2):
            if len(self._passes) == number:
                self._passes.append(self._source.take())
            found = process_table.of_node(
                self._procfs,
                self._passes[number],
                folder.node_id,
                started=started,
                folder=folder.path,
            )
            if not found.empty:
                break
        return found


def _unclear(detail: str) -> Reading:
    return Reading(exists=True, up=None, backend_status=_UNCLEAR, detail=detail, asked=False)
