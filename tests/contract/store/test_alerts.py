"""Failures of hosts and their alerts, on every database: told in order, until accepted or discarded."""

import asyncio

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from tests.contract.store.support import HandClock, place

from yaffle.store import alerts, prune, tables
from yaffle.store.database import open_store

S = 1_000_000
CAP_US = 300 * S


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb"])
def unit(request, tmp_path):
    """Run a unit of work on each kind of database."""
    store = open_store(place(request, tmp_path), clock=HandClock(), runner="inline")
    yield lambda work: asyncio.run(store.write(work))
    asyncio.run(store.close())


def fail(conn, ident, host, at_us=S, endpoints=("one", "two"), now_us=10 * S):
    values = {
        "id": ident,
        "hostname": host,
        "failure_us": at_us,
        "generated_us": now_us,
        "on_shared_storage": True,
        "proof": "read back: off",
    }
    alerts.add(conn, values, endpoints, now_us)


def due(conn, endpoint, now_us, skip=()):
    found = alerts.due(conn, now_us=now_us, limit=99, skip=skip, endpoint=endpoint)
    return [d.failure.id for d in found]


def seq_of(conn, ident, endpoint):
    rows = alerts.listed(conn, failure_id=ident)
    return next(r.seq for r in rows if r.endpoint == endpoint)


def failure(conn, ident):
    table = tables.host_failures
    return conn.execute(select(table).where(table.c.id == ident)).one()


def accept(conn, ident, endpoint, now_us=20 * S):
    return alerts.accepted(
        conn, seq_of(conn, ident, endpoint), now_us=now_us, said="202", responsible="one"
    )


def test_each_endpoint_has_its_own_state_and_the_responsible_one_clears_the_failure(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        assert alerts.endpoints(conn, now_us=10 * S) == ["one", "two"]
        assert accept(conn, "f1", "two")
        assert failure(conn, "f1").cleared_us is None
        assert alerts.endpoints(conn, now_us=10 * S) == ["one"]
        assert accept(conn, "f1", "one")
        row = failure(conn, "f1")
        assert (row.cleared_us, row.cleared_by) == (20 * S, "one")
        assert not accept(conn, "f1", "one", 30 * S), "it is accepted once"
        assert failure(conn, "f1").cleared_us == 20 * S

    unit(work)


def test_failures_of_one_host_are_told_in_order_and_those_of_another_do_not_wait(unit):
    def work(conn):
        fail(conn, "first", "cmp1", S)
        fail(conn, "second", "cmp1", 5 * S)
        fail(conn, "other", "cmp2", 5 * S)
        assert due(conn, "one", 10 * S) == ["first", "other"]
        seq = seq_of(conn, "first", "one")
        alerts.refused(conn, seq, now_us=10 * S, said="400")
        assert due(conn, "one", 10 * S) == ["other"]
        # Neither does the other endpoint wait for the one that refuses.
        assert due(conn, "two", 10 * S) == ["first", "other"]
        assert due(conn, "one", 10 * S + CAP_US) == ["first", "other"]
        assert accept(conn, "first", "one")
        assert due(conn, "one", 10 * S) == ["second", "other"]

    unit(work)


def test_there_is_no_last_attempt_and_the_wait_is_bounded(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        seq, now_us = seq_of(conn, "f1", "one"), 10 * S
        for number in range(1, 60):
            assert due(conn, "one", now_us) == ["f1"], number
            if number % 7 == 0:
                alerts.refused(conn, seq, now_us=now_us, said="400 Bad Request")
                assert alerts.count_refused(conn) == 1
            else:
                alerts.failed(conn, seq, now_us=now_us, said="away", chance=0.99)
                assert alerts.count_refused(conn) == 0
            row = next(r for r in alerts.listed(conn, seq=seq))
            assert now_us < row.next_us <= now_us + CAP_US
            assert (row.attempts, row.state) == (number, "pending")
            now_us = row.next_us
        assert alerts.oldest_pending_us(conn) == 10 * S

    unit(work)


def test_a_clock_that_was_ahead_keeps_nobody_waiting_for_as_long_as_it_was_wrong(unit):
    day_us = 86_400 * S

    def work(conn):
        fail(conn, "f1", "cmp1", endpoints=("one",), now_us=day_us)
        alerts.failed(conn, seq_of(conn, "f1", "one"), now_us=day_us, said="away", chance=0.99)
        assert due(conn, "one", 10 * S) == ["f1"]
        assert alerts.endpoints(conn, now_us=10 * S) == ["one"]
        # By a right clock it waits for its turn.
        alerts.refused(conn, seq_of(conn, "f1", "one"), now_us=10 * S, said="400")
        assert due(conn, "one", 11 * S) == []
        assert due(conn, "one", 10 * S + CAP_US) == ["f1"]

    unit(work)


def test_what_is_told_never_changes(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        (before,) = alerts.due(conn, now_us=10 * S, limit=9, skip=(), endpoint="one")
        alerts.failed(conn, before.seq, now_us=11 * S, said="away", chance=0.5)
        (after,) = alerts.due(conn, now_us=999 * S, limit=9, skip=(), endpoint="one")
        assert after == before
        assert (before.failure.failure_s, before.failure.generated_s) == (1, 10)

    unit(work)


def test_an_endpoint_that_is_back_gets_soon_what_it_has_missed_but_for_what_it_refuses(unit):
    def work(conn):
        for number in range(3):
            fail(conn, f"f{number}", f"cmp{number}")
        for number in range(2):
            seq = seq_of(conn, f"f{number}", "one")
            alerts.failed(conn, seq, now_us=10 * S, said="away", chance=0.0)
            conn.execute(
                update(tables.alerts).where(tables.alerts.c.seq == seq).values(next_us=250 * S)
            )
        alerts.refused(conn, seq_of(conn, "f2", "one"), now_us=10 * S, said="400")
        assert accept(conn, "f0", "one", 20 * S)
        assert due(conn, "one", 25 * S) == ["f1"]
        assert due(conn, "one", 10 * S + CAP_US) == ["f1", "f2"]

    unit(work)


def test_one_failure_for_each_host_and_time(unit):
    unit(lambda conn: fail(conn, "f1", "cmp1", 5 * S))
    assert unit(lambda conn: alerts.failure_of(conn, "cmp1", 5 * S)) == "f1"
    assert unit(lambda conn: alerts.failure_of(conn, "cmp1", 6 * S)) is None
    with pytest.raises(IntegrityError):
        unit(lambda conn: fail(conn, "f2", "cmp1", 5 * S))
    assert unit(lambda conn: alerts.uncleared(conn, "cmp1")) == "f1"
    assert unit(lambda conn: alerts.uncleared(conn, "cmp2")) is None


def test_discarded_by_a_person_it_is_told_to_nobody_and_the_next_goes_on(unit):
    def work(conn):
        fail(conn, "f1", "cmp1", S)
        fail(conn, "f2", "cmp1", 2 * S)
        seq = seq_of(conn, "f1", "one")
        done = {"now_us": 30 * S, "by": "mara", "why": "it was a test", "responsible": "one"}
        assert alerts.discard(conn, seq, **done)
        assert not alerts.discard(conn, seq, **done)
        (row,) = alerts.listed(conn, seq=seq)
        assert (row.state, row.done_by, row.done_why) == ("discarded", "mara", "it was a test")
        assert (row.cleared_us, row.cleared_by) == (30 * S, "mara")
        assert due(conn, "one", 30 * S) == ["f2"]
        assert due(conn, "two", 30 * S) == ["f1"]

    unit(work)


def test_what_persons_have_given_up_is_told_to_nobody_that_comes_later(unit):
    def work(conn):
        fail(conn, "f1", "cmp1", endpoints=("old", "older"))
        done = {"now_us": 30 * S, "by": "mara", "why": "replaced", "responsible": ""}
        assert alerts.discard(conn, seq_of(conn, "f1", "old"), **done)
        assert failure(conn, "f1").cleared_us is None, "another one is offered it still"
        assert alerts.discard(conn, seq_of(conn, "f1", "older"), **done)
        assert failure(conn, "f1").cleared_by == "mara"
        assert alerts.complete(conn, ["one"], "one", 900 * S) == 0

    unit(work)


def test_a_new_endpoint_is_told_of_what_nobody_has_taken_over(unit):
    def work(conn):
        fail(conn, "open", "cmp1", endpoints=("two",))
        fail(conn, "taken", "cmp2", endpoints=("one", "two"))
        accept(conn, "taken", "one")
        assert alerts.complete(conn, ["one", "two"], "one", 40 * S) == 1
        assert due(conn, "one", 40 * S) == ["open"]
        assert alerts.complete(conn, ["one", "two"], "one", 41 * S) == 0

    unit(work)


def test_an_endpoint_that_is_responsible_from_now_on_may_have_accepted_before(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        accept(conn, "f1", "two")
        alerts.complete(conn, ["one", "two"], "one", 40 * S)
        assert failure(conn, "f1").cleared_us is None
        alerts.complete(conn, ["one", "two"], "two", 41 * S)
        assert failure(conn, "f1").cleared_by == "two"

    unit(work)


def test_retried_by_hand_it_is_due_at_once(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        fail(conn, "f2", "cmp2")
        for ident in ("f1", "f2"):
            alerts.refused(conn, seq_of(conn, ident, "one"), now_us=10 * S, said="400")
        assert due(conn, "one", 11 * S) == []
        assert alerts.retry(conn, now_us=11 * S, seqs=[seq_of(conn, "f2", "one")]) == 1
        assert due(conn, "one", 11 * S) == ["f2"]
        accept(conn, "f2", "one")
        assert alerts.retry(conn, now_us=12 * S, seqs=None) == 3, "what is accepted is left alone"

    unit(work)


def test_history_ends_and_what_waits_stays(unit):
    day_us, keep = 86_400 * S, prune.Retention(incidents_s=86_400)

    def work(conn):
        fail(conn, "taken", "cmp1")
        fail(conn, "half", "cmp2")
        fail(conn, "open", "cmp3")
        accept(conn, "taken", "one")
        accept(conn, "taken", "two")
        accept(conn, "half", "one")
        accept(conn, "open", "two")
        for _ in range(2):
            prune.prune(conn, now_us=3 * day_us, retention=keep)
        table = tables.host_failures
        assert sorted(conn.execute(select(table.c.id)).scalars()) == ["half", "open"]
        assert due(conn, "two", 3 * day_us) == ["half"]
        # Nobody hears again of what they have accepted, however long the responsible one is away.
        assert alerts.complete(conn, ["one", "two"], "one", 3 * day_us) == 0

    unit(work)


def test_lists_are_bounded_and_begin_with_what_waits(unit):
    def work(conn):
        for number in range(5):
            fail(conn, f"f{number}", f"cmp{number}", endpoints=("one",))
        accept(conn, "f4", "one")
        rows = alerts.listed(conn, limit=5)
        assert [r.failure_id for r in rows] == ["f3", "f2", "f1", "f0", "f4"]
        assert len(alerts.listed(conn, limit=2)) == 2
        assert [r.hostname for r in alerts.listed(conn, state="accepted")] == ["cmp4"]
        assert [r.failure_id for r in alerts.listed(conn, hostname="cmp2")] == ["f2"]

    unit(work)


def resolutions(conn, now_us, endpoint="two", skip=()):
    asked = {"now_us": now_us, "limit": 9, "skip": skip, "endpoint": endpoint}
    return [d.failure.id for d in alerts.due_resolutions(conn, **asked)]


def test_a_resolution_is_due_once_the_failure_is_cleared_and_until_it_was_heard(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        assert accept(conn, "f1", "two")
        late = {"now_us": 30 * S, "resolvers": ["two"]}
        assert alerts.endpoints(conn, **late) == ["one"], "nobody has taken it over yet"
        assert resolutions(conn, 30 * S) == []
        assert accept(conn, "f1", "one")
        assert alerts.endpoints(conn, now_us=30 * S) == []
        assert alerts.endpoints(conn, **late) == ["two"]
        assert resolutions(conn, 30 * S) == ["f1"]
        seq = seq_of(conn, "f1", "two")
        assert resolutions(conn, 30 * S, skip=[seq]) == []
        alerts.unresolved(conn, seq, now_us=30 * S, said="503", chance=0.5)
        assert resolutions(conn, 30 * S) == [], "it is told again later"
        assert resolutions(conn, 30 * S + CAP_US) == ["f1"]
        alerts.resolved(conn, seq, now_us=40 * S)
        assert resolutions(conn, 30 * S + CAP_US) == []
        (row,) = (r for r in alerts.listed(conn, failure_id="f1") if r.endpoint == "two")
        assert (row.state, row.last_answer) == ("accepted", "503")

    unit(work)


def test_what_its_endpoint_has_not_taken_is_not_resolved_there(unit):
    def work(conn):
        fail(conn, "f1", "cmp1")
        assert accept(conn, "f1", "one")
        assert resolutions(conn, 30 * S) == []
        assert due(conn, "two", 30 * S) == ["f1"], "it is told of the failure first"

    unit(work)
