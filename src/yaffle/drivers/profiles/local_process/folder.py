"""A node's files: written whole or not at all, guarded by a lock that its launcher inherits.

<state_dir>/nodes/<node_id>/        0700: record.json, launch.json, node.log, work/
<state_dir>/tombstones/<node_id>.json
<state_dir>/locks/<node_id>         outside the folder, which DELETE removes
<state_dir>/ports/<node_ip>-<port>  see `ports.py`
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from yaffle.drivers.profiles.local_process.record import (
    Launch,
    Record,
    Tombstone,
    decode_launch,
    decode_record,
    decode_tombstone,
    encode,
)

TOMBSTONES_MAX: Final = 4096
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Busy(Exception):
    """Somebody else, perhaps a launcher on its way, holds the lock: ask again later."""


class Folder:
    """Paths and files of one node. Methods raise OSError; reading also RecordUnreadable."""

    def __init__(self, state_dir: Path, node_id: str) -> None:
        if not _SAFE_NAME.fullmatch(node_id):
            raise ValueError(f"node id {node_id!r} cannot name a folder")
        self.node_id = node_id
        self.state_dir = state_dir
        self.path = state_dir / "nodes" / node_id
        self.work = self.path / "work"
        self.log = self.path / "node.log"
        self._record = self.path / "record.json"
        self.launch = self.path / "launch.json"
        self._tombstone = state_dir / "tombstones" / f"{node_id}.json"

    def make(self) -> None:
        """Create the private folders; what lies there stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.work.mkdir(mode=0o700, exist_ok=True)

    def load(self) -> Record | None:
        """Return the record, or None where there is none."""
        data = _read(self._record)
        return None if data is None else decode_record(data, place=str(self._record))

    def save(self, record: Record) -> None:
        """Write the record, durably."""
        self.make()
        write_whole(self._record, encode(record))

    def load_launch(self) -> Launch | None:
        """Return what the last launcher wrote."""
        data = _read(self.launch)
        return None if data is None else decode_launch(data, place=str(self.launch))

    def load_tombstone(self) -> Tombstone | None:
        """Return what a deleted node left behind."""
        data = _read(self._tombstone)
        return None if data is None else decode_tombstone(data, place=str(self._tombstone))

    def bury(self, tombstone: Tombstone) -> None:
        """Leave the tombstone; from here on the deletion is a fact."""
        self._tombstone.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._tombstone, encode(tombstone))
        _forget_oldest(self._tombstone.parent)

    def unbury(self) -> None:
        """Remove the tombstone, once a record says everything it said."""
        self._tombstone.unlink(missing_ok=True)

    def removable(self) -> list[Path]:
        """Return everything in the folder but what a successor needs to carry on."""
        kept = (self.launch, self._record)
        return sorted(path for path in self.path.iterdir() if path not in kept)

    def remove(self) -> None:
        """Remove what is left of the folder."""
        self.launch.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)
        self.path.rmdir()

    def sweep(self) -> None:
        """Remove the empty folder that a crash between record and folder leaves behind."""
        with suppress(OSError):
            self.path.rmdir()

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the node's lock, raising Busy at once where it is taken; yields its descriptor.

        The lock belongs to the open file, which a launcher inherits: an engine that dies between
        fork and exec leaves it locked until the launcher has either become the node or ended.
        """
        path = self.state_dir / "locks" / self.node_id
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"node {self.node_id} is being acted upon by somebody else") from None
            if not _is_still(path, descriptor):
                raise Busy(f"node {self.node_id} has just been deleted by somebody else")
            yield descriptor
            # Of a node that is gone nothing stays. Whoever opened the file before sees that it is none.
            if not self.path.exists():
                path.unlink(missing_ok=True)
        finally:
            # Closed, never LOCK_UN: unlocking would take the lock from the launcher as well.
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the path leads to that very file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file so that a reader, or a crash, sees the old content or the new one."""
    # Writers of one file hold one lock, so a left-over of the same name is nobody's.
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget_oldest(tombstones: Path) -> None:
    """Keep the number of tombstones bounded; runs after a write, so one too many is one to go."""
    with os.scandir(tombstones) as entries:
        files = [(entry.stat().st_mtime_ns, entry.path) for entry in entries]
    for _, path in sorted(files)[:-TOMBSTONES_MAX]:
        Path(path).unlink(missing_ok=True)
