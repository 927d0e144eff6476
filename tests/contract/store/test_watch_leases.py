"""Who holds which watch: taken only while free, given up by its holder alone; on every database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from tests.contract.store.support import HandClock

from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import StaleEpoch
from yaffle.model.ids import ClusterId, EngineId, PauseId
from yaffle.model.incident import Pause, PauseKind, PauseScope
from yaffle.store import (
    change_tokens,
    coverage,
    leases,
    observer_partitions,
    pauses,
    singleton_leases,
    tables,
    watch_leases,
)
from yaffle.store.database import open_store, prepare_server
from yaffle.store.singleton_leases import SingletonRole
from yaffle.store.watch_leases import WatchLease

LEASE_S = 1000.0
A, B = EngineId("a"), EngineId("b")
Unit = Callable[[Callable[[Any], Any]], Any]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def unit(request: pytest.FixtureRequest) -> Iterator[Unit]:
    """Run a unit of work on an empty database with three clusters of 0, 1 and 2 members."""
    if request.param == "sqlite":
        store = open_store("sqlite://", clock=HandClock(time.time_ns() // 1000), runner="inline")
    else:
        name = "postgres_url" if request.param == "postgresql" else "mariadb_url"
        url = request.getfixturevalue(name)
        prepare_server(url, clock=SystemClock())
        store = open_store(url, clock=SystemClock(), with_engine_lock=False)

    with asyncio.Runner() as runner:

        def run(work: Callable[[Any], Any]) -> Any:
            return runner.run(store.write(work))

        run(_furnish)
        yield run
        runner.run(store.close())


def _furnish(conn: Any) -> None:
    row = {"id": "p", "name": "p", "type": "t", "spec": {}, "created_us": 1}
    conn.execute(insert(tables.profiles).values(**row))
    for n in range(3):
        row = {"id": f"c{n}", "name": f"c{n}", "profile_id": "p", "created_us": leases.now(conn)}
        conn.execute(insert(tables.clusters).values(**row))
        for m in range(n):
            ident = f"c{n}-{m}"
            row = {"id": ident, "name": ident, "profile_id": "p", "cluster_id": f"c{n}"}
            conn.execute(insert(tables.nodes).values(**row, created_us=1))


def registered(unit: Unit, me: EngineId) -> Any:
    return unit(lambda c: leases.register(c, me, host="h", pid=1, alone=False))


def look(unit: Unit) -> watch_leases.Overview:
    found: watch_leases.Overview = unit(lambda c: watch_leases.overview(c, lease_s=LEASE_S))
    return found


def take(unit: Unit, me: EngineId, epoch: Any, wanted: list[WatchLease]) -> list[str]:
    return list(unit(lambda c: watch_leases.take(c, me, epoch, wanted, lease_s=LEASE_S)))


def expire(unit: Unit) -> None:
    unit(lambda c: c.execute(update(tables.watches).values(lease_us=leases.now(c) - 5_000_000)))


def owners(unit: Unit) -> dict[str, str]:
    return {r.cluster_id: r.owner for r in unit(lambda c: c.execute(select(tables.watches)).all())}


def test_what_nobody_holds_is_taken_once(unit: Unit) -> None:
    ours, theirs = registered(unit, A), registered(unit, B)
    seen = look(unit)
    assert [(h.cluster_id, h.free, h.members) for h in seen.holdings] == [
        ("c0", True, 0),
        ("c1", True, 1),
        ("c2", True, 2),
    ]
    assert (seen.live, seen.late) == ({A, B}, set())
    assert unit(watch_leases.any_free)
    assert take(unit, A, ours, list(seen.holdings[:2])) == ["c0", "c1"]
    # B looked at the same moment, and comes too late for two of the three.
    assert take(unit, B, theirs, list(seen.holdings)) == ["c2"]
    assert owners(unit) == {"c0": A, "c1": A, "c2": B}
    assert not unit(watch_leases.any_free)


def test_a_holder_that_renewed_in_the_last_moment_keeps_its_watch(unit: Unit) -> None:
    ours, theirs = registered(unit, A), registered(unit, B)
    take(unit, A, ours, list(look(unit).holdings))
    expire(unit)
    seen = look(unit)
    assert all(h.free and h.owner == A for h in seen.holdings)
    assert unit(lambda c: leases.renew(c, A, ours, lease_s=LEASE_S))
    assert take(unit, B, theirs, list(seen.holdings)) == []
    assert set(owners(unit).values()) == {A}


def test_what_was_taken_and_given_meanwhile_is_not_what_was_seen(unit: Unit) -> None:
    """The epoch has changed: whoever decided by the old row decides anew."""
    ours, theirs = registered(unit, A), registered(unit, B)
    seen = look(unit)
    take(unit, A, ours, list(seen.holdings))
    unit(lambda c: watch_leases.give(c, A, ours, ["c0", "c1", "c2"]))
    assert take(unit, B, theirs, list(seen.holdings)) == []
    assert take(unit, B, theirs, list(look(unit).holdings)) == ["c0", "c1", "c2"]


def test_only_the_holder_gives_up(unit: Unit) -> None:
    ours, theirs = registered(unit, A), registered(unit, B)
    take(unit, A, ours, list(look(unit).holdings))
    unit(lambda c: watch_leases.give(c, B, theirs, ["c0"]))
    unit(lambda c: watch_leases.give(c, A, theirs, ["c1"]))
    assert set(owners(unit).values()) == {A}
    unit(lambda c: watch_leases.give(c, A, ours, ["c2"]))
    assert owners(unit)["c2"] == ""
    assert unit(watch_leases.any_free)


def test_an_engine_whose_lease_is_over_takes_nothing(unit: Unit) -> None:
    ours = registered(unit, A)
    unit(lambda c: c.execute(update(tables.engines).values(seen_us=leases.now(c) - 2_000_000_000)))
    with pytest.raises(StaleEpoch):
        take(unit, A, ours, list(look(unit).holdings))
    assert not look(unit).live


def test_a_watch_that_stands_still_is_not_renewed(unit: Unit) -> None:
    ours = registered(unit, A)
    take(unit, A, ours, list(look(unit).holdings))
    expire(unit)
    assert unit(lambda c: leases.renew(c, A, ours, lease_s=LEASE_S, stuck=[ClusterId("c1")]))
    assert [h.cluster_id for h in look(unit).holdings if h.free] == ["c1"]


def test_one_that_stopped_holds_nothing(unit: Unit) -> None:
    ours = registered(unit, A)
    take(unit, A, ours, list(look(unit).holdings))
    unit(lambda c: leases.stop(c, A))
    assert unit(watch_leases.any_free)
    assert all(h.free for h in look(unit).holdings)


def test_one_that_missed_a_renewal_is_late_and_lives(unit: Unit) -> None:
    registered(unit, A)
    unit(lambda c: c.execute(update(tables.engines).values(seen_us=leases.now(c) - 600_000_000)))
    assert (look(unit).live, look(unit).late) == ({A}, {A})


def test_coverage(unit: Unit) -> None:
    ours = registered(unit, A)
    found = unit(coverage.measure)
    assert (found.clusters, found.clusters_watched, found.nodes, found.ratio) == (3, 0, 3, 0.0)
    assert 0 <= found.longest_s < 60
    take(unit, A, ours, list(look(unit).holdings))
    found = unit(coverage.measure)
    assert (found.clusters_watched, found.nodes_watched, found.ratio) == (3, 3, 1.0)
    assert found.longest_s == 0
    unit(lambda c: watch_leases.give(c, A, ours, ["c2"]))
    found = unit(coverage.measure)
    assert (found.clusters_watched, found.nodes_watched) == (2, 1)
    assert 0 < found.ratio < 0.34
    expire(unit)
    assert 5 <= unit(coverage.measure).longest_s < 65


def test_blindness_ends_by_itself_and_lasts_longer_each_time(unit: Unit) -> None:
    def row() -> Any:
        return unit(lambda c: c.execute(select(tables.blindness)).one())

    def age(by_us: int) -> None:
        past = {n: tables.blindness.c[n] - by_us for n in ("since_us", "until_us")}
        unit(lambda c: c.execute(update(tables.blindness).values(**past)))

    lasted = []
    for _ in range(7):
        unit(lambda c: observer_partitions.record(c, A, [ClusterId("c0")]))
        unit(lambda c: observer_partitions.record(c, A, [ClusterId("c0")]))
        assert unit(lambda c: observer_partitions.in_force(c, leases.now(c))) == {"c0": {A}}
        lasted.append((row().until_us - row().since_us) // 1_000_000)
        age(row().until_us - row().since_us + 1_000_000)
        assert not unit(lambda c: observer_partitions.in_force(c, leases.now(c)))
    assert lasted == [120, 240, 480, 960, 1920, 3600, 3600]
    age(2 * 3_600_000_000)
    unit(lambda c: observer_partitions.record(c, A, [ClusterId("c0")]))
    assert row().until_us - row().since_us == 120_000_000


def test_thousands_are_taken_at_once(unit: Unit) -> None:
    def many(conn: Any) -> None:
        rows = [
            {"id": f"m{n}", "name": f"m{n}", "profile_id": "p", "created_us": 1}
            for n in range(1200)
        ]
        conn.execute(insert(tables.clusters), rows)

    unit(many)
    ours = registered(unit, A)
    assert len(take(unit, A, ours, list(look(unit).holdings))) == 1203


def test_a_duty_has_one_holder(unit: Unit) -> None:
    ours, theirs = registered(unit, A), registered(unit, B)

    def whose(me: EngineId, epoch: Any) -> str:
        return str(
            unit(lambda c: singleton_leases.holder(c, me, epoch, SingletonRole.OUTBOX)).value
        )

    def taken(me: EngineId, epoch: Any) -> bool:
        return bool(
            unit(
                lambda c: singleton_leases.take(c, me, epoch, SingletonRole.OUTBOX, lease_s=LEASE_S)
            )
        )

    assert whose(A, ours) == "nobodys"
    assert taken(A, ours)
    assert not taken(B, theirs)
    assert (whose(A, ours), whose(B, theirs)) == ("ours", "elsewhere")
    assert whose(A, theirs) == "elsewhere", "another session's is not ours"
    unit(lambda c: c.execute(update(tables.duties).values(lease_us=leases.now(c) - 1_000_000)))
    assert whose(A, ours) == whose(B, theirs) == "nobodys"
    unit(lambda c: leases.renew(c, A, ours, lease_s=LEASE_S))
    assert whose(B, theirs) == "elsewhere"
    unit(lambda c: leases.stop(c, A))
    assert not taken(A, ours), "who has ended takes nothing"
    assert taken(B, theirs)


HOUR_US = 3_600_000_000


def set_back(unit: Unit) -> None:
    """As after a fail-over to a server whose clock is an hour behind: all that is written is ahead."""

    def work(conn: Any) -> None:
        conn.execute(update(tables.engines).values(seen_us=tables.engines.c.seen_us + HOUR_US))
        for table in (tables.watches, tables.duties, tables.actions):
            conn.execute(
                update(table)
                .where(table.c.lease_us > 0)
                .values({table.c.lease_us: table.c.lease_us + HOUR_US})
            )

    unit(work)


def test_a_clock_that_went_back_prolongs_no_lease(unit: Unit) -> None:
    """The dead keep what they had for one lease more, and the living keep theirs."""
    dead, living = registered(unit, A), registered(unit, B)
    take(unit, A, dead, list(look(unit).holdings[:2]))
    take(unit, B, living, list(look(unit).holdings[2:]))
    unit(lambda c: singleton_leases.take(c, A, dead, SingletonRole.OUTBOX, lease_s=LEASE_S))
    row = {"action": "NODE_RECOVER", "owner": A, "epoch": dead, "timeout_s": 60, "created_us": 1}
    for ident, status in (("r", "RUNNING"), ("p", "READY")):
        held = {"id": ident, "name": ident, "status": status, "lease_us": leases_until(unit)}
        unit(lambda c, held=held: c.execute(insert(tables.actions).values(**row, **held)))
    set_back(unit)
    assert unit(coverage.measure).ratio == 0.0, "nothing says that anybody lives"

    assert unit(lambda c: leases.renew(c, B, living, lease_s=LEASE_S))
    now_us = unit(leases.now)
    seen = look(unit)
    assert not any(h.free for h in seen.holdings), (
        "a holder that acts by its own clock has its lease"
    )
    assert seen.live == {A, B}
    assert all(0 <= h.lease_us - now_us <= LEASE_S * 1e6 for h in seen.holdings)
    until = unit(lambda c: c.execute(select(tables.duties.c.lease_us)).scalar_one())
    assert until - now_us <= LEASE_S * 1e6
    found = unit(lambda c: {r.id: r.lease_us for r in c.execute(select(tables.actions))})
    assert found["r"] - now_us <= LEASE_S * 1e6
    assert found["p"] - now_us > LEASE_S * 1e6, "what is put off is no lease"
    assert unit(coverage.measure).ratio == 1.0
    assert unit(lambda c: leases.renew(c, A, dead, lease_s=LEASE_S)), "it was frozen for a moment"


def leases_until(unit: Unit) -> int:
    return int(unit(leases.now)) + int(LEASE_S * 1e6)


def test_the_first_who_comes_after_a_clock_went_back_pulls_in_what_is_left(unit: Unit) -> None:
    dead = registered(unit, A)
    take(unit, A, dead, list(look(unit).holdings))
    assert not unit(lambda c: leases.pull_in(c, lease_s=LEASE_S / 2)), "it did not go back"
    assert {h.lease_us for h in look(unit).holdings} == {
        max(h.lease_us for h in look(unit).holdings)
    }
    set_back(unit)
    assert unit(lambda c: leases.pull_in(c, lease_s=LEASE_S))
    assert not unit(lambda c: leases.pull_in(c, lease_s=LEASE_S)), "once is enough"
    now_us = unit(leases.now)
    assert all(h.lease_us - now_us <= LEASE_S * 1e6 for h in look(unit).holdings)


def test_blindness_for_more_clusters_than_a_statement_takes_parameters(unit: Unit) -> None:
    many = [ClusterId(f"x{n}") for n in range(observer_partitions.CHUNK + 1)]
    unit(lambda c: observer_partitions.record(c, A, many))
    unit(lambda c: observer_partitions.record(c, A, many))
    assert len(unit(lambda c: observer_partitions.in_force(c, leases.now(c)))) == len(many)


def test_whatever_may_end_a_hold_changes_the_token_of_holds(unit: Unit) -> None:
    stop = Pause(
        id=PauseId("p1"),
        kind=PauseKind.STOP,
        scope=PauseScope.ALL,
        target_id="",
        owner="mara",
        reason="a trial",
        starts_us=1,
        expires_us=None,
    )
    recovery = {
        "id": "a1",
        "action": "NODE_RECOVER",
        "status": "RUNNING",
        "cluster_id": "c0",
        "created_us": 4,
        "updated_us": 4,
    }

    def release(conn: Any) -> None:
        pauses.add_release(
            conn, ident="r1", cluster_id=ClusterId("c0"), by="m", reason="", now_us=3, expires_us=9
        )

    changes: list[Callable[[Any], Any]] = [
        lambda conn: pauses.add(conn, stop),
        lambda conn: pauses.lift(conn, "p1", "mara", 2),
        release,
        lambda conn: conn.execute(insert(tables.actions).values(**recovery)).rowcount,
        lambda conn: conn.execute(update(tables.actions).values(status="FAILED")).rowcount,
    ]
    seen = [unit(change_tokens.of_holds)]
    for change in changes:
        assert unit(change_tokens.of_holds) == seen[-1], "by itself it stays"
        unit(change)
        seen.append(unit(change_tokens.of_holds))
    assert all(one != other for one, other in pairwise(seen))
