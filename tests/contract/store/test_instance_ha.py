"""Notifications, segments and their hosts, on every database: one of each, in order, pruned when over."""

import asyncio
import uuid
from types import SimpleNamespace

import pytest
from tests.contract.store.support import HandClock, count, place

from yaffle.engine.commands.context import CommandContext
from yaffle.engine.commands.instance_ha import InstanceHa, Notification
from yaffle.errors import Conflict
from yaffle.model.authz import LOCAL
from yaffle.model.instance_ha import NotificationStatus, NotificationType
from yaffle.store import instance_ha, prune
from yaffle.store.database import open_store
from yaffle.store.instance_ha import Kind

S = 1_000_000
DAY = 86_400 * S
OFF = {"event": "STOPPED", "host_status": "NORMAL"}
NEW, RUNNING = NotificationStatus.NEW, NotificationStatus.RUNNING


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb"])
def where(request, tmp_path):
    return place(request, tmp_path)


@pytest.fixture
def unit(where):
    """Run a unit of work on each kind of database."""
    store = open_store(where, clock=HandClock(), runner="inline")
    yield lambda work: asyncio.run(store.write(work))
    asyncio.run(store.close())


def segment(conn, name="all"):
    ident = str(uuid.uuid4())
    row = {"name": name, "service_type": "COMPUTE", "recovery_method": "auto", "created_us": S}
    instance_ha.add(conn, Kind.SEGMENT, {"id": ident, **row})
    return ident


def host(conn, of, name="cmp1"):
    ident = str(uuid.uuid4())
    row = {"name": name, "segment_id": of, "created_us": S}
    instance_ha.add(conn, Kind.HOST, {"id": ident, **row})
    return ident


def told(conn, of="s", by="h", status=NEW, at_us=S, **values):
    ident = str(uuid.uuid4())
    row = {
        "type": "COMPUTE_HOST",
        "host": "cmp1",
        "host_id": by,
        "segment_id": of,
        "origin": "instance-ha",
        "payload": OFF,
        "generated_us": at_us,
        "status": status.value,
        "created_us": at_us,
        **values,
    }
    instance_ha.add(conn, Kind.NOTIFICATION, {"id": ident, **row})
    return ident


def test_what_was_stored_is_found_and_changed(unit):
    def work(conn):
        first, second = segment(conn), segment(conn, "spare")
        assert instance_ha.is_named(conn, Kind.SEGMENT, "all")
        assert not instance_ha.is_named(conn, Kind.SEGMENT, "all", first)
        assert instance_ha.change(conn, Kind.SEGMENT, first, 2 * S, description="ä\0ß")
        row = instance_ha.segment(conn, first)
        assert (row.enabled, row.updated_us, row.description[0]) == (True, 2 * S, "ä")
        assert row.seq < instance_ha.segment(conn, second).seq
        one = host(conn, first)
        assert instance_ha.host(conn, second, one) is None
        assert instance_ha.host_named(conn, "cmp1", take=True).id == one
        assert instance_ha.host_named(conn, "cmp2") is None
        instance_ha.delete_segment(conn, first)
        assert instance_ha.host_named(conn, "cmp1") is None
        assert list(instance_ha.segments(conn, [first, second])) == [second]

    unit(work)


def test_a_segment_is_in_use_while_anything_told_of_it_is_under_way(unit):
    def work(conn):
        for status in NotificationStatus:
            told(conn, of=status.value, status=status)
        used = {s.value for s in NotificationStatus if instance_ha.in_use(conn, s.value)}
        assert used == {"new", "running"}
        told(conn, of="finished")
        assert instance_ha.in_use(conn, "finished")

    unit(work)


@pytest.mark.parametrize(
    ("ago_s", "payload", "kind", "by", "same"),
    [
        (0, OFF, NotificationType.COMPUTE_HOST, "h", True),
        (179, OFF, NotificationType.COMPUTE_HOST, "h", True),
        (181, OFF, NotificationType.COMPUTE_HOST, "h", False),
        (0, {**OFF, "cluster_status": "OFFLINE"}, NotificationType.COMPUTE_HOST, "h", False),
        (0, OFF, NotificationType.PROCESS, "h", False),
        (0, OFF, NotificationType.COMPUTE_HOST, "other", False),
    ],
)
def test_a_repeat_is_what_says_the_same_shortly_afterwards(unit, ago_s, payload, kind, by, same):
    def work(conn):
        told(conn, at_us=1000 * S, status=NotificationStatus.FINISHED)
        at_us = (1000 + ago_s) * S
        assert instance_ha.is_duplicate(conn, by, kind, payload, at_us) is same

    unit(work)


def test_each_has_its_turn(unit):
    def work(conn):
        first, second, third = (told(conn, status=RUNNING) for _ in range(3))
        told(conn)
        page = instance_ha.of_status(conn, RUNNING, 0, 2)
        assert [row.id for row in page] == [first, second]
        page = instance_ha.of_status(conn, RUNNING, page[-1].seq, 2)
        assert [row.id for row in page] == [third]

    unit(work)


def test_the_latest_word_on_each_host_is_found(unit):
    def work(conn):
        told(conn, host="a", at_us=5 * S, payload={"event": "STARTED"})
        last = told(conn, host="a", at_us=9 * S)
        told(conn, host="a", at_us=7 * S)
        told(conn, host="old", at_us=S)
        told(conn, host="a", at_us=20 * S, type="VM")
        found = instance_ha.words_on_hosts(conn, since_us=2 * S, limit=9)
        assert [row.generated_us for row in found] == [9 * S, 7 * S, 5 * S]
        found = instance_ha.words_on_hosts(conn, since_us=2 * S, limit=1)
        assert [row.id for row in found] == [last]

    unit(work)


def test_a_stamp_that_lies_ahead_is_no_later_word(unit):
    def work(conn):
        told(conn, host="a", at_us=5 * S, generated_us=3600 * S)
        last = told(conn, host="a", at_us=9 * S, payload={"event": "STARTED"})
        found = instance_ha.words_on_hosts(conn, since_us=0, limit=9)
        assert found[0].id == last

    unit(work)


def test_what_is_over_for_long_is_pruned_with_its_moves(unit):
    def work(conn):
        old, new, open_ = (told(conn) for _ in range(3))
        for ident in (old, new, open_):
            move = {"notification_id": ident, "status": "pending", "created_us": S}
            instance_ha.add(conn, Kind.MOVE, {"id": str(uuid.uuid4()), **move})
        finished = NotificationStatus.FINISHED
        instance_ha.end(conn, old, finished, "", S)
        instance_ha.end(conn, new, finished, "", 400 * DAY)
        prune.prune(conn, now_us=401 * DAY, retention=prune.Retention())
        assert set(instance_ha.notifications(conn, [old, new, open_])) == {new, open_}
        assert instance_ha.moves_of(conn, old) == []
        assert len(instance_ha.moves_of(conn, new)) == 1

    unit(work)


def test_of_two_that_took_over_the_one_that_was_not_given_up_is_named(unit):
    def work(conn):
        of = segment(conn)
        failed, first, second = (host(conn, of, name) for name in ("cmp1", "spare1", "spare2"))
        for ident in (first, second):
            instance_ha.change(conn, Kind.HOST, ident, S, spare_for=failed)
        row = instance_ha.host_named(conn, "cmp1")
        assert instance_ha.taken_spare(conn, row).id == second
        instance_ha.change(conn, Kind.HOST, second, S, on_maintenance=True)
        assert instance_ha.taken_spare(conn, row).id == first
        instance_ha.change(conn, Kind.HOST, first, S, on_maintenance=True)
        assert instance_ha.taken_spare(conn, row).id == second

    unit(work)


def test_nodes_without_a_copy_are_nowhere(unit):
    def work(conn):
        assert instance_ha.placed_nodes(conn) == []

    unit(work)


def commands(store):
    clock = HandClock(1000 * S)
    ctx = SimpleNamespace(
        store=store,
        clock=clock,
        new_id=lambda: str(uuid.uuid4()),
        signals=SimpleNamespace(changed=lambda: None),
        drivers=SimpleNamespace(profiles={}),
    )
    return InstanceHa(CommandContext(ctx))


@pytest.mark.parametrize("where", ["postgresql", "mariadb"], indirect=True)
def test_of_two_servers_that_are_told_the_same_at_once_one_takes_it_in(where):
    async def story():
        stores = [open_store(where, clock=HandClock()) for _ in range(2)]
        try:
            ours, theirs = map(commands, stores)
            values = {"name": "all", "service_type": "C", "recovery_method": "auto"}
            of = await ours.segment_create(LOCAL, values)
            for number in range(10):
                await ours.segment_host_create(
                    LOCAL, of, {"name": f"cmp{number}", "type": "C", "control_attributes": "x"}
                )
                same = Notification(
                    type=NotificationType.COMPUTE_HOST,
                    hostname=f"cmp{number}",
                    payload=OFF,
                    generated_us=1000 * S,
                )
                both = await asyncio.gather(
                    *(one.notify(LOCAL, same) for one in (ours, theirs)), return_exceptions=True
                )
                assert sorted(type(one) for one in both if not isinstance(one, str)) == [Conflict]
            counted = await stores[0].read(lambda conn: count(conn, "ha_notifications"))
            assert counted == 10
        finally:
            for store in stores:
                await store.close()

    asyncio.run(story())
