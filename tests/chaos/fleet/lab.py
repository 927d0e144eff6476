"""A fleet: several engines and one API on a private database server, nodes with diaries, one machine.

Every engine is a real `yaffle engine` with a proxy of its own to the database, and where asked for a
network namespace of its own; the state directory is one, so that any of them can act on any node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.chaos.diary import Diaries, is_alive
from tests.chaos.fleet.engines import Engine, Program, wait
from tests.chaos.fleet.proxy import Network, network
from tests.chaos.fleet.server import ERRORS, Reader, Row
from tests.chaos.fleet.space import Space, space
from tests.chaos.lab import UNLIMITED, WEBNODE, policy
from tests.chaos.receiver import Receiver
from tests.servers.clock import FAKETIME
from tests.servers.fixtures import Server
from tests.servers.process import free_port

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store.database import prepare_server

PORTS = range(30000, 32000)
"""Below Linux's outgoing ports and outside the default range: a rule may name them all."""
REFERENCE = f"reference.invalid:{PORTS.stop - 1}"
"""In a policy: what answers whenever the network to the nodes works."""
BUDGETS = dict.fromkeys(("total", "project", "domain", "host", "cluster"), UNLIMITED)
HEALED_S = 60.0


@dataclass
class Fleet:
    """Made by `fleet()`; engines are named a, b, c."""

    root: Path
    server: Server
    url: str
    receiver: Receiver
    network: Network
    lease: float
    diaries: Diaries
    spaces: Sequence[Space] = ()
    source: Path | None = None
    engines: dict[str, Engine] = field(default_factory=dict)
    api: Program = field(init=False)
    http: httpx.Client = field(init=False)
    clusters: dict[str, str] = field(default_factory=dict)
    """Name → id."""
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def database(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def node_ip(self) -> str:
        """Where nodes listen."""
        return self.spaces[0].gateway if self.spaces else "127.0.0.1"

    @property
    def reference(self) -> str:
        """What stands for REFERENCE."""
        return f"{self.node_ip}:{PORTS.stop - 1}"

    def settings(self, name: str, url: str, host: str) -> Mapping[str, object]:
        """Return one process's settings."""
        return {
            "state_dir": str(self.root / "state"),
            "database": {"url": url},
            "local_process": {"enabled": True},
            "engine": {"lease": self.lease, "poll": 0.5, "listen": "127.0.0.1:0"},
            "budgets": BUDGETS,
            "log": {"format": "text"},
            "notifiers": {"hook": {**self.receiver.settings, "url": self.receiver.url(host)}},
        }

    def add_engine(self, number: int) -> Engine:
        """Make an engine; it is not started."""
        name = "abcdefgh"[number]
        mine = self.spaces[number] if self.spaces else None
        host = mine.gateway if mine else "127.0.0.1"
        proxy = self.network.proxy(("127.0.0.1", self.server.port), host=host)
        base, _, rest = self.url.partition("@")
        url = f"{base}@{proxy.address[0]}:{proxy.address[1]}/{rest.rpartition('/')[2]}"
        made = Engine(
            name,
            "engine",
            self.root,
            self.settings(name, url, host),
            source=self.source,
            space=mine,
            steppable=FAKETIME.exists(),
            network=self.network,
            database=proxy,
            node_ports=PORTS,
        )
        self.engines[name] = made
        return made

    def falls(self) -> Sequence[str]:
        """Return which processes have ended though nobody asked them to."""
        programs = (*self.engines.values(), self.api)
        for program in programs:
            program.note_fall()
        return [fall for program in programs for fall in program.falls.values()]

    def forget_falls(self) -> None:
        """Begin to look anew."""
        for program in (*self.engines.values(), self.api):
            program.falls.clear()

    def start(self, engines: int) -> None:
        """Start so many engines and the API, and wait for them."""
        (self.root / "state").mkdir(parents=True, exist_ok=True)
        for number in range(engines):
            self.add_engine(number).start()
        settings = dict(self.settings("api", self.url, "127.0.0.1"))
        port = free_port()
        settings["server"] = {"listen": f"127.0.0.1:{port}"}
        self.api = Program("api", "api", self.root, settings, source=self.source)
        self.api.launch()
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False,
            headers={"OpenStack-API-Version": "clustering 1.14"},
        )  # fmt: skip
        wait(self._api_answers, 120, "the API answers")
        for engine in self.engines.values():
            engine.ready()

    def _api_answers(self) -> bool:
        assert self.api.alive, self.api.log()[-3000:]
        try:
            return self.http.get("/v1/profiles").status_code == 200
        except httpx.TransportError:
            return False

    # --- asking ------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask the API; raises httpx.HTTPError where it cannot or does not want to."""
        answer = self.http.request(method, path, json=body)
        if answer.is_error:
            raise httpx.HTTPError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.content else None

    def profile(self, name: str = "web") -> None:
        """Make the profile of web nodes."""
        enter = ["nsenter", f"--net=/proc/{os.getpid()}/ns/net"] if self.spaces else []
        command = [
            *enter, sys.executable, "-I", "-S", str(WEBNODE), "{port}", "{nodename}",
            str(self.diaries.folder), self.node_ip,
        ]  # fmt: skip
        properties = {
            "command": command, "stop_timeout": 1, "node_ip": self.node_ip,
            "port_range": [PORTS.start, PORTS.stop - 2],
        }  # fmt: skip
        spec = {"type": "yaffle.local.process", "version": "1.0", "properties": properties}
        self.ask("POST", "/v1/profiles", {"profile": {"name": name, "spec": spec}})

    def policy(self, name: str, document: str) -> None:
        """Make a policy."""
        self.ask("POST", "/v1/policies", {"policy": {"name": name, "spec": as_spec(document)}})

    def cluster(
        self, name: str, size: int, *, policy_name: str | None, profile: str = "web"
    ) -> str:
        """Make a cluster and attach a policy; return its id."""
        wanted = {
            "name": name, "profile_id": profile, "desired_capacity": size,
            "config": {"node.name.format": f"{name}-$I"},
        }  # fmt: skip
        made = self.ask("POST", "/v1/clusters", {"cluster": wanted})["cluster"]
        self.clusters[name] = str(made["id"])
        self.sizes[name] = size
        if policy_name:
            self.wait(lambda: self._attached(name, policy_name), 60, "the cluster is made")
        return str(made["id"])

    def _attached(self, cluster: str, policy_name: str) -> bool:
        """Attach a policy; False while the cluster is locked."""
        attach = {"policy_attach": {"policy_id": policy_name, "enabled": True}}
        path = f"/v1/clusters/{cluster}/actions"
        answer = self.http.post(path, json=attach)
        assert answer.status_code in {202, 409}, answer.text
        return answer.status_code == 202

    # --- looking -----------------------------------------------------------------------------------

    def rows(self, sql: str, *values: object) -> Sequence[Row]:
        """Read the database, straight; raises one of ERRORS while it is away."""
        reader = Reader(self.server, self.database, patience_s=30)
        try:
            return reader.rows(sql, *values)
        finally:
            reader.close()

    def nodes(self) -> Mapping[str, Row]:
        """Return the nodes' rows by name; empty while the database is away."""
        try:
            return {str(r["name"]): r for r in self.rows("select * from nodes order by name")}
        except ERRORS:
            return {}

    def healthy(self) -> bool:
        """Whether every node is believed to be well, runs, and nothing is under way."""
        found = self.nodes()
        return bool(found) and all(
            n["health"] == "healthy" and n["status"] == "ACTIVE" and self.diaries.running(name)
            for name, n in found.items()
        )

    def told(self) -> bool:
        """Whether all news has been delivered, and every incident is over."""
        with contextlib.suppress(*ERRORS):
            return not (
                self.rows("select 1 as one from outbox where state = 'pending'")
                or self.rows("select 1 as one from incidents where open_key is not null")
            )
        return False

    def holder(self, cluster: str = "") -> Engine | None:
        """Return the engine that holds the watch of a cluster (by name; the first by default)."""
        ident = self.clusters[cluster or next(iter(self.clusters))]
        sql = (
            "select e.pid from watches w join engines e on e.id = w.owner where w.cluster_id = %s"
            " and e.stopped_us is null"
        )
        pids = [int(r["pid"]) for r in self.rows(sql, ident)]
        return next((e for e in self.engines.values() if e.alive and e.pid in pids), None)

    def wait(self, what: Callable[[], object], bound_s: float, why: str) -> None:
        """Poll until `what` is true; a failure tells what there is."""
        try:
            wait(what, bound_s, why)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def settle(self, bound_s: float = HEALED_S) -> None:
        """Wait until everything is well, told and covered."""
        self.wait(self.healthy, bound_s, "everything is healthy")
        self.wait(self.told, bound_s, "everything is told")

    def workers(self) -> Sequence[Path]:
        """Return where the kernel tells of the threads of the engines and of the database."""
        pids = [e.pid for e in self.engines.values() if e.alive]
        with contextlib.suppress(psutil.NoSuchProcess, AssertionError):
            main = psutil.Process(self.server.pid)
            pids += [main.pid, *(c.pid for c in main.children())]
        return [Path(f"/proc/{pid}/task") for pid in pids]

    def mend(self) -> None:
        """Undo whatever was done to engines and network; after a failed scenario others go on."""
        for engine in self.engines.values():
            if engine.alive:
                engine.mend()
            else:
                engine.start()
        self.receiver.broken = False

    def story(self) -> str:
        """Return what was written and said last, for a failure's message."""
        lines = []
        with contextlib.suppress(*ERRORS):
            nodes = {
                n: (r["status"], r["health"], r["status_reason"]) for n, r in self.nodes().items()
            }
            lines.append(str(nodes))
            for row in reversed(self.rows("select * from events order by seq desc limit 40")):
                what = f"{row['oname']} {row['action']} {row['status']} {str(row['reason'])[:120]}"
                lines.append(f"{row['at_us'] / 1e6:.3f} {what}")
            for row in self.rows("select * from actions where end_us is null"):
                kept = ("action", "node_id", "status", "owner", "epoch", "lease_us")
                lines.append(str({k: row[k] for k in kept}))
        lines += [
            f"--- {program.name}, alive={program.alive}\n{program.log()[-1500:]}"
            for program in (*self.engines.values(), self.api)
        ]
        return "\n".join(lines)

    # --- ending ------------------------------------------------------------------------------------

    def end(self) -> None:
        """Leave no process behind."""
        if hasattr(self, "http"):
            self.http.close()
        for program in (*self.engines.values(), *([self.api] if hasattr(self, "api") else [])):
            program.end(signal.SIGKILL)
        for pid in self.diaries.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait(lambda: not any(map(is_alive, self.diaries.processes())), 60, "every node has ended")


@contextlib.contextmanager
def answering(host: str, port: int) -> Iterator[None]:
    """Accept connections there and close them; several fleets of one machine may share it."""
    ended = threading.Event()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(64)
        listener.settimeout(0.2)

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    listener.accept()[0].close()

        thread = threading.Thread(target=serve, name="reference", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(60)


def as_spec(document: str) -> object:
    """Return a policy document as the API takes it."""
    import yaml

    return yaml.safe_load(document)


@contextlib.contextmanager
def fleet(
    root: Path,
    server: Server,
    receiver: Receiver,
    *,
    engines: int = 2,
    lease: float = 4.0,
    clusters: Mapping[str, int] | None = None,
    document: str = "",
    spaces: bool = False,
    source: Path | None = None,
) -> Iterator[Fleet]:
    """Yield a fleet whose clusters are healthy; nothing of it is left afterwards."""
    url = server.create()
    prepare_server(url, clock=SystemClock())
    with ExitStack() as stack:
        made = Fleet(
            root,
            server,
            url,
            receiver,
            stack.enter_context(network()),
            lease,
            Diaries(root / "diary"),
            [stack.enter_context(space()) for _ in range(engines)] if spaces else (),
            source,
        )
        stack.callback(made.end)
        made.start(engines)
        made.profile()
        stack.enter_context(answering(made.node_ip, PORTS.stop - 1))
        made.policy("hp", (document or policy()).replace(REFERENCE, made.reference))
        for name, size in (clusters or {"c": 3}).items():
            made.cluster(name, size, policy_name="hp")
        made.wait(made.healthy, 120, "new clusters are healthy")
        yield made
