#!/usr/bin/python3 -SE
"""Tells Yaffle's engines over TLS that this host lives: the host, its disk and its clock.

Engines take a host that nobody hears any more for lost, so this does little, waits for nobody, and a disk
or an engine that hangs does not keep it from speaking to the others. When it is stopped it says goodbye:
a shut-down is no failure. It runs as this one file too, with the standard library alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

SENT_S = 5.0
"""So long an engine may take to be connected to, or to answer."""
AGAIN_S = 4.0
DISK_EVERY_S = 10.0
GOODBYE_S = 3.0
REFUSED = b"no: "


def uptime_s() -> float:
    """Return for how long this kernel has run."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def say(text: str) -> None:
    """Write a line, or lose it: whoever reads it must not hold the agent up."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


class Disk(threading.Thread):
    """Writes to the host's disk again and again; `silent_s` tells for how long that has not succeeded."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._path = folder / "written"
        self._written_s = uptime_s()
        self._tried = False

    def run(self) -> None:
        """Write until the process ends; a write that hangs hangs here alone."""
        while True:
            with contextlib.suppress(OSError):
                with self._path.open("w") as file:
                    self._tried = True
                    file.write(f"{uptime_s()}\n")
                    file.flush()
                    os.fdatasync(file.fileno())
                self._written_s = uptime_s()
            time.sleep(DISK_EVERY_S)  # noqa: TID251 - a program of its own

    @property
    def silent_s(self) -> float | None:
        """Return seconds since the last write that succeeded; None where none could be begun."""
        return round(uptime_s() - self._written_s, 1) if self._tried else None


class Record:
    """Remembers on the disk whether the boot before this one ended with a goodbye."""

    def __init__(self, folder: Path) -> None:
        """Read and write it; raise OSError where that cannot be done."""
        self._path = folder / "boot"
        self.boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        before: dict[str, object] = {}
        with contextlib.suppress(FileNotFoundError, ValueError):
            before = dict(json.loads(self._path.read_text()))
        same = before.get("boot") == self.boot
        self.clean = before.get("clean" if same else "goodbye") is True
        self.write(goodbye=False)

    def write(self, *, goodbye: bool) -> None:
        """Write it in one piece."""
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            json.dump({"boot": self.boot, "clean": self.clean, "goodbye": goodbye}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


class Host:
    """What is said of this host, and when it is over."""

    def __init__(self, name: str, record: Record, disk: Disk) -> None:
        self._name, self._record, self._disk = name, record, disk
        self._ends_s: float | None = None
        self.over = threading.Event()

    def end(self) -> None:
        """Let the next word to each engine be the goodbye."""
        self._ends_s = uptime_s()
        self.over.set()

    def line(self) -> bytes:
        """Return what is to be said now; what has the latest uptime was said last."""
        ends_s = self._ends_s
        said = {
            "host": self._name,
            "boot": self._record.boot,
            "clean": self._record.clean,
            "uptime_s": round(ends_s or uptime_s(), 3),
            "at_s": round(time.time(), 3),  # noqa: TID251
            "disk_s": self._disk.silent_s,
            "goodbye": ends_s is not None,
        }
        return json.dumps(said).encode() + b"\n"


class Reporter(threading.Thread):
    """Reports to one engine, for ever."""

    def __init__(self, engine: str, host: Host, trust: ssl.SSLContext, every_s: float) -> None:
        super().__init__(daemon=True)
        name, _, port = engine.rpartition(":")
        self._engine, self._address = engine, (name.strip("[]"), int(port))
        self._host, self._trust, self._every_s = host, trust, every_s
        self._fault: str | None = None

    def run(self) -> None:
        """Connect again and again, until the goodbye."""
        pause_s = 1.0
        while not self._host.over.is_set():
            try:
                with self._connected() as engine:
                    pause_s = 1.0
                    self._report(engine)
            except (OSError, ValueError) as error:
                self._note(str(error) or type(error).__name__)
            self._host.over.wait(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S)

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(self._address, timeout=SENT_S)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._trust.wrap_socket(plain, server_hostname=self._address[0])
        except BaseException:
            plain.close()
            raise

    def _report(self, engine: ssl.SSLSocket) -> None:
        while True:
            over = self._host.over.is_set()
            engine.sendall(self._host.line())
            # An engine that is frozen takes what is sent, and says nothing.
            said = engine.recv(1024)
            if not said.startswith(b"ok"):
                raise ValueError(
                    said.decode(errors="replace").strip() or "it closed the connection"
                )
            self._note("")
            if over:
                return
            self._host.over.wait(self._every_s)

    def _note(self, fault: str) -> None:
        if fault != self._fault:
            say(f"{self._engine}: {fault or 'it hears this host'}")
        self._fault = fault


def options() -> argparse.ArgumentParser:
    """Return what can be asked on the command line."""
    parser = argparse.ArgumentParser(
        prog="yaffle host-agent",
        description="Reports to Yaffle's engines that this host lives, until it is stopped.",
    )
    parser.add_argument(
        "--engine",
        action="append",
        required=True,
        metavar="NAME:PORT",
        help="an engine's listener for heartbeats; give two at least, of two machines",
    )
    parser.add_argument(
        "--ca", required=True, help="file with the authority that engines' certificates are of"
    )
    parser.add_argument(
        "--certificate", required=True, help="file with this host's certificate, which names it"
    )
    parser.add_argument("--key", required=True, help="file with the certificate's key")
    parser.add_argument(
        "--host",
        default=socket.gethostname(),
        help="this host's name, as engines know it (default: the machine's, %(default)s)",
    )
    parser.add_argument(
        "--every", type=float, default=2.0, help="seconds between heartbeats (default %(default)g)"
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/yaffle-host-agent"),
        help="folder on the disk that is tried (default %(default)s)",
    )
    return parser


def arguments() -> argparse.Namespace:
    """Return what was asked; ends the program for what makes no sense."""
    parser = options()
    given = parser.parse_args()
    for engine in given.engine:
        _, colon, port = engine.rpartition(":")
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            parser.error(
                f"--engine {engine}: NAME:PORT is wanted, such as engine1.example.org:8779"
            )
    if not 0.1 <= given.every <= 10:
        parser.error(f"--every {given.every:g}: between 0.1 and 10 seconds")
    return given


def main() -> int:
    """Report until SIGTERM or SIGINT; 2 for what is wrong in the command."""
    given = arguments()
    records: list[Record] = []
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for what, load in (
        (f"--ca {given.ca}", lambda: trust.load_verify_locations(given.ca)),
        (
            f"--certificate {given.certificate}, --key {given.key}",
            lambda: trust.load_cert_chain(given.certificate, given.key, password=lambda: ""),
        ),
        (f"--state-dir {given.state_dir}", lambda: given.state_dir.mkdir(0o700, exist_ok=True)),
        (f"--state-dir {given.state_dir}", lambda: records.append(Record(given.state_dir))),
    ):
        try:
            load()
        except OSError as error:
            say(f"{what}: {error}")
            return 2
    stops = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    threading.stack_size(256 * 1024)
    os.set_blocking(2, False)
    disk = Disk(given.state_dir)
    (record,) = records
    host = Host(given.host, record, disk)
    reporters = [Reporter(engine, host, trust, given.every) for engine in given.engine]
    for thread in (disk, *reporters):
        thread.start()
    signal.sigwait(stops)
    host.end()
    ends_s = uptime_s() + GOODBYE_S
    for reporter in reporters:
        reporter.join(max(0.0, ends_s - uptime_s()))
    with contextlib.suppress(OSError):
        record.write(goodbye=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
