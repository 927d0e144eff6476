"""Passes over all servers are shared: nobody gets an older one than they asked for, errors included."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from yaffle.clouds.openstack import CloudBusy, CloudUnavailable
from yaffle.clouds.openstack.servers.census import Census, Snapshot
from yaffle.clouds.openstack.servers.documents import Listed, ServerPage
from yaffle.engine.clock import SystemClock


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
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released by each who finds a pass under way."""

    @property
    def client(self) -> Cloud:
        return self

    def left_s(self) -> float:
        self.waiting.release()
        return self.patience_s

    def page(self, *, marker: str, since: str) -> ServerPage:
        self.asked.append(since)
        seen = Listed(id="s", status=self.status, updated="2026-01-01T00:02:00Z")
        self.begun.set()
        if self.hold is not None:
            assert self.hold.wait(20.0)
        if self.fails:
            raise CloudUnavailable("no answer", sent=False)
        return ServerPage(servers=[seen])


def census(full_s: float = 3600.0) -> Census:
    return Census(SystemClock(), full_s=full_s)


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
        assert cloud.begun.wait(20.0)
        later = [threads.submit(one.take, cloud) for _ in range(4)]  # type: ignore[arg-type]
        assert all(cloud.waiting.acquire(timeout=20.0) for _ in later)
        cloud.status, cloud.hold = "SHUTOFF", None
        held.set()
        assert status(first.result(20.0)) == "ACTIVE"
        assert {status(asked.result(20.0)) for asked in later} == {"SHUTOFF"}
    assert len(cloud.asked) == 2


def test_an_error_is_everybodys_who_waited_for_that_pass() -> None:
    cloud, one = Cloud(fails=True), census()
    with ThreadPoolExecutor(4) as threads:
        several = [threads.submit(one.take, cloud) for _ in range(4)]  # type: ignore[arg-type]
        assert all(isinstance(s.exception(20.0), CloudUnavailable) for s in several)


def test_nobody_waits_longer_than_they_may() -> None:
    cloud, one = Cloud(hold=threading.Event()), census()
    assert cloud.hold is not None
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(one.take, cloud)  # type: ignore[arg-type]
        assert cloud.begun.wait(20.0)
        hasty = Cloud(patience_s=0.05)
        with pytest.raises(CloudBusy):
            one.take(hasty)  # type: ignore[arg-type]
        cloud.hold.set()
        first.result(20.0)
