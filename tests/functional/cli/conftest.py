"""One server with one cluster for all tests of a file that only ask; others start their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.functional.cli.support import POLICY, Server, living, profile_document, swept, wait_for


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the cluster `web` of two nodes under the policy `care`."""
    mark = f"shop-{uuid.uuid4().hex}"
    # It is never killed, so nobody waits for its lease; one that runs out would be news of its own.
    server = Server(tmp_path_factory.mktemp("shop") / "state", env={"YAFFLE_ENGINE__LEASE": "120"})
    with swept(mark):
        server.start()
        try:
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            server.ok("policy", "create", "care", "-", given=POLICY)
            server.ok(
                "cluster", "create", "web", "--profile", "page", "--size", "2", "--policy", "care"
            )

            def healthy() -> bool:
                nodes = server.ok("node", "list", "--json").json["nodes"]
                return len(nodes) == 2 and all(n["health"] == "healthy" for n in nodes)

            wait_for(healthy)
            yield server
            assert server.ok("cluster", "delete", "web").out == "cluster web deleted\n"
            assert living(mark) == {}
        finally:
            if server.running is not None:
                server.stop()
