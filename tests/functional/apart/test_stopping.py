"""Asked to end before they were ready: they end in order, and are not ready any more."""

from __future__ import annotations

import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
from tests.functional.apart.fleet import LEASE_S, Fleet, fleet_on
from tests.functional.cli.support import Running, swept, wait_for
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import free_port


@contextmanager
def nobody_registers(url: str) -> Iterator[psycopg.Connection]:
    """Keep every engine from registering, and its list from being read, until a roll back.

    Whether the database answers goes on being seen: an engine whose database is away has started.
    """
    with psycopg.connect(url.replace("postgresql+psycopg:", "postgresql:")) as conn:
        conn.execute("LOCK TABLE engines IN EXCLUSIVE MODE")
        conn.execute("LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE")
        yield conn


def beginning(fleet: Fleet, listen: str, notify: Path) -> Running:
    """Start a server of which we know where it listens before it says so."""
    member = Running(
        "serve",
        *("--listen", listen, "--database", fleet.url, "--allow-local-process"),
        env={
            "YAFFLE_STATE_DIR": str(fleet.state_dir),
            "YAFFLE_ENGINE__LEASE": str(LEASE_S),
            "NOTIFY_SOCKET": str(notify),
        },
    )
    fleet.members.append(member)
    return member


def test_what_is_ready_only_while_it_ends_says_nothing_and_ends_well(
    own_postgresql: PostgreSQL, tmp_path: Path
) -> None:
    url, notify = own_postgresql.create(), tmp_path / "notify"
    with (
        swept(f"stopping-{uuid.uuid4().hex}"),
        fleet_on(url, tmp_path / "state") as fleet,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor,
    ):
        supervisor.bind(str(notify))
        supervisor.settimeout(120)
        fleet.migrate()
        listen = f"127.0.0.1:{free_port()}"
        with nobody_registers(url) as lock:
            member = beginning(fleet, listen, notify)
            while "registering" not in supervisor.recv(4096).decode():
                pass
            asked = threading.Thread(target=asking, args=(listen,))
            asked.start()
            # The engine's own statements wait too: only this one is the request's.
            wait_for(lambda: waits(own_postgresql, "watches.lease_us"))
            member.signal(signal.SIGTERM)
            while "STOPPING=1" not in supervisor.recv(4096).decode():
                pass
            # It waits for the request; meanwhile the engine registers after all.
            lock.rollback()
        asked.join(60)
        assert member.end() == 0, member.text
        fleet.members.remove(member)
        assert "listening" not in member.text


def asking(listen: str) -> None:
    """Ask for what cannot be read yet, once somebody answers; the end of the server is one."""

    def answered() -> bool:
        try:
            answer = httpx.get(f"http://{listen}/yaffle/v1/engines", timeout=60)
        except httpx.RemoteProtocolError:
            return True
        except httpx.TransportError:
            return False
        return answer.status_code != 503 or "being opened" not in answer.text

    wait_for(answered)


def waits(server: PostgreSQL, of: str) -> bool:
    """Whether a statement that names `of` waits for the lock."""
    waiting = server.sql("SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return any(of in str(query) for (query,) in waiting)
