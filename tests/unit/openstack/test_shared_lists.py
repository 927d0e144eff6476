"""Passes over all servers are shared: nobody gets an older one than they asked for, errors included."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack import CloudBusy, CloudUnavailable
from yaffle.integrations.openstack.servers.documents import Listed, ServerPage
from yaffle.integrations.openstack.servers.server_cache import LATE_S, ServerCache, Snapshot


@dataclass
class Cloud:
    """A Nova whose list is what is put there; a pass can be held, or made to fail."""

    status: str = "ACTIVE"
    asked: list[str] = field(default_factory=list)
    """For each pass, from when on changes were asked for; empty for a full list."""
    fails: bool = False
    hold: threading.Event | None = None
    begun: threading.Event = field(default_factory=threading.Event)
    patience_s: float = 20.0
    granted: list[float] = field(default_factory=list)
    """What each pass was given, in seconds."""
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released by each who finds a pass under way."""

    @property
    def client(self) -> Cloud:
        return self

    def left_s(self) -> float:
        self.waiting.release()
        return self.patience_s

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        self.granted.append(left_s)
        yield

    def page(self, *, marker: str, since: str) -> ServerPage:
        self.asked.append(since)
        seen = Listed(id="s", status=self.status, updated="2026-01-01T00:02:00Z")
        self.begun.set()
        if self.hold is not None:
            assert self.hold.wait(60.0)
        if self.fails:
            raise CloudUnavailable("no answer", sent=False)
        return ServerPage(servers=[seen])


def census(full_s: float = 3600.0) -> ServerCache:
    return ServerCache(SystemClock(), full_s=full_s)


def status(snapshot: Snapshot) -> str:
    return snapshot.servers["s"].status


def test_changes_are_asked_for_between_full_sweeps() -> None:
    cloud, one = Cloud(), census()
    one.take(cloud)  # type: ignore[arg-type]
    cloud.status = "SHUTOFF"
    assert status(one.take(cloud)) == "SHUTOFF"  # type: ignore[arg-type]
    assert cloud.asked == ["", "2026-01-01T00:01:00Z"]


@pytest.mark.parametrize("again", ["late", "asked for", "after an error"])
def test_when_a_full_sweep_is_due(again: str) -> None:
    cloud, one = Cloud(), census(0.0 if again == "late" else 3600.0)
    one.take(cloud)  # type: ignore[arg-type]
    if again == "after an error":
        cloud.fails = True
        with pytest.raises(CloudUnavailable):
            one.take(cloud)  # type: ignore[arg-type]
        cloud.fails = False
    one.take(cloud, full=again == "asked for")  # type: ignore[arg-type]
    assert cloud.asked[-1] == ""


def test_who_asks_while_a_pass_runs_gets_one_that_began_later() -> None:
    cloud, one = Cloud(hold=threading.Event()), census()
    held = cloud.hold
    assert held is not None
    with ThreadPoolExecutor(5) as threads:
        first = threads.submit(one.take, cloud)  # type: ignore[arg-type]
        assert cloud.begun.wait(60.0)
        # Its own question for the time that it has.
        assert cloud.waiting.acquire(timeout=60.0)
        later = [threads.submit(one.take, cloud) for _ in range(4)]  # type: ignore[arg-type]
        assert all(cloud.waiting.acquire(timeout=60.0) for _ in later)
        cloud.status, cloud.hold = "SHUTOFF", None
        held.set()
        assert status(first.result(60.0)) == "ACTIVE"
        assert {status(asked.result(60.0)) for asked in later} == {"SHUTOFF"}
    assert len(cloud.asked) == 2


def test_an_error_is_everybodys_who_waited_for_that_pass() -> None:
    cloud, one = Cloud(fails=True), census()
    with ThreadPoolExecutor(4) as threads:
        several = [threads.submit(one.take, cloud) for _ in range(4)]  # type: ignore[arg-type]
        assert all(isinstance(s.exception(60.0), CloudUnavailable) for s in several)


def test_nobody_waits_longer_than_they_may() -> None:
    cloud, one = Cloud(hold=threading.Event()), census()
    assert cloud.hold is not None
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(one.take, cloud)  # type: ignore[arg-type]
        assert cloud.begun.wait(60.0)
        hasty = Cloud(patience_s=0.05)
        with pytest.raises(CloudBusy):
            one.take(hasty)  # type: ignore[arg-type]
        cloud.hold.set()
        first.result(60.0)


# --- a cloud that is slower than those who ask --------------------------------------------------


@dataclass
class Slow:
    """A Nova whose list takes `takes_s`, by a clock of its own; it is given up when time is over."""

    takes_s: float
    now_s: float = 100.0
    asked: int = 0
    left: float = 10.0
    granted: list[float] = field(default_factory=list)

    def monotonic_s(self) -> float:
        return self.now_s

    @property
    def client(self) -> Slow:
        return self

    def left_s(self) -> float:
        return self.left

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        self.granted.append(left_s)
        yield

    def page(self, *, marker: str, since: str) -> ServerPage:
        self.asked += 1
        self.now_s += min(self.takes_s, self.granted[-1])
        if self.takes_s > self.granted[-1]:
            raise CloudUnavailable("no answer in time", sent=False)
        return ServerPage(servers=[Listed(id="s", status="ACTIVE", updated="2026-01-01T00:02:00Z")])


def test_each_pass_that_is_given_up_lets_the_next_take_twice_as_long_up_to_a_minute() -> None:
    cloud = Slow(takes_s=1000.0)
    one = ServerCache(cloud)  # type: ignore[arg-type]
    for _ in range(9):
        with pytest.raises(CloudUnavailable):
            one.take(cloud, nodes="a")  # type: ignore[arg-type]
    assert cloud.granted == [10.0, 20.0, 40.0, *[60.0] * 6]
    cloud.takes_s = 1.0
    one.take(cloud, nodes="a")  # type: ignore[arg-type]
    one.take(cloud, nodes="a")  # type: ignore[arg-type]
    assert cloud.granted[-2:] == [60.0, 10.0], "a quick answer makes nobody hasty again"


def late_list(cloud: Slow) -> ServerCache:
    """Return a census with a list that nobody has waited for."""
    one = ServerCache(cloud)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(CloudUnavailable):
            one.take(cloud, nodes="a")  # type: ignore[arg-type]
    return one


def test_a_list_that_came_too_late_is_read_for_each_node_once() -> None:
    cloud = Slow(takes_s=15.0)
    one = late_list(cloud)
    assert one.take(cloud, nodes="abc").late  # type: ignore[arg-type]
    assert one.take(cloud, nodes="xy").late  # type: ignore[arg-type]
    assert cloud.asked == 2
    cloud.takes_s = 1.0
    again = one.take(cloud, nodes="cz")  # type: ignore[arg-type]
    assert (cloud.asked, again.late) == (3, False), "the same list counted twice for c"


def test_what_comes_too_late_by_a_hair_counts_once() -> None:
    """Its asker has a little more patience than it tells us, and would hear it a second time."""
    cloud = Slow(takes_s=10.5, left=10.0)
    one = ServerCache(cloud)  # type: ignore[arg-type]
    heard = 0
    for _ in range(3):
        try:
            one.take(cloud, nodes="a")  # type: ignore[arg-type]
        except CloudUnavailable:
            continue
        heard += 1
    assert (cloud.asked, heard) == (2, 1)


def test_a_late_list_says_how_old_it_was_when_it_was_asked_for() -> None:
    cloud = Slow(takes_s=15.0)
    one = late_list(cloud)
    cloud.now_s += 30.0
    found = one.take(cloud, nodes="a")  # type: ignore[arg-type]
    assert (found.age_s, cloud.now_s - found.began_s) == (45.0, 45.0)
    cloud.takes_s = 1.0
    fresh = one.take(cloud, nodes="a")  # type: ignore[arg-type]
    assert (fresh.age_s, cloud.now_s - fresh.began_s) == (0.0, 1.0)


def test_changes_are_added_in_time_or_not_at_all() -> None:
    cloud = Slow(takes_s=15.0)
    one = late_list(cloud)
    with pytest.raises(CloudUnavailable):
        one.take(cloud, changes=True)  # type: ignore[arg-type]
    assert (cloud.asked, cloud.granted[-1]) == (3, 10.0), "others wait for it as long as it takes"
    with pytest.raises(CloudBusy):
        one.take(cloud, changes=True)  # type: ignore[arg-type]
    assert cloud.asked == 3, "a whole list that nobody can wait for"


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param({}, id="who acts upon it"),
        pytest.param({"nodes": "b", "full": True}, id="who wants all of it anew"),
        pytest.param({"nodes": "b", "later_s": LATE_S}, id="too old"),
    ],
)
def test_a_list_that_came_too_late_is_not_for_everybody(asks: dict[str, Any]) -> None:
    cloud = Slow(takes_s=15.0)
    one = late_list(cloud)
    cloud.takes_s = 1.0
    cloud.now_s += asks.pop("later_s", 0.0)
    one.take(cloud, **asks)
    assert cloud.asked == 3


def test_while_a_late_pass_runs_nobody_begins_another() -> None:
    cloud, one = Cloud(hold=threading.Event(), patience_s=0.05), census()
    assert cloud.hold is not None
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(one.take, cloud, nodes="a")  # type: ignore[arg-type]
        assert cloud.begun.wait(60.0)
        for who in ("a", "b", "c"):
            with pytest.raises(CloudBusy):
                one.take(cloud, nodes=who)  # type: ignore[arg-type]
        assert cloud.asked == [""], "one more list on top of a slow one"
        cloud.hold.set()
        with pytest.raises(CloudBusy):
            first.result(60.0)
    assert one.take(cloud, nodes="b").late  # type: ignore[arg-type]
    assert cloud.asked == [""]
