"""Yaffle in the lab's catalog; the test processes that share the lab take turns at writing there."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from lab.openstack import Credentials, Lab
from lab.openstack.api import Api
from lab.openstack.templates import ADMIN_PASSWORD, REGION


def register(lab: Lab, *words: str) -> dict[str, object]:
    """Run one of `yaffle openstack`'s commands as the administrator; return what it says."""
    with (lab.plan.state / "catalog").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "yaffle.cli", "openstack", *words, "--cloud", "lab", "--json"],
            env={**os.environ, "OS_CLIENT_CONFIG_FILE": str(lab.plan.clouds_yaml)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def service_user(lab: Lab, folder: Path) -> dict[str, object]:
    """Return the section `server.keystone` with which Yaffle believes the lab's tokens."""
    password = folder / "password"
    password.write_text(ADMIN_PASSWORD)
    password.chmod(0o600)
    return {
        "auth_url": lab.plan.auth_url,
        "username": "admin",
        "project_name": "admin",
        "password_file": str(password),
        "interface": "public",
        # Nobody here tests how long Yaffle waits: a Keystone that is held up is asked, not given up.
        "timeout": 60,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region of the cloud in which there is nothing but Keystone, and Yaffle."""

    lab: Lab
    name: str

    def clouds_yaml(self, who: Credentials, folder: Path) -> Path:
        """Write the user's clouds.yaml for this region."""
        words = yaml.safe_load(who.clouds_yaml.read_text())
        words["clouds"][who.cloud]["region_name"] = self.name
        path = folder / "clouds.yaml"
        path.write_text(yaml.safe_dump(words))
        path.chmod(0o600)
        return path


@contextmanager
def region_with(lab: Lab, name: str, url: str) -> Iterator[Region]:
    """Put Yaffle into the catalog, in a region of its own: a second one is beside it, not in its way."""
    api = lab.api
    api.call("POST", "identity", "/regions", {"region": {"id": name}})
    endpoint = _keystone_in(api, name)
    try:
        register(lab, "register", "--url", url, "--region", name)
        yield Region(lab=lab, name=name)
        register(lab, "unregister", "--region", name)
    finally:
        api.call("DELETE", "identity", f"/endpoints/{endpoint}")
        api.call("DELETE", "identity", f"/regions/{name}")


def _keystone_in(api: Api, region: str) -> str:
    """Say that Keystone is in the region as well, at the address that it has."""
    service = api.get("identity", "/services?type=identity")["services"][0]["id"]
    known = api.get("identity", f"/endpoints?service_id={service}&interface=public")["endpoints"]
    url = next(e["url"] for e in known if e["region_id"] == REGION)
    words = {"service_id": service, "interface": "public", "region_id": region, "url": url}
    made = api.call("POST", "identity", "/endpoints", {"endpoint": words})
    return str(made["endpoint"]["id"])
