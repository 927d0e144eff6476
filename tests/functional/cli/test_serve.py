"""The server process: how it starts, is found, stops, dies, and comes back to nodes that went on."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
import time
import uuid
from pathlib import Path

import pytest
from tests.functional.cli.support import (
    POLICY,
    Running,
    Server,
    living,
    profile_document,
    run,
    run_here,
    serving,
    swept,
    wait_for,
)
from tests.waiting import wait_until

from yaffle.cli.serve.supervisor_status import PATIENCE_S

TOKEN = "0123456789abcdef0123456789abcdef"


def test_it_leaves_a_private_card_and_takes_it_away(tmp_path: Path) -> None:
    server = Server(tmp_path / "state")
    server.start()
    card = server.state_dir / "server.json"
    assert stat.S_IMODE(card.stat().st_mode) == 0o600
    assert stat.S_IMODE(server.state_dir.stat().st_mode) == 0o700
    assert server.ok("status").out.startswith("server ")
    running = server.running
    assert running is not None
    assert server.stop(signal.SIGINT) == 0
    assert not card.exists()
    for line in running.lines:
        assert "event" in json.loads(line), line
    assert server.cli("status").code == 5


def test_a_second_server_is_turned_away(tmp_path: Path) -> None:
    server = Server(tmp_path / "state")
    server.start()
    try:
        listen = server.ok("status", "--json").json["server"]["url"].removeprefix("http://")
        taken = run("serve", "--listen", listen, "--state-dir", str(tmp_path / "other"))
        assert (taken.code, f"--listen {listen}" in taken.err) == (2, True), taken
        assert not (tmp_path / "other").exists()
        locked = run("serve", "--listen", "127.0.0.1:0", "--state-dir", str(server.state_dir))
        assert locked.code == 4
        assert f"process {server.pid_in_card()} holds" in locked.err
        assert server.ok("status").code == 0
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[engine]\nlease = 'long'\n", "engine.lease", id="type"),
        pytest.param("[engin]\nlease = 5\n", "engin", id="section"),
        pytest.param("[server]\nlisten = 'here'\n", "server.listen", id="listen"),
        pytest.param("state_dir = \n", "line 1", id="toml"),
        pytest.param("[notifiers.ops]\ntype = 'pigeon'\n", "notifiers.ops.type", id="notifier"),
        pytest.param("[notifiers.ops]\ntype = 'webhook'\n", "notifiers.ops.url", id="webhook"),
        pytest.param("[notifiers.near]\ntype = 'log'\nurl = 'x'\n", "notifiers.near.url", id="log"),
        pytest.param(
            "[drivers.'os.nova.server-1.0']\ncloud = 'x'\nclouds_file = '/nowhere.yaml'\n",
            "clouds_file",
            id="driver",
        ),
        pytest.param("[receivers]\nkeys_file = '/nowhere'\n", "receivers.keys_file", id="keys"),
        pytest.param("[server]\nusers_file = '/nowhere'\n", "users_file", id="users"),
    ],
)
def test_a_bad_setting_is_named_and_nothing_starts(text: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "yaffle.toml"
    config.write_text(text)
    flags = ("--state-dir", str(tmp_path / "state"))
    if said != "server.listen":
        flags += ("--listen", "127.0.0.1:0")
    done = run("serve", "--config", str(config), *flags)
    assert done.code == 2, done
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "state").exists(), "what is refused leaves nothing behind"
    if said != "server.listen":
        # The doctor finds what a start refuses.
        seen = run(
            "doctor", "--config", str(config), "--state-dir", str(tmp_path / "state"), "--json"
        )
        first = seen.json["checks"][0]
        assert (seen.code, first["name"], first["status"]) == (1, "here: config", "fail")
        assert said in first["detail"]
        assert not (tmp_path / "state").exists()


def test_a_doctor_of_one_installation_does_not_ask_the_server_of_another(tmp_path: Path) -> None:
    server = Server(tmp_path / "state")
    server.start()
    try:
        other = tmp_path / "other state"
        done = server.cli("doctor", "--state-dir", str(other), "--json")
        rows = {row["name"]: row for row in done.json["checks"]}
        assert (done.code, rows["server"]["status"]) == (5, "away")
        assert str(other) in rows["server"]["detail"]
        start = f"start it with `yaffle serve --state-dir '{other}'`"
        assert rows["server"]["advice"].startswith(start)
        assert "session" not in rows
        mine = server.cli("doctor", "--state-dir", str(server.state_dir), "--json")
        asked = server.cli("doctor", "--json")
        assert [row["name"] for row in mine.json["checks"]] == [
            row["name"] for row in asked.json["checks"]
        ]
        assert "drivers" in {row["name"] for row in mine.json["checks"]}
    finally:
        assert server.stop() == 0


def test_the_environment_and_its_faults(tmp_path: Path) -> None:
    words = ("serve", "--state-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    done = run(*words, env={"YAFFLE_ENGINE__LEASE": "never"})
    assert (done.code, "YAFFLE_ENGINE__LEASE" in done.err) == (2, True)
    done = run(*words, env={"YAFFLE_ENGINE": "{"})
    assert (done.code, "YAFFLE_ENGINE: " in done.err, "Traceback" in done.err) == (
        2,
        True,
        False,
    ), done
    server = Server(tmp_path / "state", env={"YAFFLE_SERVER": "http://127.0.0.1:9"})
    server.start()
    assert server.stop() == 0


def test_strangers_need_a_token_and_the_card_names_its_file(tmp_path: Path) -> None:
    open_to_all = run("serve", "--listen", "0.0.0.0:0", "--state-dir", str(tmp_path / "state"))
    assert (open_to_all.code, "server.token_file" in open_to_all.err) == (2, True)
    assert not (tmp_path / "state").exists()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# ours\nmara:{TOKEN}\n")
    tokens.chmod(0o600)
    server = Server(tmp_path / "state", flags=("--token-file", str(tokens)))
    server.start()
    try:
        url = server.ok("status", "--json").json["server"]["url"]
        shut = run_here("status", "--server", url)
        assert (shut.code, "YAFFLE_TOKEN" in shut.err) == (2, True)
        assert run_here("status", "--server", url, env={"YAFFLE_TOKEN": TOKEN}).code == 0
        assert run_here("status", "--server", url, "--token-file", str(tokens)).code == 0
        assert run_here("status", "--server", url, "--token-file", "/nowhere").code == 2
    finally:
        assert server.stop() == 0


def test_local_processes_are_off_unless_allowed(tmp_path: Path) -> None:
    server = Server(tmp_path / "state", flags=())
    server.start()
    try:
        done = server.cli("profile", "create", "page", "-", given=profile_document("x"))
        assert (done.code, "--allow-local-process" in done.err) == (2, True)
    finally:
        assert server.stop() == 0


def test_systemd_is_told_when_it_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(path))
        supervisor.settimeout(60)
        env = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"}
        server = Server(tmp_path / "state", env=env)
        began_s = time.monotonic()
        # Heard from its first word on: of a socket that is full the kernel drops what comes next.
        said: list[list[bytes]] = []
        ready_s: list[float] = []

        def hear() -> None:
            while [b"STOPPING=1"] not in said:
                words = supervisor.recv(1024).split(b"\n")
                if b"READY=1" in words:
                    ready_s.append(time.monotonic() - began_s)
                said.append(words)

        hearing = threading.Thread(target=hear, daemon=True)
        hearing.start()
        server.start()
        wait_for(lambda: {b"READY=1", b"WATCHDOG=1"} <= {word for one in said for word in one})
        server.stop()
        hearing.join(60)
        assert [b"STOPPING=1"] in said
        ready = next(one for one in said if b"READY=1" in one)
        # It counts as started when it may act, not when it listens, or after its patience.
        assert b"acting under epoch" in ready[1] or ready_s[0] >= PATIENCE_S, ready


def test_killed_and_started_again_it_adopts_its_nodes_and_heals_on(tmp_path: Path) -> None:
    mark = f"adopt-{uuid.uuid4().hex}"
    server = Server(tmp_path / "state")
    with swept(mark):
        server.start()
        server.ok("profile", "create", "page", "-", given=profile_document(mark))
        server.ok("policy", "create", "care", "-", given=POLICY)
        server.ok("cluster", "create", "w", "--profile", "page", "--size", "2", "--policy", "care")
        # Not when they have started: who may still end by itself is none to be adopted.
        wait_for(lambda: len(serving(mark)) == 2)
        before = living(mark)
        assert len(before) == 2
        server.stop(signal.SIGKILL)
        assert living(mark).keys() == before.keys()
        # Its card is stale now, and at the usual address may be another installation's server.
        away = server.cli("status")
        assert (away.code, away.out) == (5, "")
        assert f"no server of the state directory {server.state_dir} runs" in away.err
        server.start()

        def healthy() -> bool:
            nodes = server.ok("node", "list", "--json").json["nodes"]
            return [n["health"] for n in nodes] == ["healthy"] * 2

        def incidents() -> list[dict[str, object]]:
            found: list[dict[str, object]] = server.ok("incident", "list", "--json").json[
                "incidents"
            ]
            return found

        wait_for(healthy)
        assert living(mark).keys() == before.keys()
        assert incidents() == []
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        # Healthy it may be before its recovery has ended, which is at work on it until then.
        wait_for(lambda: [i["state"] for i in incidents()] == ["recovered"], within_s=120)
        wait_for(healthy)
        there = wait_until(lambda: serving(mark), lambda pids: len(pids) == 2)
        assert victim not in there
        assert living(mark).keys() == there, incidents()
        assert server.stop() == 0
        # A clean end leaves the nodes alone, too.
        assert living(mark).keys() == there, logs(server)


def logs(server: Server) -> str:
    """Return the last words of all nodes."""
    found = server.state_dir.rglob("log")
    return "\n".join(f"{path}: {path.read_text()[-1000:]}" for path in found if path.is_file())


def test_serve_writes_text_for_people_when_asked(tmp_path: Path) -> None:
    words = ("serve", "--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    running = Running(*words, env={"YAFFLE_LOG__FORMAT": "text"})
    assert not running.line("listening").startswith("{")
    running.signal(signal.SIGTERM)
    assert running.end() == 0


def test_started_without_local_processes_it_says_whom_it_cannot_heal(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    server = Server(tmp_path / "state")
    server.start()
    with swept(mark):
        server.ok("profile", "create", "page", "-", given=profile_document(mark))
        server.ok("policy", "create", "care", "-", given=POLICY)
        server.ok(
            "cluster", "create", "web", "--profile", "page", "--size", "1", "--policy", "care"
        )
        wait_for(lambda: "healthy" in server.ok("node", "list").out)
        assert doctor_row(server, "drivers")["status"] == "ok"
        assert server.stop() == 0
        server.flags = ()
        server.start()
        running = server.running
        assert running is not None
        wait_for(lambda: "nodes cannot be watched or healed here" in running.text)
        found = wait_for(lambda: (r := doctor_row(server, "drivers"))["status"] == "fail" and r)
        assert "1 node of type yaffle.local.process-1.0" in found["detail"]
        assert "--allow-local-process" in found["advice"]
        # It is marked, so that nothing has to be seen of it: held, with what is missing, and no attempt.
        server.ok("node", "mark", "unhealthy", "web-1", "--reason", "it smells")
        told = wait_for(
            lambda: (w := server.ok("why", "web-1").out) and "dependency-lost" in w and w
        )
        assert "yaffle.local.process-1.0 (start `yaffle serve` with --allow-local-process)" in told
        assert server.ok("incident", "list", "--json").json["incidents"][0]["state"] == "held"
        assert server.ok("why", "web-1", "--json").json["why"]["retry"]["attempts"] == 0
        assert server.stop() == 0
        # As it advises.
        server.flags = ("--allow-local-process",)
        server.start()
        wait_for(lambda: doctor_row(server, "drivers")["status"] == "ok")
        wait_for(lambda: "recovered" in server.ok("incident", "list").out)
        server.ok("cluster", "delete", "web")
        assert server.stop() == 0


def doctor_row(server: Server, name: str) -> dict[str, str]:
    """Return one of the doctor's rows; what else is amiss is none of this."""
    rows = server.cli("doctor", "--json").json["checks"]
    return next(row for row in rows if row["name"] == name)
