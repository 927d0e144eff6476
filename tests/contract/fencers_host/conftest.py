"""A fresh rack for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.fencers_host.rack import Rack


@pytest.fixture
def rack(tmp_path: Path) -> Rack:
    return Rack(tmp_path)
