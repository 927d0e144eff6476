"""Which file a process of the test run takes next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.scheduling import chosen

A, B = "tests/openstack/test_a.py", "tests/openstack/nova/test_b.py"
C, D = "tests/sim/test_c.py", "tests/unit/openstack/test_d.py"


@pytest.mark.parametrize(
    ("files", "lab", "other"),
    [
        pytest.param([C, B, D, A], B, C, id="the first of each kind"),
        pytest.param([D], None, D, id="a unit of OpenStack needs no lab"),
        pytest.param([A], A, None, id="only the lab's are left"),
        pytest.param([], None, None, id="nothing is left"),
    ],
)
def test_the_process_with_the_lab_and_the_others(
    files: Sequence[str], lab: str | None, other: str | None
) -> None:
    assert chosen(files, of_lab=True) == lab
    assert chosen(files, of_lab=False) == other
