"""Forks without a server: multiprocessing and os.fork; the parent's memory and sockets stay behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest
from health_servers import running, statuses, until, view

import yaffle_health
from yaffle_health.model import Status
from yaffle_health.prefork import Workers, serve_worker
from yaffle_health.reader import Problem, Target

METHODS = ["fork", "spawn", "forkserver"]


def _work(place: str, line: Connection) -> None:
    """Be a worker: say what the parent's memory looks like here, then fail when told to."""
    manager = yaffle_health.Manager(description="worker")
    with serve_worker(manager, place) as endpoint:
        line.send([str(a) for a in endpoint.addresses])
        line.recv()
        manager.report("database", "fail", "lost")
        line.send("failed")
        line.recv()


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_multiprocessing(tmp_path: Path, method: str) -> None:
    context: BaseContext = multiprocessing.get_context(method)
    workers = Workers(tmp_path, expected=2, fresh_s=0, timeout_s=30)
    lines, processes = [], []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(str(tmp_path), theirs))  # type: ignore[attr-defined]
        process.start()
        lines.append(ours)
        processes.append(process)
    for line, process in zip(lines, processes, strict=True):
        assert line.poll(60)
        assert line.recv() == [f"unix://{tmp_path}/{process.pid}.sock"]
    assert workers.health().status is Status.PASS
    lines[0].send("fail")
    assert lines[0].recv() == "failed"
    health = workers.health()
    sick = {c.component_id for c in health.checks if c.status is Status.FAIL}
    assert sick == {str(processes[0].pid)}
    processes[0].kill()
    processes[0].join(60)
    health = workers.health()
    assert (health.status, health.checks[0].output) == (Status.WARN, "1 of 2 workers are there")
    for line in lines[1:]:
        line.send("end")
        line.recv()
        line.send("end")
    processes[1].join(60)
    assert processes[1].exitcode == 0
    assert list(tmp_path.iterdir()) == []


FORKING = """
import os, sys, signal, threading, time
import yaffle_health
from yaffle_health.prefork import serve_worker

manager = yaffle_health.Manager(description="parent")
manager.report("database", "fail", "lost in the parent")
yaffle_health.serve(manager, uri="unix://{place}/parent.sock")

# Locks that are held at the moment of a fork stay locked in the child for ever, unless they are new.
def busy():
    while True:
        manager.report("database", "fail", "lost in the parent")
        manager.health()

for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()

for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        health = manager.health()
        assert health.checks == (), health
        manager.passed("own")
        os._exit(0 if manager.health().status == "pass" else 1)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("a child did not get through")

if os.fork() == 0:
    manager.passed("own")  # before anybody can ask
    serve_worker(manager, "{place}/run")
    signal.pause()
signal.pause()
"""


def test_a_child_has_a_memory_a_lock_and_sockets_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(FORKING.format(place=tmp_path))
    parent = Target(path=f"{tmp_path}/parent.sock")
    workers = Workers(tmp_path / "run", fresh_s=0, timeout_s=30)
    with running([sys.executable, "forking.py"], tmp_path) as process:
        health = until(workers.health, lambda h: h.status is Status.PASS)
        assert {c.name for c in health.checks} == {"own", "workers"}
        assert health.service.description == "parent"
        assert view(parent).status is Status.FAIL
        assert process.poll() is None
        # The parent dies: its clients must be refused at once, not held by the child's descriptors.
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert view(parent).problem is Problem.REFUSED
        assert workers.health().status is Status.PASS


def test_a_parents_items_are_not_the_childs(tmp_path: Path) -> None:
    manager = yaffle_health.Manager()
    manager.report("database", "fail", "lost")
    with serve_worker(manager, tmp_path):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, str(len(manager.health().checks)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 9) == b"0"
        os.close(reader)
        os.close(writer)
        # The child's end removed neither the parent's socket nor its listener.
        reading = view(Target(path=f"{tmp_path}/{os.getpid()}.sock"))
        assert statuses(reading) == {("database", None): Status.FAIL}
