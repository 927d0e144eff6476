"""Where nodes of a failed host are moved to: the table, row by row."""

from __future__ import annotations

import pytest

from yaffle.core.recovery.reserved_hosts import ORDER, Destination, destination
from yaffle.model.instance_ha import RecoveryMethod

ANYWHERE, RESERVED = Destination.ANYWHERE, Destination.RESERVED
M = RecoveryMethod


@pytest.mark.parametrize(
    ("method", "attempt", "left", "where"),
    [
        (M.AUTO, 1, True, ANYWHERE),
        (M.AUTO, 9, True, ANYWHERE),
        (M.RESERVED_HOST, 1, True, RESERVED),
        (M.RESERVED_HOST, 3, True, RESERVED),
        (M.RESERVED_HOST, 1, False, None),
        (M.AUTO_PRIORITY, 1, True, ANYWHERE),
        (M.AUTO_PRIORITY, 2, True, RESERVED),
        (M.AUTO_PRIORITY, 7, True, RESERVED),
        (M.AUTO_PRIORITY, 2, False, ANYWHERE),
        (M.RH_PRIORITY, 1, True, RESERVED),
        (M.RH_PRIORITY, 0, True, RESERVED),
        (M.RH_PRIORITY, 2, True, ANYWHERE),
        (M.RH_PRIORITY, 1, False, ANYWHERE),
    ],
)
def test_where_an_attempt_goes(method, attempt, left, where):
    assert destination(method, attempt, left=left) is where


def test_every_method_has_its_order():
    assert set(ORDER) == set(RecoveryMethod)
    assert all(ORDER.values())
