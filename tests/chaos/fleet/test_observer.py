"""A database that hangs and answers in the end was away: what was read is not as old as the question."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.chaos.diary import Diaries
from tests.chaos.fleet.observer import HUNG_US, Observer, observing
from tests.chaos.fleet.server import Row
from tests.chaos.lab import now_us
from tests.waiting import wait_for

HANGS_S = HUNG_US / 1_000_000 + 0.3


class Stuck:
    """A reader of an empty database whose second answer is late, or fails late."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[int] = []
        self.fails = fails
        self.on = threading.Event()

    def moment(self) -> tuple[int, int]:
        self.asked.append(now_us())
        if len(self.asked) == 2:
            self.on.wait(HANGS_S)
            if self.fails:
                raise OSError("timed out")
        return now_us(), 0

    def rows(self, sql: str, *values: object) -> Sequence[Row]:
        return []

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        self.on.set()


def is_back(observer: Observer) -> bool:
    """Whether there was an answer again after there was none."""
    words = [look.db_us is not None for look in list(observer.looks)]
    return False in words and words[-1]


@pytest.mark.parametrize("fails", [False, True], ids=["answers late", "fails late"])
def test_a_hang_is_a_time_without_an_answer(tmp_path: Path, fails: bool) -> None:
    stuck = Stuck(fails=fails)
    with observing(lambda: stuck, Diaries(tmp_path)) as observer:  # type: ignore[arg-type,return-value]
        wait_for(lambda: is_back(observer))
    away = [look.at_us for look in observer.looks if look.db_us is None]
    back = next(k for k in observer.looks if k.db_us is not None and k.at_us > away[-1])
    assert away[-1] - away[0] >= HUNG_US
    assert back.at_us - away[0] >= HUNG_US
    times = [look.at_us for look in observer.looks]
    assert times == sorted(times), "whoever searches by time relies on the order"
