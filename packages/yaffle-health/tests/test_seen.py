"""What is kept of a reading is never told for something else: a memory that forgets is the judge.

Two managers live through the same history by the same clocks. One is read as it is; of the other
everything that it keeps of earlier readings is taken away before each.
"""

from __future__ import annotations

import datetime as dt
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import pytest
from health_clocks import NOON, Clocks
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from yaffle_health import Check, Health, Manager, Status
from yaffle_health.errors import UnknownGroup
from yaffle_health.http import Options
from yaffle_health.http.response import date
from yaffle_health.server.responder import Responder
from yaffle_health.views import Shape, render, shown

PASS, WARN, FAIL = Status.PASS, Status.WARN, Status.FAIL
GROUPS = (None, "live", "ready", "start", "own")
SHAPES = (Shape.NOVA, Shape.IETF, Shape.SPRING)

names = st.sampled_from(["a", "b", "c"])
components = st.sampled_from([None, None, "1", "2"])
origins = st.sampled_from([None, None, "f", "g"])
statuses = st.sampled_from([PASS, WARN, FAIL])
ttls = st.sampled_from([None, None, 0, 0.5, 3, 60])
silences = st.sampled_from([None, None, 0.7, 4, 30])
# Some end on a boundary, some short of it, some a hair behind.
steps = st.sampled_from(
    [1e-9, 1e-7, 1e-4, 0.0009, 0.001, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9999, 1, 3, 4, 30, 60, 300]
)


def forgetful(manager: Manager) -> Manager:
    """The manager without what it keeps of earlier readings."""
    manager._rules_changed()
    manager._seen.clear()
    for item in manager._items.values():
        item._verdict = None
    return manager


class TwoReaders(RuleBasedStateMachine):
    """Everything that can happen to a manager happens to both; every reading must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.clocks = Clocks()
        self.responders: list[Responder] = []
        self.both: list[Manager] = []

    @initialize(ttl_s=st.sampled_from([0, 3, 300]))
    def begin(self, ttl_s: float) -> None:
        self.both = [
            self.clocks.manager(ttl_s=ttl_s, groups={"own": ["a", "b"]}, items_max=5)
            for _ in range(2)
        ]
        self.responders = [Responder(manager.health, Options()) for manager in self.both[:1]]

    @rule(name=names, component=components, status=statuses, ttl_s=ttls)
    def report(self, name: str, component: str | None, status: Status, ttl_s: float | None) -> None:
        for manager in self.both:
            manager.report(name, status, "password=x why", component_id=component, ttl_s=ttl_s)

    @rule(name=names, component=components, origin=origins, late_s=st.sampled_from([0, 0, 0.2, 2]))
    def pass_(self, name: str, component: str | None, origin: str | None, late_s: float) -> None:
        for manager in self.both:
            source = manager.source(name, component, origin=origin)
            source.passed_at = source.now() - late_s

    @rule(name=names, component=components, origin=origins, ttl_s=ttls)
    def fail(self, name: str, component: str | None, origin: str | None, ttl_s: float) -> None:
        for manager in self.both:
            kind = "datastore" if origin == "g" else "component"
            source = manager.source(
                name, component, origin=origin, ttl_s=ttl_s, component_type=kind
            )
            manager.failed(source, OSError("refused"))

    @rule(
        name=names,
        component=components,
        groups=st.sets(st.sampled_from(["live", "start", "ready"])),
        ttl_s=ttls,
        silence_s=silences,
    )
    def register(
        self,
        name: str,
        component: str | None,
        groups: set[str],
        ttl_s: float | None,
        silence_s: float | None,
    ) -> None:
        for manager in self.both:
            manager.register(
                name, component_id=component, groups=groups, ttl_s=ttl_s, fail_after_s=silence_s
            )

    @rule(name=names, component=components)
    def unregister(self, name: str, component: str | None) -> None:
        for manager in self.both:
            manager.unregister(name, component_id=component)

    @rule(how=st.sampled_from(["reset", "reset_soon", "start_afresh_after_fork"]))
    def forget(self, how: str) -> None:
        for manager in self.both:
            getattr(manager, how)()

    @rule(ttl_s=st.sampled_from([0, 1, 300]))
    def another_time_to_live(self, ttl_s: float) -> None:
        for manager in self.both:
            manager.ttl_s = ttl_s

    @rule(seconds=steps)
    def time_passes(self, seconds: float) -> None:
        self.clocks.pass_by(seconds)

    @rule(seconds=st.sampled_from([-3600.0, -0.4, 0.4, 3600.0]))
    def the_wall_clock_steps(self, seconds: float) -> None:
        self.clocks.wall += seconds

    @invariant()
    def both_tell_the_same(self) -> None:
        if not self.both:
            return
        keeps, forgets = self.both
        for group in GROUPS:
            expected = forgetful(forgets).health(group)
            assert keeps.health(group) == expected
            assert shown(keeps.seen(group)) == shown(expected)
            self.answers_the_same(group, expected)

    def answers_the_same(self, group: str | None, expected: Health) -> None:
        asked = "" if group is None else f"&group={group}"
        for shape in SHAPES:
            request = f"GET /health?format={shape}{asked} HTTP/1.1\r\n\r\n".encode()
            reply = self.responders[0].reply(request)
            assert reply is not None
            assert reply.data.partition(b"\r\n\r\n")[2] == render(expected, shape)


TestTwoReaders = TwoReaders.TestCase
TestTwoReaders.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


# --- What is kept, and for how long --------------------------------------------------------------


def test_nothing_new_is_the_same_object() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.passed("db")
    manager.report("bus", WARN, "slow")
    first = manager.seen()
    for _ in range(100):
        clocks.pass_by(0.009)
        manager.passed("db")
        assert manager.seen() is first
    clocks.pass_by(0.15)
    assert manager.seen() is first, "nobody passed in the next second"
    manager.passed("db")
    assert manager.seen() is not first
    assert manager.seen().checks[1].time.replace(microsecond=0) == NOON + dt.timedelta(seconds=1)
    assert manager.health().checks[1].age_s == 0


@pytest.mark.parametrize("microseconds", [0, 1, 499_999, 999_998, 999_999])
def test_a_second_ends_for_what_is_kept_where_it_ends_on_the_page(microseconds: int) -> None:
    clocks = Clocks()
    clocks.wall += microseconds / 1e6
    manager = clocks.manager()
    manager.passed("db")
    for _ in range(40):
        before = manager.seen()
        clocks.pass_by(0.05000037)
        manager.passed("db")
        told, kept = manager.health(), manager.seen()
        assert render(kept, Shape.NOVA) == render(told, Shape.NOVA)
        assert (kept is before) == (render(before, Shape.NOVA) == render(told, Shape.NOVA))


@pytest.mark.parametrize(
    ("declared", "becomes"),
    [({"ttl_s": 5}, WARN), ({"fail_after_s": 5}, FAIL), ({"ttl_s": 9, "fail_after_s": 5}, FAIL)],
)
@pytest.mark.parametrize("way", ["health", "seen"])
def test_a_boundary_shows_at_the_first_reading_behind_it(
    declared: dict[str, float], becomes: Status, way: str
) -> None:
    clocks = Clocks()
    manager = clocks.manager(ttl_s=0)
    manager.register("db", **declared)
    manager.passed("db")
    began, status = clocks.mono, PASS
    for step_s in (4.9989, 0.0005, 0.0005, 0.0001, 1e-6, 1e-6, 0.001):
        clocks.pass_by(step_s)
        status = becomes if clocks.mono - began > 5 else PASS
        (check,) = getattr(manager, way)().checks
        assert check.status is status
    assert status is becomes


def test_a_silence_counts_on_where_it_is_shown() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.register("loop", fail_after_s=5)
    manager.passed("loop")
    shown_s = []
    for _ in range(3):
        clocks.pass_by(6)
        shown_s.append((manager.seen().checks[0].output or "").split()[4])
    assert shown_s == ["6.0", "12.0", "18.0"]


@pytest.mark.parametrize(
    ("change", "group"),
    [
        (lambda m: m.report("db", FAIL, "away"), None),
        (lambda m: m.report("db", WARN, "slow"), None),
        (lambda m: m.passed("new"), None),
        (lambda m: m.unregister("db"), None),
        (lambda m: m.reset(), None),
        (lambda m: m.reset_soon(), None),
        (lambda m: m.start_afresh_after_fork(), None),
        (lambda m: m.register("db", groups=["live"]), "live"),
        (lambda m: m.register("cache"), "ready"),
        (lambda m: m.register("cache", groups=["ready"]), "ready"),
        (lambda m: m.register("db", ttl_s=1), None),
        (lambda m: m.source("db", ttl_s=1), None),
        (lambda m: setattr(m, "ttl_s", 1), None),
    ],
)
def test_each_change_is_seen_at_once(
    change: Callable[[Manager], object], group: str | None
) -> None:
    clocks = Clocks()
    managers = [clocks.manager() for _ in range(2)]
    for manager in managers:
        manager.passed("db")
        clocks.pass_by(2)
        manager.seen(group)
        change(manager)
    clocks.pass_by(0.1)
    kept, told = managers[0].seen(group), forgetful(managers[1]).health(group)
    assert [c.status for c in kept.checks] == [c.status for c in told.checks]
    assert kept.status is told.status
    assert [c.name for c in kept.checks] == [c.name for c in told.checks]


def test_an_unknown_group_is_unknown_every_time() -> None:
    manager = Manager()
    for _ in range(2):
        with pytest.raises(UnknownGroup):
            manager.seen("lve")


def test_who_speaks_for_an_item_may_change_within_a_second() -> None:
    """A pass within the second of the last changes nothing, unless another voice was louder."""
    clocks = Clocks()
    manager = clocks.manager()
    one, other = manager.source("db", origin=None), manager.source("db", origin="f")
    other.component_type = "datastore"
    one.passed_at = one.now()
    clocks.pass_by(0.1)
    other.passed_at = other.now()
    assert manager.seen().checks[0].component_type == "datastore"
    clocks.pass_by(0.1)
    one.passed_at = one.now()
    assert manager.seen().checks[0].component_type == "component"


def test_a_text_is_cleaned_once_for_all_readings() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.report("db", FAIL, "password=hunter2 " + "x" * 10**6)
    first = manager.health().checks[0].output
    for _ in range(3):
        clocks.pass_by(1)
        assert manager.health("ready").checks[0].output is first
        assert manager.seen().checks[0].output is first
    manager.register("db", ttl_s=1000)
    assert manager.health().checks[0].output is first, "another judgement is no other text"


# --- In the middle of a reading ------------------------------------------------------------------


def interrupted(read: Callable[[], object], line: int, handler: Callable[[], None]) -> bool:
    """Read, and run the handler before that many lines of ours are over, as a signal's would be;
    whether the reading had so many."""
    left = [line]

    def trace(frame: FrameType, event: str, argument: object) -> object:
        if "yaffle_health" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read()
    finally:
        sys.settrace(before)
    return left[0] <= 0


@pytest.mark.parametrize("way", ["health", "seen"])
@pytest.mark.parametrize("status", [PASS, WARN])
@pytest.mark.parametrize("said_before", [(), ("pass",), ("fail",), ("fail", "pass")])
def test_a_report_between_any_two_lines_of_a_reading_is_seen_at_the_next(
    said_before: tuple[str, ...], status: Status, way: str
) -> None:
    line = 0
    while True:
        line += 1
        clocks = Clocks()
        manager = clocks.manager()
        manager.report("bus", WARN, "before")
        manager.seen()
        for each in said_before:
            clocks.pass_by(0.4)
            manager.report("db", each, "before")

        def handler(manager: Manager = manager) -> None:
            manager.report("db", status, "in between")
            manager.passed("new")

        reached = interrupted(getattr(manager, way), line, handler)
        for _ in range(2):
            for health in (manager.seen(), manager.health()):
                told = {check.name: check.status for check in health.checks}
                if reached:
                    assert told == {"bus": WARN, "db": status, "new": PASS}, line
        if not reached:
            break
    assert line > 9, "the reading was interrupted nowhere"


def test_eight_threads_write_while_two_read() -> None:
    manager = Manager()
    begin, problems = threading.Barrier(10), []
    responder = Responder(manager.health, Options())

    def write(worker: int) -> None:
        begin.wait()
        for turn in range(200):
            manager.passed("shared")
            manager.report("shared", FAIL, f"{worker} {turn}")
            manager.passed("own", component_id=f"{worker}-{turn % 7}")
            if turn % 50 == 0:
                manager.reset()
        manager.report("last", FAIL, str(worker))

    def bad(check: Check) -> bool:
        return (check.output is None) != (check.status is PASS)

    def read() -> None:
        begin.wait()
        for _ in range(300):
            problems.extend(check for check in manager.seen().checks if bad(check))
            responder.reply(b"GET /health HTTP/1.1\r\n\r\n")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not problems
    assert shown(manager.seen()) == shown(forgetful(manager).health())


def test_a_reading_that_finds_nothing_new_takes_no_lock() -> None:
    manager = Manager()
    manager.passed("db")
    first, told = manager.seen(), []
    with manager._lock:
        thread = threading.Thread(target=lambda: told.append(manager.seen()))
        thread.start()
        thread.join(60)
    assert told == [first]


def test_a_child_does_not_speak_as_its_parent() -> None:
    manager = Manager()
    parent = manager.seen()
    manager.start_afresh_after_fork()
    assert manager.seen().service.service_id != parent.service.service_id


def test_a_host_of_its_own_kind_is_asked_as_it_is() -> None:
    """Only a manager's own `health` has a `seen`; another's object may be new every time."""
    manager = Manager(service_id="s", description="d", host="h")
    manager.passed("db")

    def health_of(group: str | None) -> Health:
        asked.append(group)
        return manager.health(group)

    asked: list[str | None] = []
    responder = Responder(health_of, Options())
    for _ in range(3):
        reply = responder.reply(b"GET /health?group=ready HTTP/1.1\r\n\r\n")
        assert reply is not None
        assert reply.data.endswith(render(manager.health(), Shape.NOVA))
    assert asked == ["ready"] * 3


def test_a_source_that_was_emptied_while_it_was_listened_to_says_nothing() -> None:
    source = Manager().source("db")
    assert not source.listen(source.passed_at, 1.0, NOON.timestamp())
    assert source.moment is None


def test_ages_go_on_in_metrics_where_nothing_is_new() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.passed("db")
    responder = Responder(manager.health, Options())
    for age in ("0.000", "1.500", "3.000"):
        reply = responder.reply(b"GET /health?format=prometheus HTTP/1.1\r\n\r\n")
        assert reply is not None
        assert reply.data.endswith(f" {age}\n".encode())
        clocks.pass_by(1.5)


def test_the_date_goes_on_where_nothing_is_new() -> None:
    manager = Manager()
    manager.passed("db")
    responder = Responder(manager.health, Options())
    dates = set()
    end = time.monotonic() + 60
    while len(dates) < 2:
        assert time.monotonic() < end, "the date stands still"
        before = int(time.time())
        reply = responder.reply(b"GET /health HTTP/1.1\r\n\r\n")
        assert reply is not None
        dates.add(reply.data.split(b"\r\n")[1])
        seconds = range(before, int(time.time()) + 1)
        assert any(date(second).encode() in reply.data for second in seconds)
