"""Monitored hosts, on every database: the latest look counts, and what is unseen for long has left."""

import asyncio

import pytest
from tests.contract.store.support import HandClock, place

from yaffle.core.health.host_verdict import KnownHost
from yaffle.model.host_state import HostFence, HostState
from yaffle.store import alerts, hosts
from yaffle.store.database import open_store

S = 1_000_000
DAY = 86_400 * S
NAMES = ("pcmk",)


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb"])
def unit(request, tmp_path):
    """Run a unit of work on each kind of database."""
    store = open_store(place(request, tmp_path), clock=HandClock(), runner="inline")
    yield lambda work: asyncio.run(store.write(work))
    asyncio.run(store.close())


def save(conn, host, state=HostState.UP, since_us=S, told=(), why="online"):
    before = hosts.known(conn, "pcmk").get(host)
    known = KnownHost(state=state, since_us=since_us, told=told)
    hosts.save(conn, "pcmk", host, before, known, why)


def states(conn, now_us, names=NAMES):
    found = hosts.by_state(conn, names, now_us=now_us, stale_us=60 * S)
    return {state: list(those) for state, those in found.items() if those}


def test_a_look_that_began_earlier_than_the_one_that_is_saved_changes_nothing(unit):
    def work(conn):
        assert hosts.begin(conn, "pcmk", 10 * S, 10 * S)
        assert not hosts.begin(conn, "pcmk", 9 * S, 11 * S)
        assert not hosts.begin(conn, "pcmk", 10 * S, 11 * S), "two of the same moment are one"
        assert hosts.begin(conn, "pcmk", 11 * S, 12 * S)
        assert hosts.begin(conn, "other", S, 12 * S)

    unit(work)


def test_a_look_by_a_clock_that_was_a_day_ahead_does_not_hide_those_after_it(unit):
    def work(conn):
        assert hosts.begin(conn, "pcmk", DAY, DAY)
        assert hosts.begin(conn, "pcmk", 10 * S, 11 * S)
        assert hosts.monitors(conn, NAMES)["pcmk"].seen_us == 10 * S

    unit(work)


def test_why_nothing_is_seen_is_kept_only_while_nobody_sees(unit):
    def work(conn):
        hosts.blind(conn, "pcmk", "no quorum", silent_since_us=0)
        assert hosts.monitors(conn, NAMES)["pcmk"].fault == "no quorum"
        assert hosts.begin(conn, "pcmk", 100 * S, 100 * S)
        assert hosts.monitors(conn, NAMES)["pcmk"].fault == ""
        hosts.blind(conn, "pcmk", "ours is away", silent_since_us=99 * S)
        assert hosts.monitors(conn, NAMES)["pcmk"].fault == "", "another engine sees"
        hosts.blind(conn, "pcmk", "ours is away", silent_since_us=100 * S)
        assert hosts.monitors(conn, NAMES)["pcmk"].fault == "ours is away"

    unit(work)


def test_what_a_look_found_is_there_at_the_next(unit):
    def work(conn):
        save(conn, "cmp1", HostState.FENCED, 5 * S, told=(4, 7), why="offline")
        save(conn, "cmp2")
        row = hosts.known(conn, "pcmk")["cmp1"]
        assert row.known() == KnownHost(state=HostState.FENCED, since_us=5 * S, told=(4, 7))
        save(conn, "cmp1", HostState.UP, 9 * S, told=(4, 7))
        (row,) = hosts.listed(conn, NAMES, host="cmp1")
        assert (row.state, row.since_us, row.why, list(row.told)) == ("up", 9 * S, "online", [4, 7])
        assert [row.host for row in hosts.listed(conn, NAMES)] == ["cmp1", "cmp2"]
        assert hosts.listed(conn, ("other",)) == []

    unit(work)


def test_a_host_is_unknown_where_its_monitor_does_not_name_it_or_is_silent(unit):
    def work(conn):
        save(conn, "cmp1")
        save(conn, "cmp2", HostState.UNFENCED)
        assert states(conn, 10 * S) == {"unknown": ["cmp1", "cmp2"]}, "nobody has asked yet"
        hosts.begin(conn, "pcmk", 10 * S, 10 * S)
        assert states(conn, 70 * S) == {"up": ["cmp1"], "unfenced": ["cmp2"]}
        assert states(conn, 70 * S + 1) == {"unknown": ["cmp1", "cmp2"]}
        hosts.unseen(conn, hosts.known(conn, "pcmk")["cmp1"], 10 * S)
        assert states(conn, 70 * S) == {"unknown": ["cmp1"], "unfenced": ["cmp2"]}
        save(conn, "cmp1")
        assert states(conn, 70 * S) == {"up": ["cmp1"], "unfenced": ["cmp2"]}, "named again"
        assert states(conn, 70 * S, names=()) == {}

    unit(work)


def test_a_host_that_is_unseen_for_a_week_is_forgotten(unit):
    def work(conn):
        save(conn, "cmp1")
        for now_us, left in ((S, 1), (7 * DAY, 1), (7 * DAY + S, 1), (7 * DAY + S + 1, 0)):
            for row in hosts.known(conn, "pcmk").values():
                hosts.unseen(conn, row, now_us)
            assert len(hosts.known(conn, "pcmk")) == left, now_us

    unit(work)


def test_what_another_source_has_proved_about_then_is_found(unit):
    def work(conn):
        values = {
            "id": "f1",
            "hostname": "cmp1",
            "failure_us": 100 * S,
            "generated_us": 130 * S,
            "on_shared_storage": True,
            "proof": "read back: off",
            "source": "fencer",
        }
        alerts.add(conn, values, (), 130 * S)

        def near(at_s, host="cmp1", but="monitor pcmk"):
            return alerts.near(conn, host, at_s * S, within_us=60 * S, but=but) == "f1"

        assert [at for at in (39, 40, 115, 190, 191) if near(at)] == [40, 115, 190]
        assert not near(115, "cmp2")
        assert not near(115, but="fencer"), "its own are told apart by their time"

    unit(work)


def test_how_far_a_fencing_is_is_kept_with_its_host_until_that_is_proved_off(unit):
    claimed = HostFence(running=True, until_us=9 * S, tries=1, said="it is being fenced")

    def work(conn):
        assert hosts.begin(conn, "pcmk", 10 * S, 10 * S)
        save(conn, "cmp1", HostState.UNFENCED, told=(3,))
        assert hosts.known(conn, "pcmk")["cmp1"].fencing == HostFence()
        hosts.fenced(conn, "pcmk", "cmp1", claimed)
        assert hosts.known(conn, "pcmk")["cmp1"].fencing == claimed
        row = hosts.take(conn, "pcmk", "cmp1")
        assert row is not None
        assert row.fencing == claimed
        assert hosts.take(conn, "pcmk", "cmp9") is None
        hosts.proved_off(conn, row, at_s=8, now_us=11 * S, why="off")
        after = hosts.known(conn, "pcmk")["cmp1"]
        assert (after.state, after.told, after.fencing) == ("fenced", [3, 8], HostFence())

    unit(work)


def test_a_look_that_was_read_before_a_host_was_changed_saves_nothing(unit):
    def work(conn):
        assert hosts.begin(conn, "pcmk", 10 * S, 10 * S)
        hosts.take(conn, "pcmk", "cmp1")
        # What a look compares before it saves is what it has read.
        assert hosts.monitors(conn, NAMES)["pcmk"].seen_us == 10 * S + 1
        assert not hosts.begin(conn, "pcmk", 10 * S, 11 * S)
        assert hosts.begin(conn, "pcmk", 11 * S, 11 * S)

    unit(work)
