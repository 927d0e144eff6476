"""A private, real Masakari API, with no cloud behind it: hosts are registered straight in its database.

Its engine does not run: what is accepted stays `new`, as where the engine is away.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from lab.openstack import packages
from lab.openstack.plan import HERE, HOME
from tests.servers.process import Process

LOCK = HERE / "requirements-masakari.lock"
FOLDER = HOME / "masakari"
TOKEN = "admin:admin"
SETTINGS = """\
[DEFAULT]
transport_url = fake://
auth_strategy = noauth2
masakari_api_workers = 1
masakari_api_listen = 127.0.0.1
masakari_api_listen_port = {port}
# The pause with which its API keeps two notifications from each other.
notification_delay_max = 0
state_path = {folder}
[database]
connection = sqlite:///{folder}/masakari.db
[taskflow]
connection = sqlite:///{folder}/flows.db
[wsgi]
api_paste_config = {packages}/etc/masakari/api-paste.ini
"""


class Masakari(Process):
    """`url` is its API's; `clouds` a `clouds.yaml` that leads there."""

    def __init__(self) -> None:
        super().__init__()
        packages.install(FOLDER, LOCK)
        self._config = self.folder / "masakari.conf"
        self._config.write_text(
            SETTINGS.format(port=self.port, folder=self.folder, packages=FOLDER)
        )
        self.run(str(FOLDER / "bin" / "masakari-manage"), *self._with_config(), "db", "sync")
        self.segment = str(uuid.uuid4())
        self._insert(
            "failover_segments",
            uuid=self.segment,
            name="all",
            service_type="COMPUTE",
            recovery_method="auto",
            enabled=1,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _with_config(self) -> Sequence[str]:
        return ("--config-file", str(self._config))

    def command(self) -> Sequence[str]:
        return (str(FOLDER / "bin" / "masakari-api"), *self._with_config())

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/", headers={"X-Auth-Token": TOKEN}).status_code < 500
        except httpx.HTTPError:
            return False

    def clouds(self, file: Path) -> Path:
        """Write a `clouds.yaml` whose cloud `lab` is this one."""
        cloud = {"auth_type": "admin_token", "auth": {"endpoint": self.url, "token": TOKEN}}
        file.write_text(yaml.safe_dump({"clouds": {"lab": cloud}}))
        return file

    def register(self, host: str, *, on_maintenance: bool = False) -> None:
        """Let it know a host, as its API does after it has asked Nova."""
        self._insert(
            "hosts",
            uuid=str(uuid.uuid4()),
            name=host,
            reserved=0,
            type="COMPUTE",
            control_attributes="SSH",
            failover_segment_id=self.segment,
            on_maintenance=int(on_maintenance),
        )

    def notify(self, host: str, at: str, **payload: str) -> None:
        """Tell it something of a host, as its own monitors do."""
        notification = {
            "type": "COMPUTE_HOST",
            "hostname": host,
            "generated_time": at,
            "payload": {"host_status": "NORMAL", **payload},
        }
        answer = httpx.post(
            f"{self.url}/notifications",
            json={"notification": notification},
            headers={"X-Auth-Token": TOKEN},
            timeout=60,
        )
        answer.raise_for_status()

    def notifications(self) -> list[Mapping[str, Any]]:
        """Return what it has, the oldest first, as it says itself."""
        answer = httpx.get(
            f"{self.url}/notifications?sort_key=id&sort_dir=asc", headers={"X-Auth-Token": TOKEN}
        )
        return list(answer.raise_for_status().json()["notifications"])

    def _insert(self, table: str, **values: object) -> None:
        values |= {"created_at": "2026-01-01 00:00:00", "deleted": 0}
        places = ", ".join("?" * len(values))
        with closing(sqlite3.connect(self.folder / "masakari.db", timeout=60)) as db, db:
            db.execute(
                f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})",
                tuple(values.values()),
            )


@contextmanager
def masakari() -> Iterator[Masakari]:
    """Run one until the block ends."""
    server = Masakari()
    try:
        server.start()
        yield server
    finally:
        server.remove()
