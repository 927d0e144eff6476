"""Epochs, the outbox and forgetting, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import func, insert, select, update
from tests.contract.store.support import HandClock, count, place, tell

from yaffle.integrations.secret_box import IdKeys
from yaffle.store import catalog, commit_sequence, outbox, prune, receivers, tables
from yaffle.store.database import open_store
from yaffle.store.rows import BindingRow

DAY_US = 86_400_000_000
NOW_US = 1000 * DAY_US


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb"])
def unit(request, tmp_path):
    """Run a unit of work on a database in memory, and on each kind that the migrations make."""
    where = place(request, tmp_path)
    store = open_store(where, clock=HandClock(NOW_US), runner="inline")

    def run(work: Callable):
        return asyncio.run(store.write(work))

    yield run
    asyncio.run(store.close())


def due(unit, now_us: int, **more) -> list[tuple[str, int]]:
    found = unit(lambda c: outbox.due(c, now_us=now_us, limit=more.pop("limit", 10), **more))
    return [(item.message.topic, item.message.attempt) for item in found]


def test_an_epoch_is_never_given_twice(unit):
    assert unit(commit_sequence.highest_epoch) == 0
    assert [unit(commit_sequence.next_epoch) for _ in range(3)] == [1, 2, 3]
    assert unit(commit_sequence.highest_epoch) == 3


def test_news_is_due_in_the_order_it_was_written(unit):
    unit(lambda c: tell(c, "n", at_us=5, topics=3))
    assert due(unit, 4) == []
    assert due(unit, 5) == [("topic.0", 1), ("topic.1", 1), ("topic.2", 1)]
    assert due(unit, 5, limit=1) == [("topic.0", 1)]
    assert due(unit, 5, skip=[1, 2]) == [("topic.2", 1)]


def test_accepted_news_is_not_sent_again(unit):
    unit(lambda c: tell(c, "n"))
    assert unit(lambda c: outbox.accepted(c, 1, now_us=9)) is True
    assert due(unit, NOW_US) == []
    # The late answer of a second deliverer changes nothing.
    assert unit(lambda c: outbox.failed(c, 1, now_us=9, error="late", chance=0.5)) is False
    assert unit(lambda c: outbox.parked(c, 1, now_us=9, error="late")) is False
    assert unit(lambda c: outbox.accepted(c, 1, now_us=9)) is False


def test_failed_news_comes_back_later_under_the_same_id(unit):
    unit(lambda c: tell(c, "n", at_us=0))
    (first,) = unit(lambda c: outbox.due(c, now_us=0, limit=1))
    assert unit(lambda c: outbox.failed(c, 1, now_us=0, error="refused", chance=0.5))
    assert unit(outbox.next_due_us) == 500_000
    assert due(unit, 499_999) == []
    (second,) = unit(lambda c: outbox.due(c, now_us=500_000, limit=1))
    assert second.message.id == first.message.id
    assert (first.message.attempt, second.message.attempt) == (1, 2)
    unit(lambda c: outbox.failed(c, 1, now_us=500_000, error="x" * 5000, chance=0.5))
    assert unit(outbox.next_due_us) == 1_500_000
    assert unit(outbox.oldest_pending_us) == 0


def test_news_does_not_wait_for_as_long_as_a_clock_was_ahead(unit):
    unit(lambda c: tell(c, "n", at_us=0))
    unit(lambda c: outbox.failed(c, 1, now_us=86_400_000_000, error="503", chance=0.9))
    assert unit(lambda c: outbox.notifiers(c, now_us=0)) != []
    assert [each.seq for each in unit(lambda c: outbox.due(c, now_us=0, limit=9))] == [1]


def test_parked_news_waits_for_a_person(unit):
    unit(lambda c: tell(c, "n", topics=3))
    for seq in (1, 2):
        assert unit(lambda c, seq=seq: outbox.parked(c, seq, now_us=9, error="410"))
    assert due(unit, NOW_US) == [("topic.2", 1)]
    assert unit(lambda c: outbox.redeliver(c, now_us=20, seqs=[2, 3])) == 1
    assert due(unit, 20) == [("topic.1", 1), ("topic.2", 1)]
    assert unit(lambda c: outbox.redeliver(c, now_us=30)) == 1
    assert len(due(unit, 30)) == 3


def test_news_waits_for_the_earlier_of_its_incident(unit):
    for incident in ("i", "i", "j"):
        unit(lambda c, incident=incident: tell(c, "n", at_us=0, incident_id=incident))
    unit(lambda c: tell(c, "n", at_us=0))

    def waiting(now_us: int) -> list[int]:
        return [each.seq for each in unit(lambda c: outbox.due(c, now_us=now_us, limit=9))]

    assert waiting(0) == [1, 3, 4]
    assert waiting(0) == [1, 3, 4], "asking changes nothing"
    unit(lambda c: outbox.failed(c, 1, now_us=0, error="503", chance=0.5))
    assert waiting(0) == [3, 4], "the first of an incident rests, and so does what came after"
    assert waiting(500_000) == [1, 3, 4]
    unit(lambda c: outbox.accepted(c, 1, now_us=500_000))
    assert waiting(500_000) == [2, 3, 4]


def test_what_was_set_aside_holds_nothing_up(unit):
    for _ in range(2):
        unit(lambda c: tell(c, "n", at_us=0, incident_id="i"))
    unit(lambda c: outbox.parked(c, 1, now_us=0, error="410"))
    (later,) = unit(lambda c: outbox.due(c, now_us=0, limit=9))
    assert (later.seq, later.message.sequence) == (2, 2)
    # Sent again by hand it is late, and its number tells.
    unit(lambda c: outbox.accepted(c, 2, now_us=1))
    unit(lambda c: outbox.redeliver(c, now_us=2))
    (again,) = unit(lambda c: outbox.due(c, now_us=2, limit=9))
    assert again.message.sequence < later.message.sequence


def test_another_receiver_is_not_kept_waiting(unit):
    for name in ("log", "pager", "log"):
        unit(lambda c: tell(c, "n", at_us=0, incident_id="i"))
        unit(
            lambda c, name=name: c.execute(
                update(tables.outbox)
                .where(
                    tables.outbox.c.seq == select(func.max(tables.outbox.c.seq)).scalar_subquery()
                )
                .values(notifier=name)
            )
        )
    assert [each.seq for each in unit(lambda c: outbox.due(c, now_us=0, limit=9))] == [1, 2]


def test_a_receiver_that_is_back_gets_soon_what_it_has_missed(unit):
    def waiting(conn):
        rows = select(tables.outbox.c.seq, tables.outbox.c.next_us).order_by(tables.outbox.c.seq)
        pending = rows.where(tables.outbox.c.state == "pending")
        return [(row.seq, row.next_us) for row in conn.execute(pending)]

    unit(lambda c: tell(c, "n", at_us=0, topics=4))
    others = update(tables.outbox).where(tables.outbox.c.seq == 4)
    unit(lambda c: c.execute(others.values(notifier="another")))
    for seq in (1, 2, 4):
        for _ in range(10):
            unit(lambda c, seq=seq: outbox.failed(c, seq, now_us=0, error="503", chance=0.9))
    late_us = 270_000_000
    assert unit(waiting) == [(1, late_us), (2, late_us), (3, 0), (4, late_us)]
    # A message that it takes at once says nothing of those that it would not take.
    unit(lambda c: outbox.accepted(c, 3, now_us=10))
    assert unit(waiting) == [(1, late_us), (2, late_us), (4, late_us)]
    unit(lambda c: outbox.accepted(c, 1, now_us=10))
    assert unit(waiting) == [(2, 5_000_010), (4, late_us)]


def test_nothing_waits_in_an_empty_outbox(unit):
    assert unit(outbox.next_due_us) is None
    assert unit(outbox.oldest_pending_us) is None


def incident(name: str, ended_us: int | None, open_key: str | None = None) -> dict:
    return {"id": name, "state": "x", "opened_us": 1, "ended_us": ended_us, "open_key": open_key}


def action(name: str, end_us: int | None, **more) -> dict:
    return {"id": name, "action": "A", "status": "S", "created_us": 1, "end_us": end_us} | more


def test_only_what_is_old_and_over_is_forgotten(unit):
    old, year = NOW_US - 8 * DAY_US, NOW_US - 366 * DAY_US

    def fill(conn):
        for row in (
            incident("open", None, "n1"),
            incident("half-open", year, "n2"),
            incident("ended", NOW_US - 364 * DAY_US),
            incident("forgotten", year),
        ):
            conn.execute(insert(tables.incidents).values(**row))
        for row in (
            action("active", None, lock_key="n1"),
            action("half-ended", old, lock_key="n2"),
            action("recent", NOW_US - 6 * DAY_US),
            action("of-open-incident", old, incident_id="open"),
            action("forgotten", old, incident_id="ended"),
        ):
            conn.execute(insert(tables.actions).values(**row))
            step = {"stage": "act", "phase": "ended", "intent_us": 1, "deadline_us": 2}
            conn.execute(insert(tables.steps).values(action_id=row["id"], seq=1, **step))
        for name in ("open", "forgotten"):
            proof = {"id": name, "incident_id": name, "method": "m", "by": "b", "at_us": 1}
            conn.execute(insert(tables.proofs).values(**proof))
        for age in (31, 29):
            at_us = NOW_US - age * DAY_US
            tell(conn, f"{age}", at_us=at_us, topics=3)
            conn.execute(insert(tables.decisions).values(kind="Hold", at_us=at_us))
        done = update(tables.outbox).values(state="accepted")
        conn.execute(done.where(tables.outbox.c.seq.in_([1, 4])).values(done_us=old))
        conn.execute(done.where(tables.outbox.c.seq == 2).values(done_us=NOW_US - 6 * DAY_US))
        outbox.parked(conn, 3, now_us=year, error="given up")

    unit(fill)
    kept = prune.Retention()
    gone = unit(lambda c: prune.prune(c, now_us=NOW_US, retention=kept))
    assert {k: v for k, v in gone.items() if v} == {
        "events": 1,
        "decisions": 1,
        "actions": 1,
        "incidents": 1,
        "outbox": 2,
    }

    def ids(table, column="id"):
        return unit(lambda c: set(c.execute(select(table.c[column])).scalars()))

    assert ids(tables.incidents) == {"open", "half-open", "ended"}
    active = {"active", "half-ended", "recent", "of-open-incident"}
    assert ids(tables.actions) == active == ids(tables.steps, "action_id")
    assert ids(tables.proofs) == {"open"}
    assert ids(tables.events, "oid") == {"29"}
    assert ids(tables.outbox, "seq") == {2, 3, 5, 6}
    assert set(unit(lambda c: prune.prune(c, now_us=NOW_US, retention=kept)).values()) == {0}


def test_forgetting_goes_in_small_bites(unit):
    unit(lambda c: [tell(c, f"{n}") for n in range(25)])
    sizes = []
    while not sizes or sizes[-1] == 10:
        gone = unit(lambda c: prune.prune(c, now_us=NOW_US, retention=prune.Retention(), limit=10))
        sizes.append(gone["events"])
    assert sizes == [10, 10, 5]
    assert unit(lambda c: count(c, "outbox")) == 25


def test_the_order_of_events_survives_forgetting(unit):
    """A sequence number that was used is not given to a later event."""
    last = unit(lambda c: [tell(c, "n") for _ in range(3)][-1])
    unit(lambda c: prune.prune(c, now_us=NOW_US, retention=prune.Retention()))
    assert unit(lambda c: count(c, "events")) == 0
    assert unit(lambda c: tell(c, "n")) > last


def receiver(ident: str, **more) -> dict:
    base = {"type": "webhook", "name": ident[:8], "created_us": NOW_US - 10 * DAY_US}
    return {"id": ident, **base, "channel": {"alarm_url": "http://y"}} | more


def test_receivers_are_found_by_a_digest_until_they_end(unit, tmp_path):
    keys, ident = IdKeys(tmp_path / "key"), "7546f2d1-8df2-4d0a-b910-a001c959caec"
    old = "11111111-8df2-4d0a-b910-a001c959caec"
    unit(lambda c: receivers.add(c, keys, receiver(ident, expires_us=NOW_US + 1)))
    unit(lambda c: c.execute(insert(tables.receivers).values(**receiver(old))))

    def opens(word: str, now_us: int = NOW_US, age_us: int | None = None) -> bool:
        found = unit(lambda c: receivers.by_id(c, word, now_us=now_us, age_us=age_us))
        return found is not None

    assert opens(ident)
    assert opens(old)
    assert not any(opens(word) for word in (receivers.stored_id(ident), ident[:8], ident.upper()))
    assert not opens(ident, NOW_US + 1)
    assert opens(ident, age_us=10 * DAY_US + 1)
    assert not opens(ident, age_us=10 * DAY_US)
    unit(lambda c: c.execute(insert(tables.receivers).values(**receiver(ident))))
    assert opens(ident)
    assert [unit(lambda c: receivers.hide_old(c, keys)) for _ in range(2)] == [2, 0]
    assert unit(lambda c: count(c, "receivers")) == 2
    assert opens(old)
    assert not opens(receivers.stored_id(old))
    imported = "NoHex"
    unit(lambda c: receivers.add(c, keys, receiver(imported)))
    for word, whole in ((old, old), (old[:12], old), (imported, imported)):

        def place_of(project: str | None, word: str = word) -> str:
            return unit(lambda c: receivers.place_of(c, keys, word, project=project))

        assert place_of(None) == place_of("default") == receivers.stored_id(whole)
        assert place_of("another") == word


def test_an_end_is_told_once_and_what_ended_long_ago_goes(unit, tmp_path):
    keys = IdKeys(tmp_path / "key")
    ends = {"1" * 36: NOW_US - 1, "2" * 36: NOW_US + 1, "3" * 36: NOW_US - 9 * DAY_US}
    for ident, end_us in ends.items():
        unit(lambda c, i=ident, e=end_us: receivers.add(c, keys, receiver(i, expires_us=e)))

    def swept(now_us: int, age_us: int | None = None) -> tuple[list[str], list[str]]:
        when = {"now_us": now_us, "age_us": age_us, "kept_us": 5 * DAY_US}
        unit(lambda c: receivers.sweep(c, **when))
        assert unit(lambda c: receivers.over(c, **when)) == []
        told = unit(lambda c: c.execute(select(tables.events.c.oid)).scalars().all())
        left = unit(lambda c: c.execute(select(tables.receivers.c.name)).scalars().all())
        return sorted(name[0] for name in told), sorted(name[0] for name in left)

    assert swept(NOW_US) == (["1", "3"], ["1", "2"])
    assert swept(NOW_US) == (["1", "3"], ["1", "2"])
    assert swept(NOW_US, 10 * DAY_US) == (["1", "2", "3"], ["1", "2"])
    assert swept(NOW_US + 1, 10 * DAY_US) == (["1", "2", "3"], ["1", "2"])
    assert swept(NOW_US, 5 * DAY_US) == (["1", "2", "3"], [])


def test_no_rows_to_add_are_none_added(unit):
    unit(lambda c: catalog.add(c, BindingRow))
    assert (
        unit(lambda c: c.execute(select(func.count()).select_from(tables.bindings)).scalar()) == 0
    )
