"""A real service behind a real socket, in a thread with its own loop, for tests that ask and wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import yaml
from tests.waiting import wait_until

from yaffle import config, wiring
from yaffle.api.app import create_app
from yaffle.api.app_context import AppContext, parts_of
from yaffle.api.diagnostics.process import Process
from yaffle.api.http.server import address_of, bind, serve

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

PREFIX = "/yaffle/v1"
TYPE = "yaffle.local.process"
POLICY = """\
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 1
    node_update_timeout: 2
    rise: 1
    fall: 2
    detection_modes:
      - type: NODE_STATUS_POLLING
  recovery:
    actions:
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 1, max_in_flight: 1}
"""
SLEEPER = {
    "command": ["python3", "-c", "import signal; signal.pause()", "{node_id}"],
    "stop_timeout": 20,
}
"""The node's id among the arguments lets a test find the process it wants to kill."""


def policy_body(name: str, text: str = POLICY) -> dict[str, Any]:
    """Return what the clustering API wants of a policy."""
    return {"policy": {"name": name, "spec": yaml.safe_load(text)}}


def cluster_body(name: str, profile: str, size: int = 0) -> dict[str, Any]:
    """Return what the clustering API wants of a cluster whose nodes are NAME-1, NAME-2, …"""
    config = {"node.name.format": f"{name}-$1I"}
    body = {"name": name, "profile_id": profile, "desired_capacity": size, "config": config}
    return {"cluster": body}


@dataclass
class Live:
    """One running server."""

    address: str
    service: wiring.Service
    loop: asyncio.AbstractEventLoop
    headers: dict[str, str] = field(default_factory=dict)

    def client(
        self, headers: dict[str, str] | None = None, *, source: str | None = None
    ) -> httpx.Client:
        """Return a client with the server's headers and those given, which comes from `source`."""
        both = {**self.headers, **(headers or {})}
        # Loading the certificates of the world takes longer than most of these tests.
        way = httpx.HTTPTransport(verify=False, local_address=source)
        return httpx.Client(
            base_url=f"http://{self.address}", headers=both, timeout=60, transport=way
        )

    def call(self, method: str, path: str, body: object = None, *, want: int = 200) -> Any:
        """Ask below the prefix and return the JSON; the status has to be `want`."""
        with self.client() as client:
            answer = client.request(method, PREFIX + path, json=body)
        assert answer.status_code == want, answer.text
        return answer.json() if answer.content else None

    def clustering(self, method: str, path: str, body: object = None, *, want: int) -> Any:
        """Ask the clustering API, which makes and unmakes what there is."""
        with self.client() as client:
            answer = client.request(method, f"/v1{path}", json=body)
        assert answer.status_code == want, answer.text
        return answer.json() if answer.content else None

    def profile(self, name: str, properties: object = None) -> Any:
        """Create a profile of local processes."""
        spec = {"type": TYPE, "version": "1.0", "properties": properties or SLEEPER}
        body = {"profile": {"name": name, "spec": spec}}
        return self.clustering("POST", "/profiles", body, want=201)["profile"]

    def policy(self, name: str, text: str) -> Any:
        """Create a policy."""
        return self.clustering("POST", "/policies", policy_body(name, text), want=201)["policy"]

    def cluster(self, name: str, profile: str, size: int, policy: str = "") -> Any:
        """Create a cluster of NAME-1, NAME-2, …; the policy comes before its nodes."""
        self.clustering("POST", "/clusters", cluster_body(name, profile), want=202)
        if policy:
            self.act(name, "policy_attach", {"policy_id": policy})
        if size:
            self.act(name, "scale_out", {"count": size})
        return self.call("GET", f"/clusters/{name}")["cluster"]

    def act(self, cluster: str, verb: str, data: object, *, want: int = 202) -> Any:
        """Ask a cluster for one of its actions."""
        return self.clustering("POST", f"/clusters/{cluster}/actions", {verb: data}, want=want)

    def drop(self, noun: str, name: str) -> None:
        """Delete a cluster or node; it may take its time."""
        self.clustering("DELETE", f"/{noun}s/{name}", {"force": True}, want=202)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Change the database as no request could."""
        done = asyncio.run_coroutine_threadsafe(self.service.store.write(work), self.loop)
        return done.result(60)

    def until(self, path: str, holds: Callable[[Any], object], *, within_s: float = 60.0) -> Any:
        """Ask again and again until the answer satisfies `holds`."""
        return wait_until(lambda: self.call("GET", path), holds, within_s=within_s, why=path)


def settings_for(state_dir: Path, **flags: Any) -> config.Settings:
    """Return settings of a quick, private service."""
    base: dict[str, Any] = {
        "state_dir": state_dir,
        "server": {"listen": "127.0.0.1:0"},
        # None of them is killed: a lease that ran out on a busy machine would be news of its own.
        "engine": {"lease": 60.0, "poll": 0.1},
        "local_process": {"enabled": True},
    }
    for name, value in flags.items():
        base[name] = {**base.get(name, {}), **value} if isinstance(value, dict) else value
    return config.load(None, base)


def parts(service: wiring.Service) -> AppContext:
    facts = Process(
        ctx=service.ctx,
        settings=service.settings,
        engine=service.engine,
        prober=lambda: service.prober.stats,
    )
    return parts_of(
        ctx=service.ctx, commands=service.commands, settings=service.settings, facts=facts
    )


@contextmanager
def running(state_dir: Path, *, engine: bool = False, **flags: Any) -> Iterator[Live]:
    """Run API and, if wanted, engine until the block ends; whatever fails there fails here."""
    settings = settings_for(state_dir, **flags)
    started = threading.Event()
    box: dict[str, Any] = {}

    async def main() -> None:
        box["stop"] = asyncio.Event()
        box["loop"] = asyncio.get_running_loop()
        sock = bind(settings.server.listen)
        async with wiring.service(settings) as service:
            app = create_app(parts(service))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(serve(app, sock, settings.server))]
                if engine:
                    tasks.append(group.create_task(wiring.run(service)))
                box["live"] = Live(address=address_of(sock), service=service, loop=box["loop"])
                started.set()
                await box["stop"].wait()
                for task in tasks:
                    task.cancel()

    def body() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            box["error"] = error
        finally:
            started.set()

    thread = threading.Thread(target=body, name="service")
    thread.start()
    started.wait(120)
    try:
        if "error" in box:
            raise box["error"]
        yield box["live"]
    finally:
        if "stop" in box and thread.is_alive():
            box["loop"].call_soon_threadsafe(box["stop"].set)
        thread.join(120)
        assert not thread.is_alive()
    if "error" in box:
        raise box["error"]


def pid_of(node: dict[str, Any]) -> int:
    """Return the process id of a SLEEPER."""
    ident = node["id"].encode()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().split(b"\0")
        except OSError:
            continue
        if ident in words and b"-c" in words:
            return int(line.parent.name)
    raise AssertionError(f"no process of node {node['name']}")
