"""Under a real gunicorn: each worker is seen, the worst counts, and a kill, a freeze or a reload is told.

Every case runs with the service loaded in the master (--preload) and in each worker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_servers import (
    APP,
    BIN,
    ask,
    children,
    free_port,
    nobody,
    running,
    statuses,
    until,
    view,
    workers_in,
)

from yaffle_health.model import Status
from yaffle_health.reader import Reading, Target

CONF = """
from yaffle_health import prefork

bind = "127.0.0.1:{port}"
workers = 2
graceful_timeout = 30
control_socket_disable = True

def {hook}({arguments}):
    import shop
    prefork.serve_worker(shop.manager, "{run}")

def when_ready(server):
    prefork.gather("{run}", uri="unix://{folder}/all.sock,tcp://127.0.0.1:{health}", expected=2)
"""


class Server:
    """A gunicorn that runs, and where to ask it."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
        self.process, self.folder, self.port = process, folder, port
        self.target = Target(path=f"{folder}/all.sock")

    def workers(self) -> set[int]:
        return children(self.process.pid)

    def sockets(self) -> set[str]:
        return {path.name for path in (self.folder / "run").glob("*.sock")}

    def settled(self) -> set[int]:
        """Wait until both workers are up and well; return their process ids."""
        until(
            lambda: view(self.target),
            lambda r: (
                r.status is Status.PASS
                and statuses(r).get(("workers", None)) is Status.PASS
                and len(self.workers()) == 2
                and self.sockets() == {f"{pid}.sock" for pid in self.workers()}
            ),
        )
        return self.workers()


@pytest.fixture(params=["loaded-in-workers", "--preload"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    options = ["--preload"] if request.param == "--preload" else []
    yield from _serving(tmp_path, options, "post_worker_init", "worker")


def _serving(folder: Path, options: list[str], hook: str, arguments: str) -> Iterator[Server]:
    port, health = free_port(), free_port()
    (folder / "shop.py").write_text(APP)
    (folder / "gunicorn.conf.py").write_text(
        CONF.format(
            port=port, health=health, run=folder / "run", folder=folder, hook=hook,
            arguments=arguments,
        )
    )  # fmt: skip
    with running([BIN / "gunicorn", *options, "shop:app"], folder) as process:
        server = Server(process, folder, port)
        server.settled()
        # A worker that is held up for a moment is told to be silent for that long.
        there = Target(host="127.0.0.1", port=health)
        until(lambda: view(there).status, lambda status: status is Status.PASS)
        yield server
        assert nobody(Target(host="127.0.0.1", port=health)) is (process.poll() is not None)


def told_of_alone(server: Server, sick: str) -> Reading:
    """Wait until that worker's database, and nothing else, has failed the view.

    A worker that is held up for a moment fails it as well, and not for long.
    """
    return until(
        lambda: view(server.target),
        lambda r: (
            r.status is Status.FAIL
            and [which for which, status in statuses(r).items() if status is Status.FAIL]
            == [("database", sick)]
        ),
    )


def test_every_worker_is_seen_and_the_worst_counts(server: Server) -> None:
    both = server.workers()
    for pid in both:
        until(lambda: ask(server.port), lambda answer: answer[1] == str(pid))  # noqa: B023
    until(
        lambda: view(server.target),
        lambda r: workers_in(r) == both and r.status is Status.PASS,
    )
    sick = ask(server.port, "/bad")[1]
    reading = told_of_alone(server, sick)
    assert reading.health is not None
    (output,) = (c.output for c in reading.health.checks if c.status is Status.FAIL)
    assert statuses(reading)["database", sick] is Status.FAIL
    assert output is not None
    assert "went away" in output
    assert "secret" not in output
    (other,) = both - {int(sick)}
    assert statuses(reading)["database", str(other)] is Status.PASS


def test_a_killed_worker_leaves_and_its_successor_joins(server: Server) -> None:
    killed, other = server.workers()
    os.kill(killed, signal.SIGKILL)
    until(server.workers, lambda now: len(now) == 2 and killed not in now)
    assert other in server.settled()
    assert f"{killed}.sock" not in server.sockets()


def test_a_frozen_worker_is_told_and_comes_back(server: Server) -> None:
    frozen, other = server.workers()
    os.kill(frozen, signal.SIGSTOP)
    try:
        # Another one that is held up for a moment is told, too, and not for long.
        reading = until(
            lambda: view(server.target),
            lambda r: (
                ("worker", str(frozen)) in statuses(r) and ("worker", str(other)) not in statuses(r)
            ),
        )
        assert reading.status is Status.FAIL
        assert statuses(reading)["worker", str(frozen)] is Status.FAIL
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert server.settled() == {frozen, other}


def test_a_worker_that_is_busy_still_answers(server: Server) -> None:
    """A sync worker serves one request at a time; its health has a thread of its own."""
    command = ["curl", "-s", f"http://127.0.0.1:{server.port}/block"]
    with subprocess.Popen(command) as one, subprocess.Popen(command) as two:
        try:
            until(lambda: len(list(server.folder.glob("blocked-*"))), lambda count: count == 2)
            # A worker that is merely held up is told to be silent for that long.
            reading = until(lambda: view(server.target), lambda r: r.status is Status.PASS)
            assert (one.poll(), two.poll()) == (None, None)
            assert statuses(reading)["workers", None] is Status.PASS
        finally:
            (server.folder / "go-on").touch()


def test_a_reload_changes_the_workers_and_not_the_view(server: Server) -> None:
    before = server.workers()
    server.process.send_signal(signal.SIGHUP)
    until(server.workers, lambda now: not now & before and len(now) == 2)
    assert not server.settled() & before


def test_the_end_leaves_nothing_behind(server: Server) -> None:
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert server.sockets() == set()
    assert not (server.folder / "all.sock").exists()


@pytest.mark.parametrize("options", [["--preload"], []], ids=["preload", "workers"])
def test_the_hook_post_fork_works_as_well(tmp_path: Path, options: list[str]) -> None:
    for server in _serving(tmp_path, options, "post_fork", "server, worker"):
        assert len(server.settled()) == 2


@pytest.mark.parametrize("kind", ["gthread", "gevent"])
def test_other_kinds_of_workers(tmp_path: Path, kind: str) -> None:
    for server in _serving(tmp_path, ["-k", kind], "post_worker_init", "worker"):
        told_of_alone(server, ask(server.port, "/bad")[1])


def test_a_listener_opened_before_the_fork_is_not_the_workers(tmp_path: Path) -> None:
    """Started at import under --preload, the master answers; no worker may hold its socket."""
    port, health = free_port(), free_port()
    early = f"\nyaffle_health.serve(manager, uri='tcp://127.0.0.1:{health}')\n"
    (tmp_path / "shop.py").write_text(APP + early)
    arguments = [BIN / "gunicorn", "--preload", "-w", "2", "-b", f"127.0.0.1:{port}", "shop:app"]
    with running(arguments, tmp_path, GUNICORN_CMD_ARGS="--no-control-socket") as process:
        until(lambda: children(process.pid), lambda found: len(found) == 2)
        until(lambda: view(Target(host="127.0.0.1", port=health)), lambda r: r.status is not None)
        (inode,) = _listening_inodes(health)
        assert inode in _sockets(process.pid)
        for pid in children(process.pid):
            # One that is held up where it was forked has not let go of it yet.
            until(lambda: _sockets(pid), lambda found: inode not in found)  # noqa: B023


def _listening_inodes(port: int) -> set[str]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}


def _sockets(pid: int) -> set[str]:
    links = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            links.append(str(fd.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:[")}
