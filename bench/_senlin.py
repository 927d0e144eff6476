"""Senlin 16, which Yaffle replaces, in a lab of ours: its packages, its database, its real programs.

Senlin was retired in 2024: its packages are those of that year (`requirements-senlin.lock`), and its
tables need MariaDB. It gets one worker of each kind, as our lab's other services do.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lab.openstack import Lab, LabError, catalog, packages, templates
from lab.openstack.api import Api, Refused
from lab.openstack.errors import last_lines
from lab.openstack.plan import HOME
from lab.openstack.processes import Service
from lab.openstack.waiting import until, until_answers
from tests.servers.mariadb import MariaDB

LOCK: Final = Path(__file__).with_name("requirements-senlin.lock")
FOLDER: Final = HOME / "senlin"
TABLES_S: Final = 120.0
ACTION_S: Final = 120.0
CONFLICT: Final = 409
BUSY: Final = ("INIT", "READY", "RUNNING", "WAITING", "WAITING_LIFECYCLE_COMPLETION")
CONFIG: Final = """
[DEFAULT]
log_file = {log}
transport_url = {bus}
default_region_name = {region}
host = senlin
use_stderr = false
# It asks no cluster oftener than once a minute unless it is told to.
health_check_interval_min = 1
# Its health manager imports itself for longer than the two seconds that it gets.
engine_life_check_timeout = 30

[senlin_api]
bind_host = 127.0.0.1
bind_port = {port}
api_paste_config = {folder}/api-paste.ini
workers = 0

[conductor]
workers = 1

[engine]
workers = 1

[health_manager]
workers = 1

[database]
connection = mysql+pymysql://root@127.0.0.1:{mariadb}/senlin

[authentication]
auth_url = {identity}
service_username = senlin
service_password = {password}
service_project_name = service

[oslo_concurrency]
lock_path = {folder}
"""


class Senlin:
    """Senlin as a user of one project sees it: profiles, policies, clusters, nodes."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def profile(self, name: str, spec: Mapping[str, object]) -> str:
        """Create a profile; return its id."""
        return str(self._made("profiles", "profile", {"name": name, "spec": spec})["id"])

    def policy(self, name: str, spec: Mapping[str, object]) -> str:
        """Create a policy; return its id."""
        return str(self._made("policies", "policy", {"name": name, "spec": spec})["id"])

    def cluster(self, name: str, profile: str, policy: str) -> str:
        """Create a cluster of one node, wait until it is there, attach the policy; return its id."""
        words = {"name": name, "profile_id": profile, "desired_capacity": 1}
        cluster = str(self._made("clusters", "cluster", words)["id"])
        until(f"cluster {name} is made", lambda: self._status(cluster) == "ACTIVE", ACTION_S, 0.2)
        attach = {"policy_attach": {"policy_id": policy, "enabled": True}}
        self._act(cluster, attach)
        return cluster

    def let_go(self, cluster: str, policy: str) -> None:
        """Have Senlin heal a cluster no more, once it is not at it; its servers go with their project."""

        def done() -> bool:
            try:
                self._act(cluster, {"policy_detach": {"policy_id": policy}})
            except Refused as refused:
                if refused.status != CONFLICT:
                    raise
                return False
            return True

        until(f"Senlin lets go of cluster {cluster}", done, ACTION_S, 1.0)

    def copy(self, cluster: str) -> str:
        """Return the server of the cluster's one node."""
        (node,) = self._asked("GET", f"/v1/nodes?cluster_id={cluster}")["nodes"]
        return str(node["physical_id"])

    def _status(self, cluster: str) -> str:
        found = self._asked("GET", f"/v1/clusters/{cluster}")["cluster"]
        if found["status"] == "ERROR":
            raise LabError(f"Senlin cannot make the cluster: {found['status_reason']}")
        return str(found["status"])

    def _act(self, cluster: str, words: Mapping[str, object]) -> None:
        action = self._asked("POST", f"/v1/clusters/{cluster}/actions", words)["action"]
        seen: dict[str, Any] = {}

        def ended() -> bool:
            seen.update(self._asked("GET", f"/v1/actions/{action}")["action"])
            return seen["status"] not in BUSY

        until(f"Senlin's action {action} has ended", ended, ACTION_S, 0.2)
        if seen["status"] != "SUCCEEDED":
            raise LabError(f"Senlin's action ended {seen['status']}: {seen['status_reason']}")

    def _made(self, path: str, kind: str, words: Mapping[str, object]) -> dict[str, Any]:
        made: dict[str, Any] = self._asked("POST", f"/v1/{path}", {kind: words})[kind]
        return made

    def _asked(
        self, method: str, path: str, words: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        return self._api.call(method, "clustering", path, words)


@contextmanager
def senlin(lab: Lab) -> Iterator[None]:
    """Bring Senlin up in a lab, beside Yaffle, until the end of the block."""
    packages.install(FOLDER, LOCK)
    server = MariaDB()
    try:
        server.start()
        server.sql("CREATE DATABASE senlin")
        _register(lab)
        with _running(lab, server):
            yield
    finally:
        server.stop()


@contextmanager
def _running(lab: Lab, server: MariaDB) -> Iterator[None]:
    config = _configure(lab, server)
    _make_tables(lab, config)
    services = _services(lab, config)
    try:
        for service in services:
            lab.processes.start(service)
        for service in services:
            until_answers(lab.processes, service)
        yield
    finally:
        lab.processes.stop(services)


def _configure(lab: Lab, server: MariaDB) -> Path:
    folder = lab.plan.etc / "senlin"
    folder.mkdir(exist_ok=True)
    shutil.copy(FOLDER / "etc" / "senlin" / "api-paste.ini", folder)
    words = CONFIG.format(
        log=lab.plan.log / "senlin.log",
        bus=lab.plan.bus_url,
        region=templates.REGION,
        mariadb=server.port,
        identity=lab.plan.auth_url,
        port=lab.plan.ports.clustering,
        password=templates.SERVICE_PASSWORD,
        folder=folder,
    )
    (folder / "senlin.conf").write_text(words + templates.token_check(lab.plan, "senlin"))
    return folder / "senlin.conf"


def _make_tables(lab: Lab, config: Path) -> None:
    log = lab.plan.log / "schema-senlin.out"
    with log.open("w") as out:
        done = subprocess.run(
            [FOLDER / "bin" / "senlin-manage", "--config-file", config, "db_sync"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=lab.processes.environment({}),
            timeout=TABLES_S,
            check=False,
        )
    if done.returncode:
        raise LabError(f"the tables of Senlin cannot be made; {log} ends with\n{last_lines(log)}")


def _services(lab: Lab, config: Path) -> list[Service]:
    answers = {"senlin-api": f"{lab.plan.url('clustering')}/"}
    return [
        Service(
            name=name,
            command=(str(FOLDER / "bin" / name), "--config-file", str(config)),
            answers=answers.get(name, ""),
            log=lab.plan.log / "senlin.log",
        )
        for name in ("senlin-conductor", "senlin-engine", "senlin-health-manager", "senlin-api")
    ]


def _register(lab: Lab) -> None:
    """Make the user that it works as; nobody looks for its API in the catalog."""
    api = lab.api
    password = {"password": templates.SERVICE_PASSWORD}
    project = catalog.found_or_made(api, "project", name="service", domain_id="default")
    user = catalog.found_or_made(api, "user", name="senlin", domain_id="default", extra=password)
    for role in ("admin", "service"):
        catalog.grant(api, project=project, user=user, role=role)
