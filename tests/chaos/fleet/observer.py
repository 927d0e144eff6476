"""Looks at a fleet ten times a second, from outside: the database's rows and this machine's processes.

Two threads, because a database that hangs must not keep us from seeing a second copy of a node.
How long the fleet waits for a processor is noted: a busy machine excuses a late takeover, and never
a doubled effect.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.diary import Diaries, state_of
from tests.chaos.fleet.evidence import Change, Holder, Look, Session, Sight
from tests.chaos.fleet.server import ERRORS, Reader, Row
from tests.chaos.lab import now_us

PACE_S = 0.1
HUNG_US = 1_000_000
"""A look is answered within milliseconds; where it takes longer than this the server did not answer."""
NOBODY = Holder("", 0, 0)
TABLES: Mapping[str, tuple[str, str]] = {
    # table → its key, and which rows may change; those that were open before are looked at again
    "actions": ("id", "end_us is null"),
    "steps": ("action_id, seq", "ended_us is null"),
    "nodes": ("id", "1 = 1"),
    "incidents": ("id", "open_key is not null"),
    "proofs": ("id", "1 = 0"),
}


@dataclass
class Observer:
    """Made by `observing`."""

    connect: Callable[[], Reader]
    diaries: Diaries
    workers: Callable[[], Sequence[Path]]
    """Folders of /proc with the threads whose waiting excuses a late takeover."""
    looks: list[Look] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    late: list[tuple[int, int]] = field(default_factory=list)
    era: int = 0
    _turn: int = -1
    """Nothing is written without moving it, so while it stands there is nothing to read."""
    _last: Look | None = None
    _known: dict[tuple[str, str], Row] = field(default_factory=dict)
    _open: dict[str, set[str]] = field(default_factory=dict)
    _pids: dict[int, str | None] = field(default_factory=dict)
    _waits: dict[str, int] = field(default_factory=dict)
    _reader: Reader | None = None
    _end: threading.Event = field(default_factory=threading.Event)

    def went_back(self) -> None:
        """Compare no later row with an earlier one: the database is put back to an older state."""
        self.era += 1
        self._turn = -1
        self._known.clear()
        self._open.clear()

    # --- rows --------------------------------------------------------------------------------------

    def read_rows(self) -> None:
        """Look at the database until told to end."""
        while not self._end.wait(PACE_S):
            era, at_us = self.era, now_us()
            try:
                if self._reader is None:
                    self._reader = self.connect()
                look, found = self._look(self._reader, at_us, era)
            except ERRORS:
                if self._reader is not None:
                    self._reader.close()
                    self._reader = None
                self.looks += _silence(at_us, era)
                self._turn = -1
                continue
            if era != self.era:
                continue
            if now_us() - at_us > HUNG_US:
                self.looks += _silence(at_us, era)
                look = dataclasses.replace(look, at_us=now_us())
            self.looks.append(look)
            self._last = look
            if found:
                self._compare(found)
        if self._reader is not None:
            self._reader.close()

    def _look(
        self, reader: Reader, at_us: int, era: int
    ) -> tuple[Look, Mapping[str, Sequence[Row]]]:
        db_us, turn = reader.moment()
        if turn == self._turn and self._last is not None and self._last.era == era:
            return dataclasses.replace(self._last, at_us=at_us, db_us=db_us), {}
        with reader.snapshot():
            _, turn = reader.moment()
            watches = reader.rows(
                "select c.id, w.owner, w.epoch, w.lease_us from clusters c"
                " left join watches w on w.cluster_id = c.id"
            )
            engines = reader.rows("select id, pid, epoch, seen_us, stopped_us from engines")
            stops = reader.rows(
                "select 1 as one from pauses where kind = 'stop' and lifted_us is null"
                " and (expires_us is null or expires_us > %s)",
                db_us,
            )
            found = {table: self._rows(reader, table) for table in TABLES}
        look = Look(
            at_us,
            db_us,
            {
                r["id"]: Holder(r["owner"] or "", r["epoch"] or 0, r["lease_us"] or 0)
                for r in watches
            },
            {
                r["id"]: Holder(r["owner"], r["epoch"], r["lease_us"])
                for r in found["actions"]
                if r["status"] == "RUNNING"
            },
            {
                r["id"]: Session(r["pid"], r["epoch"], r["seen_us"], r["stopped_us"])
                for r in engines
            },
            bool(stops),
            era,
        )
        self._turn = turn
        return look, found

    def _rows(self, reader: Reader, table: str) -> Sequence[Row]:
        """Return what may have changed since the last look."""
        _, where = TABLES[table]
        if table == "proofs":
            return reader.rows("select * from proofs order by at_us desc limit 10")
        ids = sorted(self._open.get(table, ()))
        column = "action_id" if table == "steps" else "id"
        if table == "steps":
            where = "action_id in (select id from actions where end_us is null)"
        if ids:
            where += f" or {column} in ({', '.join(['%s'] * len(ids))})"
        return reader.rows(f"select * from {table} where {where}", *ids)

    def _compare(self, found: Mapping[str, Sequence[Row]]) -> None:
        number = len(self.looks) - 1
        for table, rows in found.items():
            for row in rows:
                key = f"{row['action_id']}/{row['seq']}" if table == "steps" else str(row["id"])
                before = self._known.get((table, key))
                if before != row:
                    self._known[table, key] = row
                    self.changes.append(Change(number, table, key, before, row))
        unended = {str(r["id"]) for r in found["actions"] if r["end_us"] is None}
        self._open = {
            "actions": unended,
            "steps": unended,
            "incidents": {str(r["id"]) for r in found["incidents"] if r["open_key"]},
        }

    # --- processes ---------------------------------------------------------------------------------

    def read_processes(self) -> None:
        """Look at the processes until told to end, and note how the machine lets them wait."""
        last: Mapping[str, tuple[tuple[int, str], ...]] = {}
        while not self._end.is_set():
            began_us = now_us()
            self._end.wait(PACE_S)
            # What we wait too long ourselves: a machine that stands still as a whole makes nobody wait
            # for a processor.
            held_up_us = max(0, now_us() - began_us - int(PACE_S * 1e6))
            if waited_us := max(held_up_us, self._waited_us()):
                self.late.append((now_us(), waited_us))
            seen = self._processes()
            if seen != last:
                self.sights.append(Sight(now_us(), seen))
                last = seen

    def _waited_us(self) -> int:
        """Return for how long the fleet's threads have waited for a processor since the last time."""
        total_ns = 0
        for folder in self.workers():
            with suppress(OSError):
                for thread in os.listdir(folder):  # noqa: PTH208 - it comes and goes
                    with suppress(OSError, IndexError):
                        text = (folder / thread / "schedstat").read_text()
                        waited_ns = int(text.split()[1])
                        total_ns += waited_ns - self._waits.get(thread, waited_ns)
                        self._waits[thread] = waited_ns
        return total_ns // 1000

    def _processes(self) -> Mapping[str, tuple[tuple[int, str], ...]]:
        pids = {int(e.name) for e in Path("/proc").iterdir() if e.name.isdigit()}
        for gone in self._pids.keys() - pids:
            del self._pids[gone]
        found: dict[str, list[tuple[int, str]]] = {}
        for pid in pids:
            name = self._name(pid)
            if name and (state := state_of(pid)) not in {"Z", "X"}:
                # Running and sleeping are one: what matters is whether it can answer.
                found.setdefault(name, []).append((pid, "T" if state in "Tt" else "R"))
        return {name: tuple(sorted(some)) for name, some in sorted(found.items())}

    def _name(self, pid: int) -> str | None:
        """Return which node a process is; remembered once it has come to its own command."""
        if pid in self._pids:
            return self._pids[pid]
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            folder = str(self.diaries.folder).encode()
            if folder in words and b"webnode" in words[words.index(folder) - 3]:
                name = words[words.index(folder) - 1].decode()
                if b"nsenter" not in words[0]:
                    self._pids[pid] = name
                return name
            if not words or (b"python" not in words[0] and b"nsenter" not in words[0]):
                self._pids[pid] = None
        return None


def _silence(asked_us: int, era: int) -> Sequence[Look]:
    """Return that the database did not answer from when it was asked until now."""
    return Look(asked_us, None, era=era), Look(now_us(), None, era=era)


@contextmanager
def observing(
    connect: Callable[[], Reader],
    diaries: Diaries,
    workers: Callable[[], Sequence[Path]] = tuple,
) -> Iterator[Observer]:
    """Look on until the block ends."""
    made = Observer(connect, diaries, workers)
    threads = [
        threading.Thread(target=work, name=work.__name__, daemon=True)
        for work in (made.read_rows, made.read_processes)
    ]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made._end.set()
        for thread in threads:
            thread.join(60)
