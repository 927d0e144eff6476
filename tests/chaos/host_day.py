"""A bad day of hosts: who does harm to a real cluster, its engines and their recovery controller.

Nothing here looks at how Yaffle works inside. What was done, and when, is kept for the judge.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from lab.openstack.errors import LabError
from lab.pacemaker.cluster import PacemakerLab
from tests.chaos.fleet.proxy import Mode, Network, Proxy
from tests.chaos.host_history import MACHINE, Deed, Power, Request
from tests.functional.cli.support import Server

MANNERS: Final = ("accepts", "accepts", "moody", "fails", "hangs", "dies", "away")
AWAY: Final = (Mode.STALL, Mode.HOLE, Mode.REFUSE, Mode.MUTE)
HANGS_S: Final = 20.0
HELD_UP_S: Final = 1.0
"""The cluster asks each host every second, and waits for two."""
FOR_EVER: Final = float("inf")
SOON_S: Final = 10.0
LONG_S: Final = 45.0
"""A day on which hosts stay away for longer has time for what our own fencers do."""
QUIET: Final = 2
"""So many hosts are never harmed, so that whoever switches them off is found out."""


class Controller:
    """A recovery controller that keeps every request, and whose manners change.

    It `accepts`, `fails` (500), `hangs`, or `dies`: it takes a request and answers nothing. `moody` is
    any of these at each request; while it is `away` nobody listens.
    """

    def __init__(self, rng: random.Random) -> None:
        self.requests: list[Request] = []
        self.manner = "accepts"
        self._rng = rng
        self._calm = threading.Event()
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self._listen()

    def behave(self, manner: str) -> None:
        """Change its manners; whoever hangs is let go."""
        if (manner == "away") != (self._server is None):
            if self._server is None:
                self._listen()
            else:
                self._leave()
        self.manner = manner
        self._calm.set()
        self._calm = threading.Event()

    def close(self) -> None:
        """Be gone for good."""
        self.behave("away")

    def _listen(self) -> None:
        there = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                there.hear(self)

            def log_message(self, *args: object) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Listener(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _leave(self) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._server = None

    def hear(self, handler: BaseHTTPRequestHandler) -> None:
        """Note one request, and answer as its manners are now."""
        length, calm = int(handler.headers.get("Content-Length", "0")), self._calm
        body = handler.rfile.read(length)
        if len(body) < length:
            return  # the sender was killed amid its request
        said = json.loads(body)
        request = Request(
            at_s=time.time(),
            ident=said["id"],
            hostname=said["payload"]["hostname"],
            failure_s=said["payload"]["failure_time"],
            accepted=False,
            document=json.dumps(said, sort_keys=True),
        )
        with self._lock:
            place, manner = len(self.requests), self.manner
            self.requests.append(request)
            if manner == "moody":
                manner = self._rng.choice(["accepts", "fails", "hangs", "dies"])
        if manner == "hangs":
            calm.wait(HANGS_S)
        if manner not in {"accepts", "fails"}:
            return
        # Whatever becomes of the answer: who answers so has it.
        with self._lock:
            self.requests[place] = replace(request, accepted=manner == "accepts")
        with contextlib.suppress(OSError):
            handler.send_response(202 if manner == "accepts" else 500)
            handler.end_headers()


@dataclass(kw_only=True)
class Day:
    """Does harm at random, brings everything back after a while, and calms down at the end."""

    lab: PacemakerLab
    engines: list[Server]
    network: Network
    databases: list[Proxy]
    """By which each engine comes to the database."""
    controller: Controller
    rng: random.Random
    back_s: float = SOON_S
    """For so long, at the most, a host stays as it was left."""
    deeds: list[Deed] = field(default_factory=list)
    held_up: list[Deed] = field(default_factory=list)
    _later: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _open: dict[str, int] = field(default_factory=dict)
    """Who is harmed now, and the place of that deed."""
    _hands: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(3))
    _starts: list[Future[None]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._hands.submit(self._watch_machine)

    def _watch_machine(self) -> None:
        """Note when the machine holds everybody up: a cluster misses hosts then that nobody harmed."""
        before_s = time.time()
        while not self._over.wait(0.2):
            now_s = time.time()
            if now_s - before_s > HELD_UP_S:
                self.held_up.append(Deed(at_s=before_s, what="held up", whom=MACHINE, end_s=now_s))
            before_s = now_s

    def act(self, seconds: float) -> None:
        """Do random harm for so long; a host that loses its power comes first."""
        until_s = time.monotonic() + seconds
        names = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
        name = "lose_power"
        while time.monotonic() < until_s:
            ACTS[name](self)
            next_s = time.monotonic() + self.rng.uniform(0.5, 4.0 if self.back_s >= LONG_S else 2.0)
            while time.monotonic() < next_s:
                self.tend()
                time.sleep(0.1)
            name = self.rng.choice(names)

    def calm(self) -> None:
        """Mend everything, as people would."""
        self._do_due(FOR_EVER)
        for name in (*self.lab.members, *self.lab.remotes):
            self._back(name)
        for start in self._starts:
            start.result()
        self.controller.behave("accepts")

    def tend(self) -> None:
        """Do what is due, and switch on whom somebody has switched off, after a while as people would."""
        self._do_due(time.monotonic())
        self._switch_on()

    def close(self) -> None:
        """Let no hand go on."""
        self._over.set()
        self._hands.shutdown(wait=True, cancel_futures=True)

    def reconnect(self, host: str) -> None:
        """Stop the connection to a host on purpose, and start it again."""
        self._begin("connected anew", host)
        with contextlib.suppress(LabError):
            self.lab.reconnect(host)
        self._end(host)

    # --- how things are done ----------------------------------------------------------------------

    def _begin(self, what: str, whom: str) -> None:
        self._open[whom] = len(self.deeds)
        self.deeds.append(Deed(at_s=time.time(), what=what, whom=whom, end_s=FOR_EVER))

    def _end(self, whom: str) -> None:
        if (place := self._open.pop(whom, None)) is not None:
            self.deeds[place] = replace(self.deeds[place], end_s=time.time())

    def _in(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), do))

    def _do_due(self, now_s: float) -> None:
        while self._later and self._later[0][0] <= now_s:
            heapq.heappop(self._later)[2]()

    def _back(self, name: str) -> None:
        """Have a machine as it should be: on, connected, going on, with a BMC that is well."""
        for verb in ("thaw", "mend"):
            self.lab.power(verb, name)
        self.lab.power("bmc", name, "well")
        try:
            self.lab.power("pid", name)
        except LabError:
            # It is off, or it has ended by itself with its power on.
            with contextlib.suppress(LabError):
                self.lab.power("off", name)
                self.lab.power("on", name)
        self._end(name)

    def _switch_on(self) -> None:
        """Whoever was switched off for what was mended before is found, and switched on."""
        for name in (*self.lab.members, *self.lab.remotes):
            if name not in self._open and self.lab.power("status", name) == "off":
                self._begin("was switched off", name)
                self._in(self.rng.uniform(1.0, 5.0), lambda name=name: self._back(name))  # type: ignore[misc]

    def _host(self) -> str | None:
        well = [name for name in self.lab.remotes[:-QUIET] if name not in self._open]
        return self.rng.choice(well) if well else None

    def _harm(
        self, verb: str, host: str | None, bmc: str = "well", *, after_s: float | None = None
    ) -> None:
        """Do one thing to a host, and bring it back later."""
        if host is None:
            return
        self._begin(f"{verb}, BMC {bmc}", host)
        self.lab.power("bmc", host, bmc)
        self.lab.power(verb, host)
        if after_s is None:
            least_s = 2.0 if bmc == "well" else 6.0
            after_s = self.rng.uniform(least_s, self.rng.choice([SOON_S, self.back_s]))
        if bmc != "well" and self.rng.random() < 0.7:
            # Before the host is brought back, somebody may still fence it.
            self._in(after_s / 2, lambda: void(self.lab.power("bmc", host, "well")))
        self._in(after_s, lambda: self._back(host))

    # --- what is done -----------------------------------------------------------------------------

    def lose_power(self) -> None:
        self._harm("off", self._host())

    def freeze(self) -> None:
        self._harm("freeze", self._host())

    def panic(self) -> None:
        self._harm("panic", self._host())

    def cut(self) -> None:
        self._harm("cut", self._host())

    def blink(self) -> None:
        if (host := self._host()) is not None:
            self._begin("cut for a moment", host)
            self.lab.power("cut", host)
            self._in(self.rng.uniform(0.3, 2.5), lambda: self._back(host))

    def reboot(self, times: int = 1) -> None:
        if (host := self._host()) is None:
            return
        self._begin(f"rebooted {times} times", host)
        at_s = 0.0
        for _ in range(times):
            self._in(at_s, lambda: void(self.lab.power("off", host)))
            at_s += self.rng.uniform(0.0, 0.5)
            self._in(at_s, lambda: void(self.lab.power("on", host)))
            at_s += self.rng.uniform(0.5, 4.0)
        self._in(at_s, lambda: self._back(host))

    def flap(self) -> None:
        self.reboot(self.rng.randint(2, 4))

    def break_bmc(self) -> None:
        """A host fails whose BMC does not do what it should; or its BMC alone."""
        verb = self.rng.choice(["off", "freeze", "cut", "mend"])
        self._harm(verb, self._host(), self.rng.choice(["dead", "refuses", "slow", "lies"]))

    def several(self) -> None:
        for _ in range(self.rng.randint(2, 3)):
            self._harm(self.rng.choice(["off", "freeze", "cut"]), self._host())

    def harm_member(self) -> None:
        """One at a time, so that there is a quorum: the others have to have formed a cluster again."""
        if self._troubled() or len(members(self.lab)) < 3:
            return
        name, verb = self.rng.choice(self.lab.members), self.rng.choice(["off", "freeze", "cut"])
        self._begin(verb, name)
        self.lab.power(verb, name)
        self._in(self.rng.uniform(2.0, max(self.back_s, 6.0)), lambda: self._back(name))

    def _troubled(self) -> bool:
        return any(name in self._open for name in ("cluster", *self.lab.members))

    def forbid_fencing(self) -> None:
        """The cluster misses a host and fences nobody; there has to be time for us to do so.

        Not while a member is away: such a cluster would miss all hosts to which that was connected.
        """
        if self.back_s < LONG_S or self._troubled():
            return
        self._begin("fencing forbidden", "cluster")
        fencing_allowed(self.lab, allowed=False)
        after_s = self.rng.uniform(LONG_S, self.back_s)
        self._harm("cut", self._host(), after_s=after_s)

        def allow() -> None:
            fencing_allowed(self.lab, allowed=True)
            self._end("cluster")

        self._in(after_s, allow)

    def _engine(self) -> int | None:
        well = [n for n in range(len(self.engines)) if f"engine {n}" not in self._open]
        return self.rng.choice(well) if well else None

    def kill_engine(self) -> None:
        if (number := self._engine()) is None:
            return
        engine, name = self.engines[number], f"engine {number}"
        self._begin("killed", name)
        code = engine.stop(signal.SIGKILL)
        assert code == -signal.SIGKILL, f"{name} had ended by itself, with {code}"

        def start() -> None:
            engine.start()
            self._end(name)

        after_s = self.rng.uniform(0.0, 5.0)
        self._in(after_s, lambda: self._starts.append(self._hands.submit(start)))

    def stop_engine(self) -> None:
        """One that does not run for some seconds finds out that its lease is over."""
        if (number := self._engine()) is None:
            return
        running, name = self.engines[number].running, f"engine {number}"
        assert running is not None
        self._begin("stopped", name)
        running.signal(signal.SIGSTOP)

        def go_on() -> None:
            running.signal(signal.SIGCONT)
            self._end(name)

        self._in(self.rng.uniform(1.0, 14.0), go_on)

    def take_database(self) -> None:
        """Take the database from one engine, or from both."""
        mode = self.rng.choice(AWAY)
        for _ in range(self.rng.choice([1, 2])):
            if (number := self._engine()) is None:
                return
            name, proxy = f"engine {number}", self.databases[number]
            self._begin(f"database: {mode}", name)
            self.network.turn(proxy, mode)

            def give(name: str = name, proxy: Proxy = proxy) -> None:
                self.network.turn(proxy, Mode.OPEN)
                self._end(name)

            self._in(self.rng.uniform(1.0, 20.0), give)

    def change_manners(self) -> None:
        self.controller.behave(self.rng.choice(MANNERS))


WEIGHTS: Final = {
    "lose_power": 3, "freeze": 2, "panic": 2, "cut": 2, "blink": 2, "reboot": 3, "flap": 1,
    "break_bmc": 3, "several": 1, "forbid_fencing": 2, "harm_member": 2, "kill_engine": 2,
    "stop_engine": 2, "take_database": 3, "change_manners": 4,
}  # fmt: skip
ACTS: Final[dict[str, Callable[[Day], None]]] = {name: getattr(Day, name) for name in WEIGHTS}


def void(value: object) -> None:
    """Drop a value."""


def members(lab: PacemakerLab) -> set[str]:
    """Return the members that one of them sees; none while none answers."""
    for name in lab.members:
        with contextlib.suppress(LabError):
            return set(lab.run("crm_node", "--partition", host=name, within_s=3).split())
    return set()


def fencing_allowed(lab: PacemakerLab, *, allowed: bool) -> None:
    """Say whether the cluster may fence; to whichever member listens."""
    for name in lab.members:
        with contextlib.suppress(LabError):
            said = ("-n", "stonith-enabled", "-v", str(allowed).lower())
            lab.run("crm_attribute", *said, host=name, within_s=5)
            return


def missed(lab: PacemakerLab) -> dict[str, list[tuple[float, float]]]:
    """Return when a member's fencer did not count a host among its cluster, as it wrote itself."""
    found: dict[str, list[tuple[float, float]]] = {}
    for member in lab.members:
        since: dict[str, float] = {}
        log = lab.state / "hosts" / member / "log" / "pacemaker.log"
        for line in log.read_text(errors="replace").splitlines():
            if (said := NOW_IS.search(line)) is None:
                continue
            when, host, state = said.groups()
            year = time.localtime().tm_year
            at_s = datetime.strptime(f"{year} {when}", "%Y %b %d %H:%M:%S.%f").timestamp()
            if state == "lost":
                since.setdefault(host, at_s)
            elif host in since:
                found.setdefault(host, []).append((since.pop(host), at_s))
        for host, at_s in since.items():
            found.setdefault(host, []).append((at_s, FOR_EVER))
    return found


NOW_IS: Final = re.compile(
    r"^(\w+ \d+ [\d:.]+) .*update_peer_state.*: Node (h\d+) state is now (\w+)"
)


def powers(lab: PacemakerLab) -> list[Power]:
    """Return what the power controller has recorded."""
    return [
        Power(
            at_s=float(str(r["at"])),
            done_s=float(str(r["done"])),
            verb=str(r["verb"]),
            host=str(r["host"]),
            by=str(r["by"]),
            bmc=str(r["bmc"]),
            said=str(r["said"]),
        )
        for r in lab.recorded()
    ]
