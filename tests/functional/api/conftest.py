"""One server for the arcs that need no engine, one with it; both real, both on a free port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.functional.api.live import Live, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """API and database, no engine: nothing changes but by the test's own hand."""
    with running(tmp_path_factory.mktemp("state") / "yaffle") as live:
        yield live


@pytest.fixture(scope="module")
def healing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The whole service; the nodes are deleted at the end."""
    with running(tmp_path_factory.mktemp("state") / "yaffle", engine=True) as live:
        yield live
        for cluster in live.call("GET", "/clusters")["clusters"]:
            live.drop("cluster", cluster["id"])
        live.until("/clusters", lambda found: not found["clusters"])
