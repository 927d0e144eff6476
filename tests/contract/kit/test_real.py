"""The built-in drivers keep the checks that strangers' drivers are asked to keep."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tests.given import given_clock

from yaffle.drivers.alerts.http_json import HttpJsonAlerts
from yaffle.drivers.detectors.backend.status import StatusDetector
from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.notifiers.log import LogNotifier
from yaffle.drivers.notifiers.webhook import WebhookNotifier
from yaffle.drivers.profiles.local_process import LocalProcess
from yaffle.drivers.workflows.command import CommandWorkflow
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.ids import ModeKey, NodeId, OperationId
from yaffle.model.operations import Operation, ProgressState, Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext
from yaffle.testing import (
    check_alert_driver,
    check_detector,
    check_fencer,
    check_notifier,
    check_profile,
    check_workflow,
)

CLOCK = SystemClock()
SLEEP = {"command": [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]}
STATUS = DetectionMode(key=ModeKey("0:NODE_STATUS_POLLING"), type=ModeType.NODE_STATUS_POLLING)


def local(folder: Path) -> LocalProcess:
    return LocalProcess(DriverContext(clock=CLOCK, state_dir=folder))


def test_local_process(tmp_path: Path) -> None:
    with given_clock() as clock:
        asyncio.run(check_profile(lambda: local(tmp_path), SLEEP, clock=clock))


@asynccontextmanager
async def nodes(folder: Path, *names: str) -> AsyncIterator[tuple[LocalProcess, list[Target]]]:
    profile = local(folder)
    made = []
    try:
        for name in names:
            target = Target(
                node_id=NodeId(f"kit-{time.time_ns()}-{name}"),
                name=name,
                physical_id="",
                profile_type=profile.type,
                spec=profile.validate(SLEEP),
            )
            made.append(target)
            await finish(profile, "CREATE", target)
        yield profile, made
    finally:
        for target in made:
            await finish(profile, "DELETE", target)


async def finish(profile: LocalProcess, kind: str, target: Target) -> None:
    op, ident = Operation(kind=kind, target=target), OperationId(f"{kind}-{target.node_id}")
    done = await profile.submit(op, operation_id=ident, deadline_s=60)
    async with asyncio.timeout(120):
        while done.state is ProgressState.RUNNING:
            await CLOCK.sleep(0.05)
            done = await profile.poll(op, operation_id=ident, deadline_s=60)
    assert done.state is ProgressState.DONE, done


def test_status_detector(tmp_path: Path) -> None:
    async def story() -> None:
        async with nodes(tmp_path, "a", "b") as (profile, targets):
            context = DriverContext(
                clock=CLOCK, state_dir=tmp_path, profiles={profile.type: profile}
            )
            never = replace(targets[0], node_id=NodeId("never-built"), name="c")
            with given_clock() as clock:
                seen = await check_detector(
                    StatusDetector(context), [*targets, never], STATUS, clock=clock
                )
            assert [o.code for o in seen] == ["ST-UP", "ST-UP", "ST-GONE"]

    asyncio.run(story())


def test_compute_fencer(tmp_path: Path) -> None:
    async def story() -> None:
        async with nodes(tmp_path, "a") as (profile, targets):
            context = DriverContext(
                clock=CLOCK, state_dir=tmp_path, profiles={profile.type: profile}
            )

            async def runs() -> bool:
                return (await local(tmp_path).read(targets, deadline_s=60))[0].up is True

            with given_clock() as clock:
                await check_fencer(ComputeFencer(context), targets[0], runs, clock=clock)
            assert not await runs()

    asyncio.run(story())


def test_log_notifier(tmp_path: Path) -> None:
    context = DriverContext(clock=CLOCK, state_dir=tmp_path)
    with given_clock() as clock:
        asyncio.run(check_notifier(LogNotifier(context), clock=clock))


@contextmanager
def receiver() -> Iterator[tuple[str, Event]]:
    """Accepts everything; while the event is set it answers nothing."""
    silent = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            end = time.monotonic() + 120
            while silent.is_set() and time.monotonic() < end:
                silent_over.wait(0.05)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            return

    silent_over = Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", silent
    finally:
        silent.clear()
        silent_over.set()
        server.shutdown()
        server.server_close()
        thread.join(60)


def test_webhook_notifier_and_http_json_alerts(tmp_path: Path) -> None:
    with receiver() as (url, silent):

        @asynccontextmanager
        async def hang() -> AsyncIterator[None]:
            silent.set()
            yield
            silent.clear()

        context = DriverContext(
            clock=CLOCK, state_dir=tmp_path, settings={"url": url, "secret": "0123456789abcdef"}
        )
        with given_clock() as clock:
            asyncio.run(check_notifier(WebhookNotifier(context), clock=clock, hang=hang))
        plain = DriverContext(clock=CLOCK, state_dir=tmp_path, settings={"url": url})
        with given_clock() as clock:
            asyncio.run(check_alert_driver(HttpJsonAlerts(plain), clock=clock, hang=hang))


def test_command_workflow(tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = f"open({str(done)!r}, 'a').write('x')"
    settings = {
        "enabled": True,
        "commands": {"heal": {"argv": [sys.executable, "-I", "-S", "-c", script]}},
    }
    context = DriverContext(clock=CLOCK, state_dir=tmp_path / "state", settings=settings)
    target = Target(node_id=NodeId("n"), name="n", physical_id="p", profile_type="any-1.0", spec={})

    def runs() -> int:
        return len(done.read_text()) if done.exists() else 0

    with given_clock() as clock:
        asyncio.run(
            check_workflow(lambda: CommandWorkflow(context), "heal", {}, target, runs, clock=clock)
        )
