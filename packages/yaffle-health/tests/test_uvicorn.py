"""FastAPI under a real `uvicorn --workers 2`: each worker's loop is watched, and any answers for all."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_servers import BIN, ask, free_port, running, statuses, until, view, workers_in

from yaffle_health.model import Status
from yaffle_health.reader import Reading, Target

SHOP = """
import contextlib, os, pathlib, time
import fastapi
import yaffle_health
from yaffle_health import prefork
from yaffle_health.asgi import HealthApp
from yaffle_health.lag import Heart

manager = yaffle_health.Manager(description="shop")

@contextlib.asynccontextmanager
async def lifespan(app):
    heart = Heart(manager, "event_loop", interval_s=0.05, fail_after_s=0.5)
    with prefork.serve_worker(manager, "{run}"), yaffle_health.LoopLag(manager, heart):
        yield

app = fastapi.FastAPI(lifespan=lifespan)
app.add_middleware(HealthApp, source=prefork.Workers("{run}", expected=2, fresh_s=0).health)

@app.get("/")
async def whose():
    return fastapi.Response(str(os.getpid()))

@app.get("/block")
async def block():
    pathlib.Path("blocked.new").write_text(str(os.getpid()))
    os.rename("blocked.new", "blocked")
    while not os.path.exists("go-on"):
        time.sleep(0.02)
    return fastapi.Response(str(os.getpid()))
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "shop.py").write_text(SHOP.format(run=tmp_path / "run"))
    port = free_port()
    arguments = [BIN / "uvicorn", "--workers", "2", "--port", str(port), "shop:app"]
    with running(arguments, tmp_path):
        whole = Target(host="127.0.0.1", port=port)
        until(lambda: view(whole), lambda r: r.status is Status.PASS and len(workers_in(r)) == 2)
        yield port


def test_a_blocked_loop_is_told_by_the_other_worker(port: int, tmp_path: Path) -> None:
    import threading

    blocked: list[str] = []
    thread = threading.Thread(target=lambda: blocked.append(ask(port, "/block")[1]))
    thread.start()
    # Not before: a connection that the blocked loop has accepted waits for it.
    until((tmp_path / "blocked").exists, bool)
    here = int((tmp_path / "blocked").read_text())

    def told_of_it_alone(reading: Reading) -> bool:
        # The other one may be held up for a moment, too; it is not for long.
        found = statuses(reading)
        others = workers_in(reading) - {here}
        return found.get(("event_loop", str(here))) is Status.FAIL and [
            found.get(("event_loop", str(other))) is not Status.FAIL for other in others
        ] == [True]

    try:
        until(lambda: view(Target(host="127.0.0.1", port=port)), told_of_it_alone)
    finally:
        (tmp_path / "go-on").touch()
        thread.join()
    assert blocked == [str(here)]


def test_a_killed_worker_is_replaced(port: int, tmp_path: Path) -> None:
    whole = Target(host="127.0.0.1", port=port)
    killed = int(ask(port)[1])
    os.kill(killed, signal.SIGKILL)
    reading = until(
        lambda: view(whole),
        lambda r: r.status is Status.PASS and len(workers_in(r) - {killed}) == 2,
    )
    assert killed not in workers_in(reading)
