"""Actions that wait for one another: who is woken when, and who gets a lock that is given back."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import insert, update
from tests.contract.store.support import HandClock

from yaffle.store import actions, leases, observer_partitions, tables
from yaffle.store.database import open_store

NOW_US = 1_800_000_000_000_000


@pytest.fixture
def unit():
    """Run a unit of work on a database in memory."""
    store = open_store("sqlite://", clock=HandClock(NOW_US), runner="inline")

    def run(work):
        return asyncio.run(store.write(work))

    yield run
    asyncio.run(store.close())


def added(unit, ident: str, at_us: int, **values: object) -> None:
    row = {"id": ident, "action": "NODE_CREATE", "status": "READY", "created_us": at_us, **values}
    unit(lambda conn: conn.execute(insert(tables.actions).values(**row)))


def end(unit, ident: str) -> None:
    unit(lambda c: actions.end(c, ident, NOW_US, status="SUCCEEDED", reason="", outputs={}))


def status(unit, ident: str) -> str:
    return unit(lambda c: actions.get(c, ident)).status


def test_a_parent_sleeps_until_its_last_part_has_ended(unit):
    added(unit, "p", 1, action="CLUSTER_SCALE_OUT", status="WAITING", lock_key="web", wake_us=9)
    for at_us, part in enumerate(("a", "b", "c"), start=2):
        added(unit, part, at_us, parent_id="p", target=part, lock_key=part)
    for part in ("b", "a"):
        end(unit, part)
        assert status(unit, "p") == "WAITING", f"{part} was not the last"
    end(unit, "c")
    parent = unit(lambda c: actions.get(c, "p"))
    assert (parent.status, parent.lock_key, parent.wake_us) == ("READY", "web", None)


def test_a_parent_that_was_claimed_is_not_made_ready_behind_its_owner(unit):
    added(unit, "p", 1, action="CLUSTER_SCALE_OUT", status="RUNNING", lock_key="web", owner="e")
    added(unit, "a", 2, parent_id="p", target="a", lock_key="a")
    end(unit, "a")
    assert status(unit, "p") == "RUNNING"


def test_a_lock_goes_to_who_has_waited_the_longest(unit):
    added(unit, "first", 1, target="n", lock_key="n")
    added(unit, "third", 3, target="n", status="WAITING")
    added(unit, "second", 2, target="n", status="WAITING")
    end(unit, "first")
    assert (status(unit, "second"), status(unit, "third")) == ("READY", "WAITING")
    end(unit, "second")
    assert status(unit, "third") == "READY"


def registered(unit, ident: str = "e") -> int:
    return unit(lambda c: leases.register(c, ident, host="h", pid=1, alone=False))


def test_whose_own_lease_is_over_takes_nothing(unit):
    """The claim was asked for in time, and came to a database that had hung for longer than a lease."""
    epoch = registered(unit)
    added(unit, "r", 1, action="NODE_RECOVER", target="r", lock_key="r")
    late_us = NOW_US - 11_000_000
    unit(lambda c: c.execute(update(tables.engines).values(seen_us=late_us)))
    assert unit(lambda c: actions.claim(c, "e", epoch, lease_s=10, limit=9)) == []
    assert status(unit, "r") == "READY"
    unit(lambda c: c.execute(update(tables.engines).values(seen_us=NOW_US)))
    assert [r.id for r in unit(lambda c: actions.claim(c, "e", epoch, lease_s=10, limit=9))] == [
        "r"
    ]


def test_a_flood_of_creations_leaves_room_for_recoveries(unit):
    carried: list[str] = []
    epoch = registered(unit)

    def claim(limit: int) -> list[str]:
        rows = unit(
            lambda c: actions.claim(
                c, "e", epoch, lease_s=10, limit=limit, spare=2, carried=carried
            )
        )
        carried.extend(r.id for r in rows)
        return [r.id for r in rows]

    for number in range(9):
        added(unit, f"c{number}", number, target=f"c{number}", lock_key=f"c{number}")
    assert claim(6) == ["c0", "c1", "c2", "c3"]
    assert claim(2) == []
    added(unit, "r", 50, action="NODE_RECOVER", target="r", lock_key="r")
    added(unit, "p", 60, action="CLUSTER_SCALE_OUT", target="p", lock_key="p")
    assert claim(2) == ["r", "p"]


def test_what_cannot_be_healed_from_here_is_left_to_who_lives_and_sees(unit):
    """Of three engines one has no room for processes; the others are told of a cluster one by one."""
    named = {"name": "one", "created_us": NOW_US}
    epochs = {ident: registered(unit, ident) for ident in ("full", "b", "c")}
    unit(lambda c: c.execute(insert(tables.profiles).values(id="p", type="process", **named)))
    unit(lambda c: c.execute(insert(tables.nodes).values(id="n", profile_id="p", **named)))
    values = {"target": "n", "node_id": "n", "cluster_id": "web", "lock_key": "n"}

    def finds(ident: str, *able: str) -> bool:
        asked = {"lease_s": 10, "able": able}
        found = unit(lambda c: actions.any_claimable(c, ident, **asked))
        claimed = unit(lambda c: actions.claim(c, ident, epochs[ident], limit=9, **asked))
        assert found == bool(claimed)
        unit(lambda c: c.execute(update(tables.actions).values(status="READY", lease_us=0)))
        return found

    added(unit, "r", 1, action="NODE_RECOVER", **values)
    assert not finds("full", "server")
    assert finds("full", "server", "process")
    assert finds("b", "process")
    unit(lambda c: observer_partitions.record(c, "b", ["web"]))
    assert not finds("full", "server"), "the third one can"
    unit(lambda c: observer_partitions.record(c, "c", ["web"]))
    assert finds("full", "server"), "nobody else could"
    # To end a node is not to heal it.
    unit(lambda c: c.execute(update(tables.blindness).values(until_us=0)))
    assert not finds("full", "server")
    unit(lambda c: c.execute(update(tables.actions).values(action="NODE_DELETE")))
    assert finds("full", "server")
