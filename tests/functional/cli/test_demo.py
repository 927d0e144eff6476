"""The demo as a newcomer meets it: one story, lines, the live view; and nothing left behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest
from tests.functional.cli.support import YAFFLE, Running, environment, living, run, wait_for

MARK = "WOODPECKER_DEMO="
FRAME = re.compile(r"yaffle demo, server http")


HOLDS = """
import os, pathlib, sys, time

def held(pid, number, real=os.kill):
    if sys._getframe(1).f_code.co_name == "fail_one":
        pathlib.Path(GO + "?").touch()
        while not pathlib.Path(GO).exists():
            time.sleep(0.05)
    real(pid, number)

GO = os.environ.get("DEMO_GO")
if GO:
    os.kill = held
"""
"""Imported by each Python of a demo: it asks by a file, and kills no node until there is another."""


def held(folder: Path) -> tuple[Running, Path]:
    """Return a demo that waits before it kills a node, and the file that lets it go on."""
    (folder / "sitecustomize.py").write_text(HOLDS)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "DEMO_GO": str(folder / "go")}
    return Running("demo", "--once", env=env), folder / "go"


def folder_of(line: str) -> Path:
    return Path(line.rpartition(" in ")[2])


def clean(folder: Path) -> bool:
    return not folder.exists() and living(MARK + folder.name) == {}


def test_once_tells_the_story_of_a_real_healing_and_leaves_nothing() -> None:
    done = run("demo", "--once", s=90)
    assert done.code == 0, done
    assert "note: " not in done.out, done.out
    lines = done.out.splitlines()
    order = ["failed", "detected", "decided", "step ", "fenced", "recovered", "verified"]
    places = [next(i for i, line in enumerate(lines) if f" {word}" in line) for word in order]
    assert places == sorted(places), done.out
    killed = re.search(r"kill -9 (\d+): web-2 is gone", done.out)
    back = re.search(r"web-2 came back: process (\d+) in place of (\d+)", done.out)
    assert killed, done.out
    assert back, done.out
    assert back[2] == killed[1] != back[1]
    detected = next(line for line in lines if " detected" in line)
    assert re.match(r" *\+[\d.]+ (ms|s) ", detected), detected
    assert clean(folder_of(lines[0]))


def test_once_fails_and_still_cleans_up_when_nobody_heals(tmp_path: Path) -> None:
    demo, go = held(tmp_path)
    folder = folder_of(demo.line("starting a server"))
    wait_for(go.with_name("go?").exists)
    for pid in living(MARK + folder.name):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"serve" in command.split(b"\0"):
            os.kill(pid, signal.SIGKILL)
    go.touch()
    demo.line("kill -9")
    assert demo.end() == 1
    assert "FAILED: server http" in demo.text
    assert "came back" not in demo.text
    assert clean(folder)


def test_once_can_be_interrupted(tmp_path: Path) -> None:
    demo, go = held(tmp_path)
    folder = folder_of(demo.line("starting a server"))
    demo.line("web-1: healthy")
    # Where it waits: what a signal's handler raises is lost where it strikes a finaliser.
    wait_for(go.with_name("go?").exists)
    demo.signal(signal.SIGTERM)
    assert demo.end() == 130
    assert clean(folder)


def test_killed_with_9_its_guard_removes_everything(tmp_path: Path) -> None:
    demo, _ = held(tmp_path)
    folder = folder_of(demo.line("starting a server"))
    demo.line("web-1: healthy")
    demo.signal(signal.SIGKILL)
    demo.end()
    wait_for(lambda: clean(folder))


def test_without_a_terminal_it_prints_lines_and_goes_on_until_a_signal(tmp_path: Path) -> None:
    state = tmp_path / "state"
    demo = Running("demo", env={"YAFFLE_STATE_DIR": str(state)})
    folder = folder_of(demo.line("starting a server"))
    demo.line("it goes on")
    if (state / "server.json").exists():
        # Nobody is at the default address, so the demo is found without being named.
        found = run("status", env={"YAFFLE_STATE_DIR": str(state)})
        assert (found.code, "cluster web" in found.out) == (0, True), found
    # Of a node that did not answer in time just then, no hint speaks: any of them will do.
    hint = demo.line(" why web-").strip()
    server, _, command = hint.partition(" ")
    node = command.split()[-1]
    assert command.endswith(f"why {node}")
    # The line is meant to be copied: what it names is what answers.
    name, _, url = server.partition("=")
    done = run("why", node, env={name: url})
    assert (done.code, f"{node} (cluster web) is" in done.out) == (0, True), done
    freeze = demo.line("kill -STOP").split()
    frozen, victim = int(freeze[2]), freeze[freeze.index("freeze") + 1].rstrip(":")
    since = len(demo.lines)
    os.kill(frozen, signal.SIGSTOP)
    wait_for(
        lambda: any(f"{victim}    INCIDENT recovered" in line for line in demo.lines[since:]),
        why=lambda: demo.text,
    )
    wait_for(lambda: frozen not in living(MARK + folder.name))
    demo.signal(signal.SIGINT)
    assert demo.end() == 0
    assert "nothing is left" in demo.text
    assert clean(folder)
    assert not state.exists()


def test_on_a_terminal_it_draws_and_ctrl_c_removes_everything() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        # By itself, before it looks: on a terminal without a size much is left out.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 140, 0, 0))
        os.execve(sys.executable, YAFFLE_ARGV, {**environment(), "TERM": "xterm-256color"})
    seen = bytearray()

    def read_until(part: str, bound_s: float) -> None:
        end = time.monotonic() + bound_s
        while part not in plain(seen):
            assert time.monotonic() < end, plain(seen)[-3000:]
            if select.select([terminal], [], [], 0.2)[0]:
                seen.extend(os.read(terminal, 65536))

    try:
        read_until("verified: process", 120)
        text = plain(seen)
        folder = Path(re.search(r"/\S*yaffle-demo-\w+", text)[0])  # type: ignore[index]
        assert len(FRAME.findall(text)) > 1, "it draws again and again"
        for heading in ("NODE", "PID", "HEALTH", "DOING", "in another terminal", "kill -STOP"):
            assert heading in text
        assert "recovered" in text
        os.write(terminal, b"\x03")
        read_until("nothing is left", 120)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        pid = 0
        wait_for(lambda: clean(folder))
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        os.close(terminal)


YAFFLE_ARGV = [*YAFFLE, "demo"]


def plain(seen: bytearray) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))


MAKE_LIKE = """
import signal, subprocess, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = subprocess.Popen(
    sys.argv[1:], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
)
child.wait()
"""
"""What `make` does as the leader of a session: it hears of the hangup, and waits for us."""


@pytest.mark.parametrize("flags", [(), ("--once",)], ids=["live", "once"])
def test_a_closed_terminal_ends_it_though_make_swallows_the_hangup(flags: tuple[str, ...]) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        argv = [sys.executable, "-c", MAKE_LIKE, *YAFFLE_ARGV, *flags]
        os.execve(sys.executable, argv, {**environment(), "TERM": "xterm-256color"})
    seen = bytearray()
    end = time.monotonic() + 120
    try:
        while "web-1: healthy" not in plain(seen):
            assert time.monotonic() < end, plain(seen)
            if select.select([terminal], [], [], 0.2)[0]:
                seen.extend(os.read(terminal, 65536))
    finally:
        os.close(terminal)
    folder = Path(re.search(r"/\S*yaffle-demo-\w+", plain(seen))[0])  # type: ignore[index]
    try:
        wait_for(lambda: clean(folder), within_s=120)
        os.waitpid(pid, 0)
        pid = 0
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
