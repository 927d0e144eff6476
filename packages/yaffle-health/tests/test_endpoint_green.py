"""Programs patched by eventlet or gevent: a thread of the kernel's answers while the hub is blocked."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from health_wire import ask, eventually

from yaffle_health.uris import Unix

SERVE = """
manager = y.Manager()
manager.passed("start")
endpoint = y.serve(manager, uri=f"unix://{sys.argv[1]}", required=True)
"""

# Blocks the hub with the real sleep, in another thread of the kernel's nothing of it is felt.
EVENTLET = "import eventlet; eventlet.monkey_patch()\n"
EVENTLET_BLOCK = "eventlet.patcher.original('time').sleep(60)\n"
GEVENT = "import gevent.monkey; gevent.monkey.patch_all()\n"
GEVENT_BLOCK = "gevent.monkey.get_original('time', 'sleep')(60)\n"
GREEN_WORK = """
import threading, time
def work():
    while True:
        manager.report("work", "warn", "busy")
        manager.health()
        time.sleep(0.001)
threading.Thread(target=work, daemon=True).start()
time.sleep(60)
"""
IMPORT = "import os, sys, threading, yaffle_health as y; y.serve\n"

CASES = [
    ("eventlet", EVENTLET + IMPORT + SERVE + EVENTLET_BLOCK),
    ("eventlet", IMPORT + EVENTLET + SERVE + EVENTLET_BLOCK),
    ("eventlet", EVENTLET + IMPORT + SERVE + GREEN_WORK),
    ("gevent", GEVENT + IMPORT + SERVE + GEVENT_BLOCK),
    ("gevent", IMPORT + GEVENT + SERVE + GEVENT_BLOCK),
    ("gevent", GEVENT + IMPORT + SERVE + GREEN_WORK),
]
IDS = [
    "eventlet first",
    "eventlet second",
    "eventlet works",
    "gevent first",
    "gevent second",
    "gevent works",
]


@pytest.mark.parametrize(("needs", "program"), CASES, ids=IDS)
def test_it_answers_and_ends_as_the_host_s_signals_say(
    needs: str, program: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    path = tmp_path / "health.sock"
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, str(path)],
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            eventually(lambda: path.is_socket() or child.poll() is not None)
            for _ in range(50):
                assert ask(Unix(str(path))).status == 200
            assert len(list(Path(f"/proc/{child.pid}/task").iterdir())) >= 2
            child.send_signal(signal.SIGTERM)
            _, said = child.communicate(timeout=60)
            assert child.returncode == -signal.SIGTERM
            assert "Traceback" not in said
        finally:
            child.kill()


CLOSES = """
with y.Endpoint(manager.health, uri=f"unix://{sys.argv[1]}.2") as second:
    assert second.running
endpoint.close()
assert not os.path.exists(sys.argv[1])
print("closed")
"""


@pytest.mark.parametrize("patch", ["", EVENTLET, GEVENT], ids=["plain", "eventlet", "gevent"])
def test_it_can_be_closed_there(patch: str, tmp_path: Path) -> None:
    program = patch + IMPORT + SERVE + CLOSES
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "health.sock")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.strip() == "closed", found.stderr


def test_no_handler_of_the_host_is_touched() -> None:
    code = (
        "import signal, yaffle_health as y;"
        "before = [signal.getsignal(n) for n in signal.valid_signals()];"
        "e = y.Endpoint(y.Manager().health, uri='tcp://127.0.0.1:0', ephemeral=True).start();"
        "assert e.running;"
        "assert before == [signal.getsignal(n) for n in signal.valid_signals()]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
