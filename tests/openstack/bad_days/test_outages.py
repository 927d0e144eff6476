"""A few seconds of what `make bad-days` plays for ten minutes: Nova hangs in the middle of all work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.openstack.bad_days.play import HEAD, play
from tests.openstack.bad_days.scenes import PHASES
from tests.openstack.cloud import Cloud

OUT_S = 8.0
"""Longer than a look and an act."""


@pytest.mark.timeout(900)
def test_while_nova_hangs_nothing_is_done_blindly_and_everything_afterwards(
    broken_cloud: Cloud, tmp_path: Path
) -> None:
    phases = [PHASES[name] for name in ("asked", "fencing")]
    told = play(broken_cloud.lab, "hanging-nova-api", phases, OUT_S, tmp_path, print)
    assert all(one.well for one in told), "\n".join([HEAD, *(one.row() for one in told)])
