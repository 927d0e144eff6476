"""Under a real uWSGI: its own fork hook, threads that have to be switched on, and one view beside it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_servers import (
    APP,
    BIN,
    ask,
    children,
    free_port,
    running,
    statuses,
    until,
    view,
    workers_in,
)

from yaffle_health.model import Status
from yaffle_health.reader import Target

HOOK = """
import uwsgi, uwsgidecorators
from yaffle_health import prefork
from yaffle_health.wsgi import HealthApp

def show_health():
    prefork.serve_worker(manager, "{run}")

uwsgidecorators.postfork(show_health)
if uwsgi.worker_id():  # lazy-apps: the fork is over already
    show_health()

app = HealthApp(app, source=prefork.Workers("{run}", expected=2).health)
"""


class Server:
    """A uWSGI that runs, and where to ask it."""

    def __init__(self, folder: Path, port: int, master: int) -> None:
        self.folder, self.port, self.master = folder, port, master
        self.inside = Target(host="127.0.0.1", port=port)
        self.beside = Target(path=f"{folder}/all.sock")

    def sockets(self) -> set[int]:
        return {int(path.stem) for path in (self.folder / "run").glob("*.sock")}


@pytest.fixture(params=["forked", "lazy-apps"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    port, run = free_port(), tmp_path / "run"
    (tmp_path / "shop.py").write_text(APP + HOOK.format(run=run))
    options = ["--lazy-apps"] if request.param == "lazy-apps" else []
    arguments = [
        BIN / "uwsgi", "--master", "--processes", "2", "--enable-threads", "--need-app",
        "--http-socket", f"127.0.0.1:{port}", "--module", "shop:app", "--die-on-term",
        "--attach-daemon",
        f"{BIN}/yaffle-health gather {run} --uri unix://{tmp_path}/all.sock --workers 2", *options,
    ]  # fmt: skip
    with running(arguments, tmp_path) as process:
        server = Server(tmp_path, port, process.pid)
        for target in (server.inside, server.beside):
            until(lambda: view(target), lambda r: r.status is Status.PASS)  # noqa: B023
        yield server


def test_the_view_is_the_same_inside_and_beside(server: Server) -> None:
    for target in (server.inside, server.beside):
        assert len(server.sockets()) == 2
        assert server.sockets() <= children(server.master)
        until(lambda: ask(server.port)[1], lambda pid: int(pid) in server.sockets())
        sick = ask(server.port, "/bad")[1]
        reading = until(
            lambda: view(target),  # noqa: B023
            lambda r: statuses(r).get(("database", sick)) is Status.FAIL,  # noqa: B023
        )
        assert (reading.status, reading.http_status) == (Status.FAIL, 503)
        assert workers_in(reading) <= server.sockets()


def test_a_killed_worker_leaves_and_its_successor_joins(server: Server) -> None:
    before = server.sockets()
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    until(
        lambda: (view(server.beside).status, server.sockets()),
        lambda found: found[0] is Status.PASS and len(found[1]) == 2 and killed not in found[1],
    )
    assert server.sockets() - before


def test_the_service_keeps_every_other_path(server: Server) -> None:
    assert ask(server.port, "/healthcheck")[0] == 200
    assert ask(server.port, "/health")[0] == 200
    assert ask(server.port, "/bad")[0] == 500
