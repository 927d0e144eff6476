"""How long a wrong password makes its name wait, where it came from and nowhere else."""

from __future__ import annotations

import pytest

from yaffle.api.auth.backoff import FORGET_S, MOST_S, BackOff, delay_s
from yaffle.api.auth.credential_cache import REMEMBERED_MAX, Source

MARA = Source("203.0.113.7", "mara")


@pytest.mark.parametrize(
    ("failures", "s"), [(1, 0.1), (2, 0.2), (3, 0.4), (9, 25.6), (10, 30.0), (10_000, 30.0)]
)
def test_each_wrong_one_doubles_the_wait_up_to_its_bound(failures: int, s: float) -> None:
    assert delay_s(failures) == pytest.approx(s)


def guessed(backoff: BackOff, count: int, now_s: float) -> None:
    for _ in range(count):
        backoff.judged(MARA, now_s, good=False)


def test_only_the_pair_that_guessed_waits_and_only_so_long() -> None:
    backoff = BackOff()
    guessed(backoff, 20, 0)
    assert backoff.wait_s(MARA, 0) == MOST_S
    assert backoff.wait_s(Source(MARA.network, "ben"), 0) == 0
    assert backoff.wait_s(Source("203.0.113.8", "mara"), 0) == 0
    assert backoff.wait_s(MARA, MOST_S) == 0


def test_a_right_one_and_a_long_time_begin_anew() -> None:
    backoff = BackOff()
    guessed(backoff, 20, 0)
    backoff.judged(MARA, 0, good=True)
    assert backoff.wait_s(MARA, 0) == 0
    guessed(backoff, 20, 0)
    guessed(backoff, 1, FORGET_S)
    assert backoff.wait_s(MARA, FORGET_S) == pytest.approx(0.1)


def test_a_flood_of_names_is_bounded() -> None:
    backoff = BackOff()
    names = [Source(MARA.network, f"name {number}") for number in range(2 * REMEMBERED_MAX)]
    for name in names:
        backoff.judged(name, 0, good=False)
    assert sum(backoff.wait_s(name, 0) > 0 for name in names) == REMEMBERED_MAX
