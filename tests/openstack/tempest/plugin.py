"""Senlin's own tests of its API, run against a Yaffle in the lab, and what is expected of each."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from lab.openstack import Credentials
from lab.openstack.plan import Plan
from lab.openstack.templates import ADMIN_PASSWORD
from tests.openstack.clients import environment
from tests.openstack.cloud import Cloud
from tests.openstack.registering import Region

HERE: Final = Path(__file__).resolve().parent
EXPECTED: Final = HERE / "expected.toml"
SERVER: Final = {"flavor": "lab.tiny", "image": "lab-image", "networks": "none"}
"""What the plugin's servers are here; it knows only those of a DevStack."""
CONF: Final = """\
[DEFAULT]
log_file = {root}/tempest.log
[auth]
use_dynamic_credentials = false
test_accounts_file = {root}/accounts.yaml
tempest_roles = member
create_isolated_networks = false
[identity]
auth_version = v3
uri_v3 = {auth_url}
region = {region}
v3_endpoint_type = public
[identity-feature-enabled]
api_v2 = false
[service_available]
neutron = false
cinder = false
swift = false
horizon = false
senlin = true
[clustering]
min_microversion = 1.0
max_microversion = latest
delete_with_dependency = true
health_policy_version = 1.1
wait_timeout = 240
[oslo_concurrency]
lock_path = {root}/locks
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one test of the plugin ended."""

    name: str
    outcome: str
    """passed, failed, skipped."""
    why: str
    s: float


def expected() -> Mapping[str, str]:
    """Return the tests that fail, each with the reason."""
    groups = tomllib.loads(EXPECTED.read_text())["fails"]
    return {name: group["why"] for group in groups for name in group["tests"]}


@contextmanager
def provided(cloud: Cloud) -> Iterator[None]:
    """Give the project that Yaffle acts in, and no other, the flavor and the image of an update."""
    admin, mine = cloud.lab.api, cloud.api
    wanted: dict[str, object] = {"name": "new_flavor", "ram": 128, "vcpus": 1, "disk": 1}
    private = {**wanted, "os-flavor-access:is_public": False}
    flavor = admin.call("POST", "compute", "/flavors", {"flavor": private})["flavor"]["id"]
    try:
        access = {"addTenantAccess": {"tenant": cloud.credentials.project_id}}
        admin.call("POST", "compute", f"/flavors/{flavor}/action", access)
        wanted = {"name": "new_image", "disk_format": "raw", "container_format": "bare"}
        image = mine.call("POST", "image", "/images", wanted)["id"]
        try:
            mine.call("PUT", "image", f"/images/{image}/file", b"new image" * 64)
            yield
        finally:
            mine.call("DELETE", "image", f"/images/{image}")
    finally:
        admin.call("DELETE", "compute", f"/flavors/{flavor}")


def configure(plan: Plan, region: Region, who: Credentials, root: Path) -> None:
    """Write tempest's configuration and accounts: one member, and the administrator."""
    values = {"root": root, "auth_url": plan.auth_url, "region": region.name}
    (root / "tempest.conf").write_text(CONF.format(**values))
    member = _account(who.user, who.project, who.password, "member")
    admin = _account("admin", "admin", ADMIN_PASSWORD, "admin")
    accounts = root / "accounts.yaml"
    accounts.write_text(yaml.safe_dump([member, admin]))
    accounts.chmod(0o600)


def _account(user: str, project: str, password: str, role: str) -> dict[str, object]:
    words = {"username": user, "project_name": project, "password": password}
    return {**words, "domain_name": "Default", "roles": [role]}


def run(root: Path, names: Sequence[str], *, within_s: float) -> list[Result]:
    """Run tests of the plugin, all if none is named; raises CalledProcessError if that breaks off."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
    more = {"TEMPEST_CONFIG_DIR": str(root), "TEMPEST_SERVER": json.dumps(SERVER)}
    done = subprocess.run(
        [environment.provide(), HERE / "inside.py", *names],
        env={**ours, **more},
        stdout=subprocess.PIPE,
        text=True,
        timeout=within_s,
        check=True,
    )
    return [Result(**json.loads(line)) for line in done.stdout.splitlines()]


def surprises(results: Sequence[Result], fails: Mapping[str, str]) -> list[str]:
    """Return what did not end as expected, a paragraph each: failures, and successes."""
    told = []
    for result in results:
        if result.outcome == "failed" and result.name not in fails:
            told.append(f"{result.name} fails:\n{result.why}")
        elif result.outcome != "failed" and result.name in fails:
            told.append(f"{result.name} is {result.outcome}, and was to fail: {fails[result.name]}")
        elif result.outcome == "skipped":
            told.append(f"{result.name} is skipped: {result.why}")
    return told
