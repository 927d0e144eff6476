"""The lab's power controller: the one owner of its hosts, a process outside of all of them.

`python -m lab.pacemaker.power STATE PARENT`: it ends with process PARENT, unless that is 0. One JSON
object a line on `STATE/power.sock` asks for one thing, one line answers. What it did, and when, is in
`STATE/power.log`: what the BMCs themselves recorded.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
START_S: Final = 10.0
POLL_S: Final = 0.02
SLOW_S: Final = 8.0
FAULTS: Final = ("well", "dead", "refuses", "lies", "slow")
"""What a BMC can be: `dead` answers nobody, `refuses` says no, `lies` says yes and does nothing."""
HAND: Final = "hand"
"""Who asked, where no BMC was: whoever stands at the plug."""


class Power:
    """The hosts of one lab, by name."""

    def __init__(self, state: Path) -> None:
        self._state = state
        facts = json.loads((state / "lab.json").read_text())
        self._lab: str = facts["lab"]
        self._names: list[str] = facts["hosts"]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._locks = {name: threading.Lock() for name in self._names}
        self._faults: dict[str, str] = {}
        self._cut: set[str] = set()
        self._dead: set[str] = set()
        """Hosts that have ended by themselves: their power is on, and nothing runs."""

    def answer(self, asked: dict[str, Any]) -> str:
        """Do what is asked and return one line; raises OSError and subprocess errors."""
        verb, name = str(asked["verb"]), str(asked.get("host", ""))
        if verb == "list":
            return " ".join(self._names)
        if name not in self._locks:
            return f"error: there is no host {name!r}"
        fault = self._faults.get(name, "well") if asked.get("bmc") else "well"
        by = str(asked.get("by", "bmc")) if asked.get("bmc") else HAND
        asked_s, said = time.time(), "error: it failed"
        try:
            said = self._behave(verb, name, fault, str(asked.get("word", "")))
        finally:
            if verb in {"on", "off"} or (verb == "status" and by != HAND):
                entry = {"at": asked_s, "verb": verb, "host": name, "bmc": fault, "by": by}
                self._log({**entry, "done": time.time(), "said": said})
        return said

    def _behave(self, verb: str, name: str, fault: str, word: str) -> str:
        """Answer as whoever is asked for it does: the hand at the plug always, a BMC by its fault."""
        if fault == "dead":
            return "error: the BMC cannot be reached"
        if fault == "refuses" and verb in {"on", "off"}:
            return "error: refused"
        if fault == "lies":
            return {"status": "off"}.get(verb, "ok")
        if fault == "slow":
            time.sleep(SLOW_S)
        with self._locks[name]:
            return self._do(verb, name, word)

    def _do(self, verb: str, name: str, word: str) -> str:
        match verb:
            case "status":
                return "on" if self._alive(name) or name in self._dead else "off"
            case "pid":
                return str(self._first_process(name) or "error: it is off")
            case "on":
                self._start(name)
            case "off":
                self._stop(name)
            case "panic":
                self._stop(name)
                self._dead.add(name)
            case "freeze" | "thaw":
                self._signal(name, signal.SIGSTOP if verb == "freeze" else signal.SIGCONT)
            case "cut":
                self._cut.add(name)
                self._port(name, "down")
            case "mend":
                self._cut.discard(name)
                self._port(name, "up")
            case "bmc":
                self._faults[name] = word
            case _:
                return f"error: there is no verb {verb!r}"
        return "ok"

    def _log(self, entry: dict[str, object]) -> None:
        with (self._state / "power.log").open("a") as log:
            log.write(json.dumps(entry) + "\n")

    def _alive(self, name: str) -> bool:
        process = self._running.get(name)
        return process is not None and process.poll() is None

    def _first_process(self, name: str) -> int | None:
        if not self._alive(name):
            return None
        outer = self._running[name].pid
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])
        return None

    def _start(self, name: str) -> None:
        if self._alive(name) or name in self._dead:
            return
        folder = self._state / "hosts" / name
        (folder / "log").mkdir(parents=True, exist_ok=True)
        if name not in self._cut:
            self._port(name, "up")
        role = "cluster" if name.startswith("c") else "remote"
        words = [
            "ip",
            "netns",
            "exec",
            f"{self._lab}-{name}",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
        ]
        words += ["--fork", "--kill-child", "--mount-proc", str(HERE / "inside" / "host.sh")]
        with (folder / "log" / "host.out").open("ab") as out:
            self._running[name] = subprocess.Popen(
                [*words, str(self._state), name, role],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        end_s = time.monotonic() + START_S
        while self._first_process(name) is None:
            if not self._alive(name) or time.monotonic() > end_s:
                raise OSError(f"{name} did not start; see {folder}/log/host.out")
            time.sleep(POLL_S)

    def _stop(self, name: str) -> None:
        self._dead.discard(name)
        # The link goes first: a host that loses its power says goodbye to nobody.
        self._port(name, "down")
        process = self._running.pop(name, None)
        first = None
        if process is not None:
            with contextlib.suppress(OSError, ValueError, IndexError):
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
                first = int(children.read_text().split()[0])
            process.kill()
            process.wait()
        # Its namespace dies with its first process, whatever was frozen in it.
        while first is not None and Path(f"/proc/{first}").exists():
            time.sleep(POLL_S)

    def _signal(self, name: str, number: signal.Signals) -> None:
        listed = _run("ip", "netns", "pids", f"{self._lab}-{name}").split()
        for pid in map(int, listed):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _port(self, name: str, state: str) -> None:
        _run("ip", "-n", f"{self._lab}-sw", "link", "set", f"p{name}", state)

    def stop_all(self) -> None:
        """Pull every plug."""

        def stop(name: str) -> None:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                self._stop(name)

        with ThreadPoolExecutor(8) as hands:
            list(hands.map(stop, self._names))


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=30).stdout


def ask(state: Path, verb: str, host: str = "", word: str = "", *, within_s: float = 30.0) -> str:
    """Ask the controller of a lab for one thing; raises OSError where it is away or says no."""
    with socket.socket(socket.AF_UNIX) as power:
        power.settimeout(within_s)
        power.connect(str(state / "power.sock"))
        power.sendall(json.dumps({"verb": verb, "host": host, "word": word}).encode() + b"\n")
        said = power.makefile().readline().strip()
    if not said or said.startswith("error"):
        raise OSError(f"{verb} {host}: {said or 'no answer'}")
    return said


def main(state: Path, parent: int) -> None:
    """Answer until SIGTERM, or until `parent` has ended."""
    power = Power(state)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                said = power.answer(json.loads(self.rfile.readline()))
            except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                said = f"error: {error}".replace("\n", " ")
            with contextlib.suppress(OSError):
                self.wfile.write(said.encode() + b"\n")

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True
        request_queue_size = 512

    place = state / "power.sock"
    place.unlink(missing_ok=True)

    def orphaned() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    with Server(str(place), Handler) as server:
        signal.signal(
            signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start()
        )
        if parent:
            threading.Thread(target=orphaned, daemon=True).start()
        server.serve_forever(poll_interval=0.1)
    power.stop_all()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
