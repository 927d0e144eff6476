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
RESOLVED_S = 2.0
"""So long a name may take; where it takes longer, its last addresses are used."""
ADDRESSES_MAX = 2
"""Of one engine, or an agent would take too long to be back."""
RECORD_S = 2.0
"""So long the record on the disk is waited for; without it the host is reported all the same."""
AGAIN_S = 4.0
DISK_EVERY_S = 10.0
GOODBYE_S = 3.0
UNTRUSTED = (
    "it closed the connection before it said anything; is this host's certificate of the authority that"
    " the engine trusts?"
)


def uptime_s() -> float:
    """Return for how long this kernel has run."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def say(text: str) -> None:
    """Write a line, or lose it: whoever reads it must not hold the agent up."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


class Record:
    """Remembers on the disk whether the boot before this one ended with a goodbye."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "boot"
        self.boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.clean = False

    def begin(self) -> None:
        """Read and write it; raise OSError where that cannot be done."""
        before: object = None
        with contextlib.suppress(FileNotFoundError, ValueError):
            before = json.loads(self._path.read_text())
        if isinstance(before, dict):
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


class Disk(threading.Thread):
    """Writes to the host's disk again and again: what hangs there hangs here alone."""

    def __init__(self, folder: Path, record: Record) -> None:
        super().__init__(daemon=True)
        self._folder, self._record = folder, record
        self._written_s = uptime_s()
        self.asked = threading.Event()
        """Set when the record has been read, or could not be."""

    def run(self) -> None:
        """Begin the record, and write until the process ends."""
        try:
            self._folder.mkdir(0o700, exist_ok=True)
            self._record.begin()
        except OSError as error:
            say(f"{self._folder}: {error}; it is not remembered how this boot ends")
        self.asked.set()
        while True:
            with contextlib.suppress(OSError):
                with (self._folder / "written").open("w") as file:
                    file.write(f"{uptime_s()}\n")
                    file.flush()
                    os.fdatasync(file.fileno())
                self._written_s = uptime_s()
            time.sleep(DISK_EVERY_S)  # noqa: TID251 - a program of its own

    @property
    def silent_s(self) -> float:
        """Return seconds since the last write that succeeded, or since the start."""
        return round(uptime_s() - self._written_s, 1)


class Host:
    """What is said of this host, and when it is over."""

    def __init__(self, name: str, record: Record, disk: Disk, every_s: float) -> None:
        self._name, self._record, self._disk = name, record, disk
        self.every_s = every_s
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
            "every_s": self.every_s,
            "goodbye": ends_s is not None,
        }
        return json.dumps(said).encode() + b"\n"


class Reporter(threading.Thread):
    """Reports to one engine, for ever."""

    def __init__(self, engine: str, host: Host, trust: ssl.SSLContext) -> None:
        super().__init__(daemon=True)
        name, _, port = engine.rpartition(":")
        self._engine, self._name, self._port = engine, name.strip("[]"), int(port)
        self._host, self._trust = host, trust
        self._fault: str | None = None
        self._pause_s = 1.0
        self._resolver: threading.Thread | None = None
        self._addresses: list[str] = []
        self._unresolved = "its name is not resolved yet"

    def run(self) -> None:
        """Connect again and again, until the goodbye."""
        while not self._host.over.is_set():
            try:
                with self._connected() as engine:
                    self._report(engine)
            except (OSError, ValueError) as error:
                self._note(str(error) or type(error).__name__)
            self._host.over.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, AGAIN_S)

    def _connected(self) -> ssl.SSLSocket:
        fault = OSError(self._unresolved)
        for address in self._resolved():
            try:
                plain = socket.create_connection((address, self._port), timeout=SENT_S)
            except OSError as error:
                fault = error
                continue
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return self._trust.wrap_socket(plain, server_hostname=self._name)
            except BaseException:
                plain.close()
                raise
        raise fault

    def _resolved(self) -> list[str]:
        """Return the engine's addresses, the last ones where the resolver does not answer."""
        if self._resolver is None or not self._resolver.is_alive():
            self._resolver = threading.Thread(target=self._resolve, daemon=True)
            self._resolver.start()
        self._resolver.join(RESOLVED_S)
        return self._addresses[:ADDRESSES_MAX]

    def _resolve(self) -> None:
        try:
            found = socket.getaddrinfo(self._name, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._unresolved = str(error)
        else:
            self._addresses = [str(one[4][0]) for one in found]

    def _report(self, engine: ssl.SSLSocket) -> None:
        heard = False
        while True:
            over = self._host.over.is_set()
            engine.sendall(self._host.line())
            # An engine that is frozen takes what is sent, and says nothing.
            said = engine.recv(1024).decode(errors="replace").strip()
            if not said.startswith("ok"):
                raise ValueError(said or ("it closed the connection" if heard else UNTRUSTED))
            heard, self._pause_s = True, 1.0
            self._note("")
            if over:
                return
            self._host.over.wait(self._host.every_s)

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
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    what = f"--ca {given.ca}"
    try:
        trust.load_verify_locations(given.ca)
        what = f"--certificate {given.certificate}, --key {given.key}"
        trust.load_cert_chain(given.certificate, given.key, password=lambda: "")
    except OSError as error:
        say(f"{what}: {error}")
        return 2
    stops = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    threading.stack_size(256 * 1024)
    if not os.isatty(2):
        # A terminal is others' too, and would stay so.
        os.set_blocking(2, False)
    record = Record(given.state_dir)
    disk = Disk(given.state_dir, record)
    host = Host(given.host, record, disk, given.every)
    reporters = [Reporter(engine, host, trust) for engine in given.engine]
    disk.start()
    disk.asked.wait(RECORD_S)
    for reporter in reporters:
        reporter.start()
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
