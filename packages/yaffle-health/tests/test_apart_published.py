"""What a host writes for its helper: only news, and nothing that failed is taken for told."""

from __future__ import annotations

import marshal
import resource
import time
from collections.abc import Iterator

import pytest
from health_clocks import Clocks

from yaffle_health.apart.memory import Reader, Writer
from yaffle_health.apart.plain import Document, Plain, restored
from yaffle_health.http import Options
from yaffle_health.manager import Manager
from yaffle_health.model import Health
from yaffle_health.server.published import Published, settings_of
from yaffle_health.views import Shape, render, shown


class Both:
    """A writer of a manager's health, and who reads it."""

    def __init__(self) -> None:
        self.memory = Writer()
        self.reader = Reader(self.memory.fd)
        self.complaints: list[Exception] = []

    def publish(self, manager: Manager) -> Published:
        settings = settings_of(
            Options(), connections_max=1, timeout_s=1, silent_max_s=5, shared=[False]
        )
        published = Published(manager.health, self.memory, settings, self.complaints.append)
        published.refresh()
        return published

    @property
    def number(self) -> int:
        return self.memory._words[1]

    def read(self, group: str | None = None) -> Health:
        found = self.reader.newer(0)
        assert found is not None
        document: Document = marshal.loads(found[1])
        told = document[1][group]
        assert not isinstance(told, bool)
        plain: Plain = told
        return restored(plain, time.monotonic())


@pytest.fixture
def both() -> Iterator[Both]:
    found = Both()
    yield found
    found.reader.close()
    found.memory.close()


def test_nothing_is_written_while_nothing_is_new(both: Both) -> None:
    manager = Manager()
    manager.passed("db")
    published = both.publish(manager)
    before, beat = both.number, both.reader.beat_ns
    for _ in range(3):
        # Within the second of the last: nobody could see it.
        published.refresh()
    assert both.number == before == 1
    assert both.reader.beat_ns > beat
    manager.report("db", "fail", "down")
    published.refresh()
    assert both.number == 2


def test_ages_are_those_of_the_item_and_not_of_the_last_look(both: Both) -> None:
    clocks = Clocks()
    manager = clocks.manager(ttl_s=0)
    manager.register("loop", groups=["live"])
    manager.passed("loop")
    manager.report("db", "pass", ttl_s=50)
    published = both.publish(manager)
    clocks.pass_by(100)
    # That the other has expired is news; nothing in the group live is.
    published.refresh()
    assert both.number == 2
    for group in (None, "live"):
        (loop,) = [each for each in both.read(group).checks if each.name == "loop"]
        assert loop.age_s == pytest.approx(100, abs=1)
    assert both.read().checks[0].output == manager.health().checks[0].output


def test_every_group_is_what_the_manager_says_of_it(both: Both) -> None:
    clocks = Clocks()
    manager = clocks.manager(ttl_s=60, groups={"own": ["b", "c"]})
    manager.register("loop", groups=["live", "start"], fail_after_s=30)
    manager.register("never", groups=["ready", "start"])
    for name in "abc":
        manager.passed(name)
        manager.report(name, "warn", f"{name} is slow", component_id="1")
    published = both.publish(manager)
    for seconds in (0, 10, 25, 30, 0.5):
        clocks.pass_by(seconds)
        manager.report("b", "fail", "down") if seconds == 25 else manager.passed("loop")
        published.refresh()
        for group in (None, *manager.groups):
            told, said = both.read(group), manager.health(group)
            assert shown(told) == shown(said)
            assert render(told, Shape.IETF) == render(said, Shape.IETF)
            assert (told.next_expiry_s is None) is (said.next_expiry_s is None)
            if told.next_expiry_s is not None:
                assert told.next_expiry_s == pytest.approx(said.next_expiry_s, abs=1)


def test_what_could_not_be_written_is_written_later(both: Both) -> None:
    manager = Manager()
    published = both.publish(manager)
    beat = both.reader.beat_ns
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        manager.report("db", "fail", "down")
        for _ in range(2):
            published.refresh()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [type(each) for each in both.complaints] == [OSError], "once, and not in each turn"
    assert both.reader.beat_ns == beat, "the helper is to notice"
    published.refresh()
    assert [check.name for check in both.read().checks] == ["db"]
    assert both.reader.beat_ns > beat


def test_a_look_that_finds_nothing_new_is_cheap(both: Both) -> None:
    manager = Manager()
    for number in range(1000):
        manager.passed(f"check-{number}")
    published = both.publish(manager)
    took = []
    for _ in range(20):
        manager.report("check-0", "fail", str(time.monotonic()))
        began = time.thread_time()
        published.refresh()
        news = time.thread_time() - began
        began = time.thread_time()
        published.refresh()
        took.append((time.thread_time() - began) / news)
    # 1,000 pointers are compared; everything else is for news.
    assert min(took) < 0.2
