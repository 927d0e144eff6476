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
