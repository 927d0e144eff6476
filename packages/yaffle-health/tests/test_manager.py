"""The memory of a process's health: what is kept, for how long, by which clock, for whom."""

from __future__ import annotations

import datetime as dt
import threading
import time

import pytest
from health_clocks import NOON, Clocks

from yaffle_health import Check, Manager, Status
from yaffle_health.errors import BadOption

PASS, WARN, FAIL = Status.PASS, Status.WARN, Status.FAIL


def only(manager: Manager, group: str | None = None) -> Check:
    (check,) = manager.health(group).checks
    return check


def test_an_item_says_its_status_time_and_output() -> None:
    manager = Clocks().manager()
    manager.report("database", "fail", "no route")
    check = only(manager)
    assert (check.name, check.status, check.output) == ("database", FAIL, "no route")
    assert check.time == NOON
    assert check.time.tzinfo is dt.UTC


def test_the_seeds_word_error_and_the_drafts_words_are_understood() -> None:
    manager = Manager()
    for word, status in (
        ("error", FAIL),
        ("DOWN", FAIL),
        ("ok", PASS),
        ("Up", PASS),
        ("warn", WARN),
    ):
        manager.report("x", word, "why")
        assert only(manager).status is status


def test_output_is_there_if_and_only_if_the_item_does_not_pass() -> None:
    manager = Manager()
    manager.report("x", PASS, "not to be shown")
    assert only(manager).output is None
    manager.report("x", WARN)
    assert only(manager).output == "no reason was given"


def test_reports_by_hand_are_cleaned_too() -> None:
    manager = Manager()
    manager.report("bus", FAIL, "rabbit://nova:hunter2@mq:5672/\n\x00\udcff is gone")
    assert only(manager).output == "rabbit://***@mq:5672/ is gone"


def test_components_of_one_name_are_items_of_their_own_and_sorted() -> None:
    manager = Manager()
    manager.passed("db", component_id="cell2")
    manager.passed("db", component_id="cell1")
    manager.report("db", WARN, "w", component_type="datastore")
    manager.passed("bus")
    checks = manager.health().checks
    assert [(c.name, c.component_id) for c in checks] == [
        ("bus", None),
        ("db", None),
        ("db", "cell1"),
        ("db", "cell2"),
    ]
    assert checks[1].component_type == "datastore"


def test_a_text_of_any_length_is_kept_and_shown_in_bounds() -> None:
    manager = Manager()
    manager.report("db", FAIL, "word " * 10**6)
    assert len(only(manager).output or "") == 256
    (source,) = manager._sources.values()
    assert len(source.event.output if source.event else "") == 8192


# --- Expiry --------------------------------------------------------------------------------------


def test_an_item_is_believed_for_300_s_and_its_tombstone_stays() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.report("db", WARN, "slow")
    manager.passed("bus", ttl_s=1000)
    clocks.pass_by(300)
    assert not manager.health().checks[1].expired
    clocks.pass_by(1)
    tombstone = manager.health().checks[1]
    assert (tombstone.status, tombstone.expired, tombstone.last_status) == (WARN, True, WARN)
    assert tombstone.output == "stale since 2026-11-20T12:05:00+00:00; the last was warn: slow"
    clocks.pass_by(10**6)
    assert [check.expired for check in manager.health().checks] == [True, True]
    assert manager.health().status is FAIL
    manager.passed("db")
    assert manager.health().status is WARN


def test_an_expired_failure_is_unknown_not_healthy() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.report("db", FAIL, "refused")
    manager.passed("bus", ttl_s=0)
    clocks.pass_by(301)
    health = manager.health()
    assert health.status is WARN
    assert health.checks[1].last_status is FAIL
    assert "the last was fail: refused" in (health.checks[1].output or "")


def test_a_time_to_live_of_0_is_for_ever() -> None:
    clocks = Clocks()
    manager = clocks.manager(ttl_s=0)
    manager.passed("db")
    clocks.pass_by(10**9)
    assert (only(manager).status, only(manager).expired) == (PASS, False)
    assert manager.health().next_expiry_s is None


def test_whose_time_to_live_counts() -> None:
    clocks = Clocks()
    manager = clocks.manager(ttl_s=100)
    manager.register("declared", ttl_s=50)
    for name in ("default", "declared"):
        manager.passed(name)
    manager.passed("reported", ttl_s=20)
    expired_at = {}
    for _ in range(12):
        clocks.pass_by(10)
        for check in manager.health().checks:
            if check.expired:
                expired_at.setdefault(check.name, round(check.age_s))
    assert expired_at == {"default": 110, "declared": 60, "reported": 30}


def test_the_next_expiry_is_that_of_the_item_that_does_not_fail() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    assert manager.health().next_expiry_s is None
    manager.report("failing", FAIL, ttl_s=1)
    manager.passed("late", ttl_s=200)
    clocks.pass_by(0.5)
    assert manager.health().next_expiry_s == pytest.approx(199.5)
    manager.report("warning", WARN, "w", ttl_s=100)
    assert manager.health().next_expiry_s == pytest.approx(100)


def test_the_last_word_counts_even_within_one_tick_of_the_clock() -> None:
    manager = Clocks().manager()
    for status in (PASS, FAIL, PASS, WARN, FAIL, PASS):
        manager.report("db", status)
        assert only(manager).status is status


# --- Clocks (pitfall 3) --------------------------------------------------------------------------


def test_ages_are_told_by_the_monotonic_clock() -> None:
    assert Manager().source("db").now is time.monotonic


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_a_step_of_the_wall_clock_neither_expires_nor_keeps_alive(step_s: float) -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.passed("db")
    clocks.wall += step_s
    assert not only(manager).expired
    clocks.mono += 301
    assert only(manager).expired


@pytest.mark.parametrize("status", [PASS, FAIL])
def test_the_time_of_an_item_does_not_jitter_from_look_to_look(status: Status) -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.report("db", status)
    clocks.pass_by(1.0001)
    first = only(manager).time
    assert first == NOON
    for step in (0.1234567, -50.0, 3600.0):
        clocks.wall += step
        clocks.mono += 0.0000003
        assert only(manager).time == first


def test_a_pass_that_was_measured_before_a_failure_does_not_hide_it() -> None:
    """A thread may be held up between reading the clock and storing what it read."""
    clocks = Clocks()
    manager = clocks.manager()
    source = manager.source("db")
    measured = source.now()
    clocks.pass_by(0.001)
    manager.report("db", FAIL, "refused")
    source.passed_at = measured
    assert only(manager).status is FAIL
    manager.passed("db")
    assert only(manager).status is PASS


# --- Forgetting ----------------------------------------------------------------------------------


def test_reset_forgets_what_was_said_and_keeps_what_was_declared() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.register("db", groups=("live",), ttl_s=50)
    manager.report("db", FAIL, "x")
    manager.reset()
    assert manager.health().checks == ()
    assert manager.health().status is PASS
    manager.passed("db")
    clocks.pass_by(51)
    assert only(manager, "live").expired


def test_a_source_that_was_forgotten_says_so_and_is_not_heard() -> None:
    manager = Manager()
    source = manager.source("db")
    assert source.owner is manager
    for forget in (manager.reset, lambda: manager.unregister("db")):
        source = manager.source("db")
        forget()
        source.passed_at = source.now()
        assert source.owner is not manager
        assert manager.health().checks == ()


def test_unregister_takes_one_component_and_leaves_the_others() -> None:
    manager = Manager()
    manager.passed("db", component_id="a")
    manager.report("db", FAIL, component_id="b")
    manager.unregister("db", component_id="b")
    manager.unregister("never was")
    assert only(manager).component_id == "a"


# --- Bounds and bad input ------------------------------------------------------------------------


def test_items_are_bounded_and_the_overflow_is_seen() -> None:
    manager = Manager(items_max=3)
    for n in range(5):
        manager.report("db", FAIL, component_id=str(n))
    manager.report("db", PASS, component_id="0")
    health = manager.health()
    assert [c.component_id for c in health.checks if c.name == "db"] == ["0", "1", "2"]
    (overflow,) = (c for c in health.checks if c.name == "health_items")
    assert (overflow.status, overflow.output) == (
        WARN,
        "there are 3 items already: 'db' and others are not kept",
    )
    manager.reset()
    manager.passed("room again")
    assert only(manager).name == "room again"


@pytest.mark.parametrize("ttl", [-1, -0.001, float("nan"), float("inf"), "300", None, True])
def test_a_time_to_live_that_cannot_be_meant(ttl: float) -> None:
    with pytest.raises(BadOption, match="ttl") as caught:
        Manager(ttl_s=ttl)
    assert repr(ttl) in str(caught.value)
    if ttl is not None:
        with pytest.raises(BadOption, match="ttl"):
            Manager().report("x", PASS, ttl_s=ttl)


@pytest.mark.parametrize("name", ["", "a\nb", "\udcff", "x" * 129, 7, None])
def test_a_name_that_cannot_be_shown(name: str) -> None:
    manager = Manager()
    with pytest.raises(BadOption, match="name"):
        manager.passed(name)
    if name is not None:
        with pytest.raises(BadOption, match="component_id"):
            manager.passed("x", component_id=name)
    with pytest.raises(BadOption, match="name"):
        manager.register(name)


@pytest.mark.parametrize("status", ["fine", "", None, 1])
def test_a_status_that_is_none(status: str) -> None:
    with pytest.raises(BadOption, match="pass, warn or fail"):
        Manager().report("x", status)


def test_a_closed_set_of_names() -> None:
    manager = Manager(names={"message_bus", "database"})
    manager.passed("database")
    with pytest.raises(BadOption, match=r"'db'.*database, message_bus"):
        manager.passed("db")
    assert only(manager).name == "database"


# --- Who speaks ----------------------------------------------------------------------------------


def test_the_service_says_who_it_is() -> None:
    manager = Manager(
        service_id="7", description="nova-compute", host="c1", hostname="c1.cloud", release="31.0"
    )
    service = manager.service
    assert (service.service_id, service.description, service.host) == ("7", "nova-compute", "c1")
    assert (service.hostname, service.release) == ("c1.cloud", "31.0")
    assert manager.health().service == service


def test_what_is_not_said_is_worked_out_once() -> None:
    import os
    import uuid

    one, other = Manager(), Manager()
    assert uuid.UUID(one.service.service_id).version == 4
    assert one.service == one.service
    assert one.service.service_id != other.service.service_id
    assert one.service.host == os.uname().nodename
    assert one.service.description


# --- Threads -------------------------------------------------------------------------------------


def test_eight_threads_write_while_one_reads() -> None:
    manager = Manager()
    begin, problems = threading.Barrier(9), []

    def write(worker: int) -> None:
        begin.wait()
        for turn in range(300):
            manager.passed("shared")
            manager.report("shared", FAIL, f"{worker} {turn}")
            manager.passed("own", component_id=f"{worker}-{turn % 7}")
            if turn % 50 == 0:
                manager.reset()

    def read() -> None:
        begin.wait()
        for _ in range(300):
            problems.extend(
                check
                for check in manager.health().checks
                if (check.output is None) != (check.status is PASS) or check.age_s < 0
            )

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not problems
    assert not any(thread.is_alive() for thread in threads)


def test_a_signal_handler_may_report_in_the_middle_of_anything() -> None:
    """The lock is re-entrant: whoever is interrupted while holding it does not wait for itself."""
    manager = Manager()
    with manager._lock:
        manager.report("db", FAIL, "from a handler")
        manager.reset_soon()
        manager.passed("bus")
        assert only(manager).name == "bus"
