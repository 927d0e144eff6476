"""Forks: a child has its parent's descriptors but not its thread, and must not keep clients waiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Each program forks in a process of its own: the tests' runner has threads that it does not know of.
BEGINNING = """
import os, socket, sys, time
import yaffle_health as y
from yaffle_health.server import Endpoint
folder = sys.argv[1]

def ask(path, timeout=60):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout)
        client.connect(path)
        client.sendall(b"GET /health?format=text HTTP/1.0\\r\\n\\r\\n")
        answer = b""
        while piece := client.recv(4096):
            answer += piece
        return answer.rpartition(b"\\r\\n")[2].decode().strip()

def told(fd):
    said = os.read(fd, 4096).decode()
    assert said == "ok", said

def in_child(run, write, leave=os._exit):
    pid = os.fork()
    if pid == 0:
        try:
            run()
            said = "ok"
        except BaseException as error:
            said = repr(error)
        os.write(write, said.encode())
        leave(0)
    return pid

read, write = os.pipe()
manager = y.Manager()
manager.passed("parent")
"""

HANGS = """
endpoint = Endpoint(manager.health, uri="tcp://127.0.0.1:0", ephemeral=True, required=True).start()
port = endpoint.addresses[0].port
with_client = socket.create_connection(("127.0.0.1", port))

def child():
    assert not endpoint.running
    assert endpoint.addresses == ()
    names = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{fd}")]
    sockets = [name for name in names if name.startswith("socket:")]
    assert len(sockets) == 1, names                # the client's own
    assert not [name for name in names if "eventpoll" in name or "eventfd" in name], names
    endpoint.close()

def lives_on():
    child()
    os.write(write, b"ok")
    time.sleep(60)

pid = in_child(lives_on, write)
told(read)
endpoint.close()
started = time.monotonic()
try:
    socket.create_connection(("127.0.0.1", port), timeout=60)
except ConnectionRefusedError:
    print("refused at once")
os.kill(pid, 9)
"""

RESTARTS = """
uri = f"unix://{folder}/{{pid}}.sock"
endpoint = y.serve(manager, uri=uri, after_fork="restart", required=True)
parent = endpoint.addresses[0].path

def child():
    own = endpoint.addresses[0].path
    assert own == f"{folder}/{os.getpid()}.sock" != parent
    assert ask(own) == "pass" == ask(parent)
    manager.report("database", "fail", "child's own")
    assert ask(own) == "fail", "the child shows its own state"
    assert ask(parent) == "pass"
    endpoint.close()
    assert os.listdir(folder) == [os.path.basename(parent)]

os.waitpid(in_child(child, write), 0)
told(read)
assert ask(parent) == "pass"
endpoint.close()
assert os.listdir(folder) == []
print("each its own")
"""

EXITS = """
uri = f"unix://{folder}/health.sock"
endpoint = y.serve(manager, uri=uri, required=True)
# Not os._exit: what runs at exit in the child must leave the parent's file alone.
os.waitpid(in_child(lambda: None, write, leave=sys.exit), 0)
told(read)
assert ask(f"{folder}/health.sock") == "pass"
print("still there")
"""

BUSY = """
import threading
endpoint = y.serve(manager, uri=f"unix://{folder}/health.sock", required=True)
stop = threading.Event()

def probe():
    while not stop.is_set():
        assert ask(f"{folder}/health.sock") == "pass"

probing = [threading.Thread(target=probe) for _ in range(2)]
for thread in probing:
    thread.start()

def child():
    assert manager.health().checks == ()           # a lock held at the fork would hang here
    manager.passed("child")
    with y.serve(manager, uri=f"unix://{folder}/{os.getpid()}.sock", required=True) as own:
        assert ask(own.addresses[0].path) == "pass"

for _ in range(50):
    os.waitpid(in_child(child, write), 0)
    told(read)
stop.set()
for thread in probing:
    thread.join()
print("fifty children")
"""

SPAWNED = """
import subprocess
endpoint = y.serve(manager, uri=f"unix://{folder}/health.sock", required=True)
descriptors = len(os.listdir("/proc/self/fd"))
idle = socket.socket(socket.AF_UNIX)
idle.connect(f"{folder}/health.sock")
while len(os.listdir("/proc/self/fd")) < descriptors + 2:      # its end and ours
    time.sleep(0.01)
command = ["ls", "-l", "/proc/self/fd"]
found = subprocess.run(command, close_fds=False, capture_output=True, text=True)
assert "pipe:" in found.stdout
assert "socket:" not in found.stdout and "anon_inode" not in found.stdout, found.stdout
print("closed on exec")
"""


RESTLESS = """
import threading
from yaffle_health.server.held import held
stop = threading.Event()

def come_and_go(n):
    while not stop.is_set():
        uri = f"tcp://127.0.0.1:0,unix://{folder}/{n}.sock"
        with Endpoint(manager.health, uri=uri, ephemeral=True) as endpoint:
            ask(endpoint.addresses[1].path)

# Once without forks: the interpreter's own locks of modules that are being imported are not ours.
uri = f"tcp://127.0.0.1:0,unix://{folder}/first.sock"
Endpoint(manager.health, uri=uri, ephemeral=True).start().close()
threads = [threading.Thread(target=come_and_go, args=(n,), daemon=True) for n in range(2)]
for thread in threads:
    thread.start()

def child():
    assert not held
    left = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            left.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            pass                                   # what listed them
    # The clients' ends are the program's own.
    own = [name for name in left if name.startswith("socket:")]
    assert len(own) <= len(threads), left
    assert not [name for name in left if "eventpoll" in name or "eventfd" in name], left
    assert folder not in left, "and with it the lock of the directory"
    with y.serve(manager, uri=f"unix://{folder}/{os.getpid()}.sock", required=True) as mine:
        assert ask(mine.addresses[0].path) == "pass"

for _ in range(100):
    os.waitpid(in_child(child, write), 0)
    told(read)
stop.set()
for thread in threads:
    thread.join()
assert not held, "what is closed is crossed out"
print("a hundred children")
"""

SLOW = """
import threading
from yaffle_health.server.held import FORK_WAIT_S, held
have, release = threading.Event(), threading.Event()

def hold():
    with held.lock:
        have.set()
        release.wait(120)

holder = threading.Thread(target=hold)
holder.start()
have.wait(60)

def child():
    with y.serve(manager, uri=f"unix://{folder}/{os.getpid()}.sock", required=True) as own:
        assert ask(own.addresses[0].path) == "pass"

began = time.monotonic()
os.waitpid(in_child(child, write), 0)
told(read)
assert time.monotonic() - began >= FORK_WAIT_S
release.set()
holder.join()
with y.serve(manager, uri=f"unix://{folder}/health.sock", required=True):
    os.waitpid(in_child(child, write), 0)
    told(read)
    assert ask(f"{folder}/health.sock") == "pass"
print("waited long enough")
"""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        pytest.param(HANGS, "refused at once", id="a child keeps no client waiting"),
        pytest.param(RESTARTS, "each its own", id="a child may have a socket of its own"),
        pytest.param(EXITS, "still there", id="a child's exit leaves its parent's file"),
        pytest.param(BUSY, "fifty children", id="forks between probes"),
        pytest.param(RESTLESS, "a hundred children", id="forks while endpoints come and go"),
        pytest.param(SLOW, "waited long enough", id="a fork waits for us, but not for ever"),
        pytest.param(SPAWNED, "closed on exec", id="a started program has nothing of it"),
    ],
)
def test_after_a_fork(program: str, says: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            BEGINNING + program,
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert found.stdout.strip() == says, found.stderr
    assert found.returncode == 0
