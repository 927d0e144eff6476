"""Served apart in real hosts: gunicorn, gevent, eventlet, forks, passed sockets, the place of init."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from health_apart import SERVE, helpers_of, hosting, lives, parent_of
from health_servers import APP, BIN, children, free_port, running, until, view
from health_servers import ask as ask_shop
from health_wire import ask, eventually

from yaffle_health.model import Status
from yaffle_health.reader import Target
from yaffle_health.uris import Unix

EVENTLET = "import eventlet; eventlet.monkey_patch()\n"
GEVENT = "import gevent.monkey; gevent.monkey.patch_all()\n"
BLOCKS = {
    "eventlet": "eventlet.patcher.original('time').sleep(60)",
    "gevent": "gevent.monkey.get_original('time', 'sleep')(60)",
}


def helper_of(pid: int) -> int:
    """Wait until a host has one helper; what starts it has the same name, until it has ended."""
    (found,) = until(lambda: helpers_of(pid), lambda found: len(found) == 1)
    return found


@pytest.mark.parametrize("kind", ["eventlet", "gevent"])
def test_in_a_patched_program(kind: str, tmp_path: Path) -> None:
    first = EVENTLET if kind == "eventlet" else GEVENT
    with hosting(tmp_path, first=first) as host:
        assert host.ask().status == 200
        helper = host.helper
        assert parent_of(helper) != host.process.pid
        host.do("manager.report('db', 'fail', 'down')")
        eventually(lambda: host.ask().status == 503)
        os.kill(helper, signal.SIGKILL)
        eventually(lambda: helpers_of(host.process.pid) not in ([], [helper]))
        assert host.ask().status == 503
        helper = helper_of(host.process.pid)
        # The hub stands still; the thread of the kernel's goes on, and says so.
        host.tell(BLOCKS[kind])
        for _ in range(20):
            assert b"has said nothing" not in host.ask().body
        host.process.kill()
        eventually(lambda: not lives(helper))
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_hub_s_children_are_not_mixed_up(tmp_path: Path) -> None:
    """gevent reaps every child that ends: it must not miss its own, nor meet the helper."""
    code = (
        "(__import__('subprocess').run(['true']).returncode,"
        " os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1])"
    )
    with hosting(tmp_path, first=GEVENT) as host:
        for _ in range(2):
            assert host.do(code) == "(0, 0)"
            helper = host.helper
            os.kill(helper, signal.SIGKILL)
            eventually(lambda: helpers_of(host.process.pid) not in ([], [helper]))  # noqa: B023
        assert host.do(code) == "(0, 0)"


CONF = """
bind = "127.0.0.1:{port}"
workers = 2
worker_class = "{kind}"
graceful_timeout = 30
control_socket_disable = True

def post_worker_init(worker):
    import shop
    from yaffle_health import prefork
    prefork.serve_worker(shop.manager, "{folder}/run", apart=True, required=True)
"""
EARLY = (
    "\nyaffle_health.serve(manager, uri='unix://{folder}/master.sock', apart=True, required=True)\n"
)


@pytest.mark.parametrize("kind", ["sync", "gevent"])
@pytest.mark.parametrize("preload", [False, True], ids=["workers", "preload"])
def test_in_gunicorn(kind: str, preload: bool, tmp_path: Path) -> None:
    """Each worker has a helper; under --preload the master has one, too, and its own children alone."""
    port = free_port()
    app = APP + (EARLY.format(folder=tmp_path) if preload else "")
    (tmp_path / "shop.py").write_text(app)
    (tmp_path / "gunicorn.conf.py").write_text(CONF.format(port=port, folder=tmp_path, kind=kind))
    options = ["--preload"] if preload else []
    with running([BIN / "gunicorn", *options, "shop:app"], tmp_path) as process:

        def healthy(pid: int) -> bool:
            return view(Target(path=f"{tmp_path}/run/{pid}.sock")).status is Status.PASS

        def settled(*, without: int = 0) -> set[int]:
            return until(
                lambda: children(process.pid),
                lambda found: len(found) == 2 and without not in found and all(map(healthy, found)),
            )

        workers = settled()
        # A helper answers before it has said whose it is.
        helpers = {pid: [helper_of(pid)] for pid in workers}
        until(lambda: len(helpers_of(process.pid)), lambda count: count == preload)
        sick = int(ask_shop(port, "/bad")[1])
        (well,) = workers - {sick}
        until(
            lambda: view(Target(path=f"{tmp_path}/run/{sick}.sock")).status,
            lambda s: s is Status.FAIL,
        )
        assert healthy(well)
        if preload:
            master = Target(path=f"{tmp_path}/master.sock")
            assert view(master).status is Status.PASS
            # What ends is nothing to the arbiter, which would count it, or stop.
            (old,) = helpers_of(process.pid)
            os.kill(old, signal.SIGKILL)
            until(lambda: helpers_of(process.pid), lambda found: found not in ([], [old]))
            assert view(master).status is Status.PASS
        os.kill(sick, signal.SIGKILL)
        (new,) = settled(without=sick) - {well}
        eventually(lambda: not lives(helpers[sick][0]), "it is gone with its worker")
        assert helpers_of(well) == helpers[well]
        left = [*helpers_of(process.pid), *helpers_of(well), helper_of(new)]
        process.terminate()
        assert process.wait(60) == 0
        eventually(lambda: not any(map(lives, left)))
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert log.count("was sent SIGKILL") <= 1, "the worker that was killed, and no helper"


LAZY = """
import uwsgi, uwsgidecorators, sys
from yaffle_health import prefork

def show_health():
    prefork.serve_worker(manager, "{folder}/run", apart=True, required=True)

uwsgidecorators.postfork(show_health)
if uwsgi.worker_id():
    show_health()
"""


@pytest.mark.parametrize("lazy", [[], ["--lazy-apps"]], ids=["forked", "lazy-apps"])
def test_in_uwsgi(lazy: list[str], tmp_path: Path) -> None:
    """Its master waits for any child, and its own program is no Python."""
    port = free_port()
    (tmp_path / "shop.py").write_text(APP + LAZY.format(folder=tmp_path))
    arguments = [
        BIN / "uwsgi", "--master", "--processes", "2", "--enable-threads", "--need-app", *lazy,
        "--http-socket", f"127.0.0.1:{port}", "--module", "shop:app", "--die-on-term",
    ]  # fmt: skip
    with running(arguments, tmp_path) as process:

        def served() -> set[int]:
            found = {int(each.stem) for each in (tmp_path / "run").glob("*.sock")}
            targets = [Target(path=f"{tmp_path}/run/{pid}.sock") for pid in found]
            return {pid for pid, at in zip(found, targets, strict=True) if view(at).status}

        workers = until(served, lambda found: len(found) == 2)
        assert workers == children(process.pid)
        helpers = [helper_of(pid) for pid in workers]
        sick = int(ask_shop(port, "/bad")[1])
        until(
            lambda: view(Target(path=f"{tmp_path}/run/{sick}.sock")).status,
            lambda status: status is Status.FAIL,
        )
        process.terminate()
        process.wait(60)
        eventually(lambda: not any(map(lives, helpers)))


FORKS = """
def child(run):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = repr(run())
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        os.close(write)
        sys.stdin.close()
        leave(0)
    os.close(write)
    said = os.read(read, 4096).decode()
    os.waitpid(pid, 0)
    return said

def held():
    names = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{n}")]
    return [n for n in names if n.startswith(("socket:", "/memfd", "anon_inode"))]
"""


@pytest.mark.parametrize("leave", ["os._exit", "sys.exit"])
def test_a_forked_child_neither_keeps_nor_ends_it(leave: str, tmp_path: Path) -> None:
    begin = SERVE + FORKS + f"\nleave = {leave}\n"
    with hosting(tmp_path, begin) as host:
        assert host.ask().status == 200
        helper = host.helper
        assert host.do("child(held)") == "'[]'"
        assert (
            host.do("child(lambda: (endpoint.running, endpoint.helper_pid))") == "'(False, None)'"
        )
        assert host.do("child(endpoint.close)") == "'None'"
        assert host.ask().status == 200
        assert host.helper == helper
        assert lives(helper)
        # Two that are forked at any moment of its life, while it comes and goes.
        for _ in range(3):
            host.do("endpoint.close()")
            host.do("endpoint.start()")
            assert host.do("child(held)") == "'[]'"


def test_a_child_may_have_a_helper_of_its_own(tmp_path: Path) -> None:
    begin = """
endpoint = y.serve(manager, uri=f"unix://{os.path.dirname(sock)}/{{pid}}.sock", apart=True,
                   after_fork="restart", required=True)
pids = []
def fork():
    pid = os.fork()
    if pid == 0:
        manager.report("db", "fail", "the child's own")
        time.sleep(60)
        os._exit(0)
    pids.append(pid)
    return pid
"""
    with hosting(tmp_path, begin) as host:
        own = Unix(f"{tmp_path}/{host.process.pid}.sock")
        assert ask(own).status == 200
        child = int(host.do("fork()"))
        try:
            at = Unix(f"{tmp_path}/{child}.sock")
            eventually(lambda: Path(at.path).is_socket())
            eventually(lambda: b"the child's own" in ask(at).body)
            assert ask(own).status == 200
            first, second = helper_of(host.process.pid), helper_of(child)
            host.process.kill()
            eventually(lambda: not lives(first))
            assert ask(at).status == 503
            assert lives(second)
        finally:
            os.kill(child, signal.SIGKILL)
        eventually(lambda: not lives(second))


def test_where_the_host_is_init_its_helper_is_reaped(tmp_path: Path) -> None:
    """A container's first process inherits every orphan; one that takes orphans over does, too."""
    adopt = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER\n"
    with hosting(tmp_path, first=adopt) as host:
        assert host.ask().status == 200
        helper = host.helper
        eventually(lambda: parent_of(helper) == host.process.pid)
        os.kill(helper, signal.SIGKILL)
        eventually(lambda: helpers_of(host.process.pid) not in ([], [helper]))
        eventually(lambda: not Path(f"/proc/{helper}").exists(), "a zombie is left")
        assert host.ask().status == 200
        again = host.helper
        host.do("endpoint.close()")
        assert not Path(f"/proc/{again}").exists(), "a zombie is left"


def test_sockets_that_systemd_passed(tmp_path: Path) -> None:
    path = tmp_path / "passed.sock"
    program = """
import os, sys, time
os.environ["LISTEN_PID"] = str(os.getpid())
import yaffle_health as y
manager = y.Manager()
endpoint = y.serve(manager, uri="unix:///never", activation=True, apart=True, required=True)
print("began", flush=True)
sys.stdin.readline()
endpoint.close()
print("closed", flush=True)
sys.stdin.readline()
"""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        with subprocess.Popen(
            [sys.executable, "-c", f"import os; os.dup2({listener.fileno()}, 3)\n" + program],
            env={**os.environ, "LISTEN_FDS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            text=True,
        ) as host:
            assert host.stdin is not None
            assert host.stdout is not None
            try:
                assert host.stdout.readline() == "began\n"
                assert ask(Unix(str(path))).status == 200
                helper = helper_of(host.pid)
                host.stdin.write("\n")
                host.stdin.flush()
                assert host.stdout.readline() == "closed\n"
                assert not lives(helper)
                assert path.is_socket(), "the file is systemd's"
                # It still listens, for whoever comes next.
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
            finally:
                host.kill()


def test_sd_notify_stays_in_the_host(tmp_path: Path) -> None:
    place = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place))
        manager.settimeout(60)
        begin = SERVE.replace("apart=True", "apart=True, notify=True")
        environment = {**os.environ, "NOTIFY_SOCKET": str(place), "WATCHDOG_USEC": "1000000"}
        with hosting(tmp_path, begin, env=environment) as host:
            assert manager.recv(4096).split(b"\n")[:2] == [b"READY=1", b"WATCHDOG=1"]
            assert manager.recv(4096) == b"WATCHDOG=1"
            assert host.ask().status == 200
            assert b"NOTIFY" not in Path(f"/proc/{host.helper}/environ").read_bytes()
