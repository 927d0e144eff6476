"""Numbers of things in sentences."""

from __future__ import annotations

import pytest

from yaffle.model.counts import count


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (0, "node", "0 nodes"),
        (1, "node", "1 node"),
        (2, "node", "2 nodes"),
        (1, "process", "1 process"),
        (3, "process", "3 processes"),
    ],
)
def test_one_is_singular(number: int, noun: str, told: str) -> None:
    assert count(number, noun) == told
