"""Ports for nodes: free, nobody else's, and the same one again for the same node.

A claim is a small file `<state_dir>/ports/<node_ip>-<port>` that holds the node's id. It counts only
while that node's record names the port, so a claim left by a crash is taken over by the next.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from yaffle.drivers.profiles.local_process.folder import Busy, Folder
from yaffle.drivers.profiles.local_process.record import Record, RecordUnreadable


class PortTaken(Exception):
    """Raised where no port is free: the message says which was asked for and who has it."""


class Ports:
    """The port book of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._book = state_dir / "ports"
        # Threads of one process take turns without polling the file lock.
        self._turn = threading.Lock()

    def assign(
        self, record: Record, *, fixed: int | None, span: tuple[int, int], wait_s: float
    ) -> Record:
        """Return the record with a port, already saved; raises PortTaken, Busy or OSError.

        The record is saved before the book is closed: from then on the claim counts.
        """
        with self._open(wait_s):
            for port in self._candidates(record, fixed, span):
                if self._claim(record, port, must_be_free=fixed is None):
                    chosen = replace(record, port=port)
                    Folder(self._state_dir, record.node_id).save(chosen)
                    return chosen
        wish = f"port {fixed}" if fixed is not None else f"a free port in {span[0]}-{span[1]}"
        raise PortTaken(
            f"{wish} on {record.node_ip} is not to be had: other nodes or programs use it"
        )

    def release(self, record: Record) -> None:
        """Give the node's port back; idempotent."""
        if record.port is not None:
            claim = self._path(record.node_ip, record.port)
            if _holder(claim) == record.node_id:
                claim.unlink(missing_ok=True)

    def _candidates(
        self, record: Record, fixed: int | None, span: tuple[int, int]
    ) -> Iterator[int]:
        if fixed is not None:
            yield fixed
            return
        low, high = span
        if record.port is not None and low <= record.port <= high:
            yield record.port
        width = high - low + 1
        # Spread by node, so that a thousand nodes do not all try the same first port.
        first = int.from_bytes(hashlib.sha256(record.node_id.encode()).digest()[:8]) % width
        for step in range(width):
            yield low + (first + step) % width

    def _claim(self, record: Record, port: int, *, must_be_free: bool) -> bool:
        claim = self._path(record.node_ip, port)
        holder = _holder(claim)
        if holder not in (None, record.node_id) and self._counts(str(holder), port):
            return False
        if must_be_free and not _free(record.node_ip, port):
            return False
        claim.write_text(record.node_id)
        return True

    def _counts(self, holder: str, port: int) -> bool:
        try:
            other = Folder(self._state_dir, holder).load()
        except (RecordUnreadable, OSError):
            return True
        except ValueError:
            return False
        return other is not None and other.port == port

    def _path(self, node_ip: str, port: int) -> Path:
        return self._book / f"{node_ip}-{port}"

    @contextmanager
    def _open(self, wait_s: float) -> Iterator[None]:
        if not self._turn.acquire(timeout=max(0.0, wait_s)):
            raise Busy("the port book is in use")
        try:
            self._book.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._book / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise Busy("the port book is in use by another engine") from None
                yield
            finally:
                os.close(descriptor)
        finally:
            self._turn.release()


def _holder(claim: Path) -> str | None:
    # Nobody's only where there is none: what cannot be read may be somebody's.
    with suppress(FileNotFoundError):
        return claim.read_text().strip() or None
    return None


def _free(node_ip: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in node_ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections of the last copy may linger; a listener still makes the bind fail.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((node_ip, port))
        except OSError:
            return False
    return True
