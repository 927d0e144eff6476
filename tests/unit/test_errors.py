"""What task groups put around an error does not hide it."""

from __future__ import annotations

from yaffle.errors import NotFound, StaleEpoch, leaves


def test_what_was_raised_is_found_in_groups_of_groups() -> None:
    stale, absent = StaleEpoch("epoch 7 is over"), NotFound("no node 'n'")
    nested = ExceptionGroup("outer", [ExceptionGroup("inner", [stale]), absent])
    assert list(leaves(nested)) == [stale, absent]
    assert list(leaves(stale)) == [stale]
