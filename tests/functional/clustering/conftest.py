"""One server without an engine for shapes and refusals: nothing changes but by the test's own hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.functional.api.live import running
from tests.functional.clustering.senlin import Senlin


@pytest.fixture(scope="module")
def senlin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Senlin]:
    """API and database, no engine."""
    with running(tmp_path_factory.mktemp("state") / "yaffle") as live:
        yield Senlin(live=live)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Senlin]:
    """The whole service; what is left is deleted at the end."""
    with running(tmp_path_factory.mktemp("state") / "yaffle", engine=True) as live:
        found = Senlin(live=live)
        yield found
        for noun in ("clusters", "nodes"):
            for thing in found.call("GET", f"/{noun}")[noun]:
                found.ask("DELETE", f"/{noun}/{thing['id']}", {"force": True})
            found.until(f"/{noun}", lambda answer, key=noun: not answer[key])
