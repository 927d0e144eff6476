"""What the catalog does not have is known not to be there, and is no outage."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.contract.projects.cloud import NAME, served

from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack import Client, Cloud, CloudsYaml


def test_a_service_that_is_not_there_has_no_place(tmp_path: Path) -> None:
    def places(client: Client) -> list[str]:
        return [client.place(service) for service in ("compute", "network", "block-storage")]

    with served() as cloud:
        at = CloudsYaml(name=NAME, file=cloud.clouds_yaml(tmp_path / "clouds.yaml"))
        found = asyncio.run(Cloud(at, SystemClock(), threads=1).call(places, 60.0))
    assert found[0].startswith(f"http://127.0.0.1:{cloud.port}/")
    assert found[1:] == ["", ""]
