"""A clouds.yaml that leads through a gate."""

from __future__ import annotations

import json
from pathlib import Path

from tests.openstack.bad_days.gate import Gate
from tests.openstack.cloud import Cloud


def through(gate: Gate, cloud: Cloud, folder: Path) -> Path:
    """Write the file for a cloud's user, under that cloud's name; Glance is asked directly."""
    mine = cloud.credentials
    auth = {
        "auth_url": f"{gate.url}/v3",
        "username": mine.user,
        "password": mine.password,
        "project_name": mine.project,
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    }
    section = {
        "auth": auth,
        "region_name": mine.region,
        "compute_endpoint_override": f"{gate.url}/v2.1",
    }
    path = folder / "clouds.yaml"
    path.write_text(json.dumps({"clouds": {cloud.name: section}}))
    return path
