"""Process table: what a node forks, daemonises or forgets is found by marker and session.

Three proofs make a process the node's own: it carries `YAFFLE_NODE_ID` in its environment, or it is
in the session of the process we started while that one is still there to vouch for the number, or
it is in that session and writes into the node's private folder. A process in a session of that
number without any proof is *doubtful*: it is never signalled, and while it lives nothing is proved.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yaffle.drivers.profiles.local_process.procfs import Identity, Procfs, ProcHidden, Stat

NODE: Final = "YAFFLE_NODE_ID"
PHYSICAL: Final = "YAFFLE_PHYSICAL_ID"
OPERATION: Final = "YAFFLE_OPERATION_ID"
_NODE: Final = NODE.encode()
_OPERATION: Final = OPERATION.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """The living processes of one node. Zombies are left out: they cannot act."""

    members: tuple[Stat, ...]
    doubtful: tuple[Stat, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing of the node lives, for certain."""
        return not self.members and not self.doubtful

    def __str__(self) -> str:
        names = [f"{m.pid} ({m.command}, state {m.state})" for m in self.members[:8]]
        names += [f"{d.pid} ({d.command}, perhaps not ours)" for d in self.doubtful[:8]]
        left_out = len(self.members) + len(self.doubtful) - len(names)
        return ", ".join(names) + (f" and {left_out} more" if left_out else "")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot of /proc; serves every node at once."""

    living: tuple[Stat, ...]
    nodes: dict[int, str]
    """Node id carried by a pid."""
    operations: dict[int, str]
    """Operation id carried by a pid."""


def take(procfs: Procfs, strangers: dict[int, int] | None = None) -> Snapshot:
    """Read all processes once; raises ProcUnreadable.

    `strangers`: when each pid began that was found to bear no marker; those are not read again, and
    it is brought up to date. Nothing becomes a node's later but a launcher, which holds the lock of
    its node while it begins. One whose environment was empty may be in the middle of an exec.
    """
    before = {} if strangers is None else strangers
    living: list[Stat] = []
    nodes: dict[int, str] = {}
    operations: dict[int, str] = {}
    unmarked: dict[int, int] = {}
    for pid in procfs.pids():
        stat = _visible(procfs, pid)
        if stat is None or not stat.alive:
            continue
        living.append(stat)
        if before.get(pid) == stat.start:
            unmarked[pid] = stat.start
            continue
        environment = procfs.environment(stat) or b""
        if _NODE not in environment:
            if environment:
                unmarked[pid] = stat.start
            continue
        for entry in environment.split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == _NODE:
                nodes[pid] = value.decode("utf-8", "replace")
            elif name == _OPERATION:
                operations[pid] = value.decode("utf-8", "replace")
    if strangers is not None:
        strangers.clear()
        strangers.update(unmarked)
    return Snapshot(tuple(living), nodes, operations)


class Passes:
    """Shares passes among threads: each caller gets one that began after it asked, never an older.

    Two hundred nodes that are made at once ask for hundreds of passes over the same processes.
    """

    def __init__(self, procfs: Procfs) -> None:
        self._procfs = procfs
        self._changed = threading.Condition()
        self._begun = 0
        self._over = 0
        self._last: Snapshot | None = None
        self._running = False
        self._strangers: dict[int, int] = {}

    def take(self) -> Snapshot:
        """Return a pass that began after this call; raises ProcUnreadable."""
        with self._changed:
            wanted = self._begun + 1
            while self._running:
                self._changed.wait()
                if self._over >= wanted and self._last is not None:
                    return self._last
            return self._pass()

    def _pass(self) -> Snapshot:
        """Make the pass; entered and left holding the lock, which nobody holds meanwhile."""
        self._begun += 1
        mine = self._begun
        self._running, found = True, None
        self._changed.release()
        try:
            found = take(self._procfs, self._strangers)
        finally:
            self._changed.acquire()
            self._running = False
            # One that failed serves nobody: whoever waits makes a pass of its own.
            self._over, self._last = mine, found
            self._changed.notify_all()
        return found


def _visible(procfs: Procfs, pid: int) -> Stat | None:
    try:
        return procfs.stat(pid)
    except ProcHidden:
        # Another user's, on a /proc that hides those: nodes run as the same user as we do.
        return None


def of_node(
    procfs: Procfs, snapshot: Snapshot, node_id: str, *, started: Identity | None, folder: Path
) -> ProcessTable:
    """Pick one node's processes; `started` is the process that was launched last."""
    numbered = started is not None and started.boot == procfs.boot()
    leader = procfs.stat(started.pid) if started is not None and numbered else None
    vouched = leader is not None and started is not None and leader.start == started.start
    # While any member of a session lives, the kernel keeps its number from being used again. So a
    # stranger under that pid proves that the session ended, and that its namesake is not ours.
    ended = leader is not None and not vouched
    members: list[Stat] = []
    doubtful: list[Stat] = []
    for stat in snapshot.living:
        if snapshot.nodes.get(stat.pid) == node_id:
            members.append(stat)
        elif started is not None and numbered and not ended and stat.session == started.pid:
            known = vouched or procfs.writes_into(stat.pid, folder)
            (members if known else doubtful).append(stat)
    return ProcessTable(members=tuple(members), doubtful=tuple(doubtful))
