"""Webhooks of a real server: what is left of their ids on the disk, and who calls amid guesses."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from sqlalchemy import Connection, insert, select, update
from tests.functional.cli.support import Server, profile_document, run_here

from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.secret_box import IdKeys, add_key
from yaffle.store import dialects, receivers, tables
from yaffle.store.database import open_store
from yaffle.store.migrate import HEAD

GUESSERS = 30
TOLD_S = 5.0
"""A call that stood behind all guesses would wait for longer."""


def hook_of(server: Server, *more: str) -> dict[str, str]:
    """Make a webhook; return its receiver."""
    server.ok("profile", "create", "p", "-", given=profile_document("p"))
    server.ok("cluster", "create", "web", "--profile", "p", "--size", "0")
    words = ("receiver", "create", "hook", "--cluster", "web", "--action", "CLUSTER_CHECK")
    return server.ok(*words, *more, "--json").json["receiver"]


def called(server: Server, hook: dict) -> int:
    url = urlsplit(hook["channel"]["alarm_url"])
    address = server.ok("status", "--json").json["server"]["url"]
    with httpx.Client(timeout=60, trust_env=False) as client:
        return client.post(f"{address}{url.path}?{url.query}").status_code


@contextmanager
def guessing(server: Server) -> Iterator[Counter[int]]:
    """Let many guess at once; yields how they are answered."""
    address, over = server.ok("status", "--json").json["server"]["url"], threading.Event()
    answers: Counter[int] = Counter()

    def guess() -> None:
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            while not over.is_set():
                answer = client.post(f"/v1/webhooks/{uuid.uuid4()}/trigger?V=2")
                answers[answer.status_code] += 1

    guessers = [threading.Thread(target=guess) for _ in range(GUESSERS)]
    for one in guessers:
        one.start()
    try:
        while answers[429] < GUESSERS:
            time.sleep(0.05)
        yield answers
    finally:
        over.set()
        for one in guessers:
            one.join(60)


def test_no_file_and_no_line_holds_the_id(tmp_path: Path) -> None:
    server = Server(tmp_path / "state")
    server.start()
    hook = hook_of(server)
    assert called(server, hook) == 202
    server.ok("receiver", "update", "hook", "--name", "renamed")
    assert server.ok("receiver", "show", "renamed", "--json").json["receiver"]["id"] == hook["id"]
    running = server.running
    assert server.stop() == 0
    assert running is not None
    files = [path for path in server.state_dir.rglob("*") if path.is_file()]
    assert server.state_dir / "yaffle.db" in files
    held = {str(path): path.read_bytes() for path in files} | {"log": running.text.encode()}
    for word in (hook["id"], hook["id"].replace("-", ""), hook["id"][9:]):
        assert [name for name, content in held.items() if word.encode() in content] == []
    key = server.state_dir / "receivers.key"
    assert key.stat().st_mode & 0o777 == 0o600


def test_the_first_call_after_a_restart_is_accepted_amid_guesses(tmp_path: Path) -> None:
    server = Server(tmp_path / "state")
    server.start()
    hook = hook_of(server)
    with guessing(server):
        assert called(server, hook) == 202
    assert server.stop() == 0
    server.start()
    with guessing(server) as answers:
        before = answers.total()
        began = time.monotonic()
        assert called(server, hook) == 202
        assert time.monotonic() - began < TOLD_S
        assert answers.total() > before
    assert set(answers) == {404, 429}
    assert server.stop() == 0


OLD = "7546f2d1-8df2-4d0a-b910-a001c959caec"


def test_a_servers_old_ids_are_hidden_once_no_old_engine_needs_them(
    ready_url: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    add_key(keys)
    store = open_store(ready_url, clock=SystemClock(), with_engine_lock=False)
    row = {"id": OLD, "name": "r", "type": "webhook", "created_us": 1, "action": "CLUSTER_CHECK"}
    old = {"id": OLD, "epoch": 1, "host": "old", "pid": 7, "schema": int(HEAD) - 1}

    def living(conn: Connection) -> None:
        conn.execute(insert(tables.receivers).values(**row, channel={"alarm_url": "http://y"}))
        at_us = conn.execute(select(dialects.now_us())).scalar_one()
        conn.execute(insert(tables.engines).values(**old, started_us=at_us, seen_us=at_us))

    def migrated(**env: str) -> tuple[str, int]:
        done = run_here("db", "migrate", "--database", ready_url, env=env)
        assert done.code == 0, done.err
        return done.err, asyncio.run(store.read(receivers.plain))

    shared = {"YAFFLE_RECEIVERS__KEYS_FILE": str(keys)}
    asyncio.run(store.write(living))
    said, left = migrated(**shared)
    assert (left, "older engines are at work" in said) == (1, True)
    asyncio.run(store.write(lambda conn: conn.execute(update(tables.engines).values(stopped_us=2))))
    said, left = migrated()
    assert (left, "receivers.keys_file is not set" in said) == (1, True)
    assert migrated(**shared) == ("", 0)
    found = asyncio.run(store.read(lambda conn: receivers.by_id(conn, OLD, now_us=2)))
    assert found is not None
    assert receivers.shown_id(IdKeys(keys), found.id, found.hidden) == OLD
    asyncio.run(store.close())
