"""A `yaffle serve` as an operator runs it: Keystone says who asks, Nova and Heat do the work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.acceptance.rig import Server, serving
from tests.openstack.cloud import Cloud
from tests.openstack.registering import Region, region_with, service_user

DRIVERS: Final = ("os.nova.server-1.0", "os.heat.stack-1.0")


@contextmanager
def serving_cloud(cloud: Cloud, root: Path, region: str) -> Iterator[tuple[Server, Region]]:
    """Serve the cloud's project, registered in a region of the given name."""
    config = root / "yaffle.toml"
    config.write_text(settings(cloud, root))
    with (
        serving(root, "--config", str(config), local_process=False) as server,
        region_with(cloud.lab, region, server.root) as place,
    ):
        yield server, place


def settings(cloud: Cloud, root: Path) -> str:
    """Return the settings, as a person writes them."""
    keystone = service_user(cloud.lab, root)
    lines = ["[engine]", "poll = 0.2", "[server.keystone]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in keystone.items()]
    for driver in DRIVERS:
        lines += [f'[drivers."{driver}"]', f'cloud = "{cloud.name}"']
        lines += [f'clouds_file = "{cloud.clouds_yaml}"']
    return "\n".join(lines) + "\n"
