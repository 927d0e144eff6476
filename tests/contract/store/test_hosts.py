"""Monitored hosts, on every database: the latest look counts, and what is unseen for long has left."""

import asyncio

import pytest
from tests.contract.store.support import HandClock, place

from yaffle.core.health.host_verdict import KnownHost
from yaffle.model.host_heartbeat import HeardHost, VantagePoint
from yaffle.model.host_state import HostFence, HostState
from yaffle.store import alerts, hosts, vantage_points
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


def full(host):
    return host.partition("@")[0]


def states(conn, now_us, names=NAMES):
    found = hosts.by_state(conn, names, hostname=full, now_us=now_us, stale_us=60 * S)
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
        hosts.unseen(conn, hosts.known(conn, "pcmk")["cmp1"], "not named", 10 * S)
        assert states(conn, 70 * S) == {"unknown": ["cmp1"], "unfenced": ["cmp2"]}
        save(conn, "cmp1")
        assert states(conn, 70 * S) == {"up": ["cmp1"], "unfenced": ["cmp2"]}, "named again"
        assert states(conn, 70 * S, names=()) == {}

    unit(work)


def test_a_host_is_unknown_where_every_monitor_that_has_it_says_so(unit):
    def work(conn):
        hosts.begin(conn, "pcmk", 10 * S, 10 * S)
        hosts.begin(conn, "nova", 10 * S, 10 * S)
        both = ("pcmk", "nova")
        save(conn, "cmp1", HostState.LOST)
        known = KnownHost(state=HostState.UP, since_us=S, told=())
        hosts.save(conn, "nova", "cmp1@nova", None, known, "up")
        hosts.unseen(conn, hosts.known(conn, "nova")["cmp1@nova"], "down", 10 * S)
        assert states(conn, 20 * S, both) == {"lost": ["cmp1"]}, "one host of two names"
        hosts.unseen(conn, hosts.known(conn, "pcmk")["cmp1"], "not named", 10 * S)
        assert states(conn, 20 * S, both) == {"unknown": ["cmp1", "cmp1@nova"]}

    unit(work)


def test_why_a_host_is_unknown_is_kept_and_since_when(unit):
    def work(conn):
        save(conn, "cmp1")
        for at_s, why in ((10, "not named"), (20, "not named"), (30, "its agent is gone")):
            hosts.unseen(conn, hosts.known(conn, "pcmk")["cmp1"], why, at_s * S)
            row = hosts.known(conn, "pcmk")["cmp1"]
            assert (row.why, row.unseen_us) == (why, 10 * S)

    unit(work)


def test_each_vantage_point_stores_what_it_hears_in_the_place_of_what_it_heard_before(unit):
    heard = HeardHost(boot="b", uptime_s=9.0, silent_s=0.5, beats=3, restarts={"b": 7})

    def point(name, at_us, **said):
        return VantagePoint(name=name, at_us=at_us, every_s=5.0, listening_s=60.0, hosts=said)

    def work(conn):
        first, second = point("a", S), point("b", S, cmp1=heard)
        vantage_points.save(conn, "agents", first)
        vantage_points.save(conn, "agents", second)
        vantage_points.save(conn, "others", first)
        assert vantage_points.listed(conn, "agents") == (first, second)
        first = point("a", 2 * S, cmp1=heard)
        vantage_points.save(conn, "agents", first)
        assert vantage_points.listed(conn, "agents") == (first, second)
        later = point("a", 31 * DAY)
        vantage_points.save(conn, "agents", later)
        assert vantage_points.listed(conn, "agents") == (later,), "the other has left"
        assert len(vantage_points.listed(conn, "others")) == 1

    unit(work)


def test_a_host_that_is_unseen_for_a_week_is_forgotten(unit):
    def work(conn):
        save(conn, "cmp1")
        for now_us, left in ((S, 1), (7 * DAY, 1), (7 * DAY + S, 1), (7 * DAY + S + 1, 0)):
            for row in hosts.known(conn, "pcmk").values():
                hosts.unseen(conn, row, "not named", now_us)
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
        values |= {"id": "f1", "hostname": "cmp9", "generated_us": 2000 * S}
        alerts.add(conn, values | {"id": "f2"}, (), 2000 * S)
        late = [alerts.near(conn, "cmp9", at * S, within_us=60 * S, but="x") for at in (1000, 1001)]
        assert late == ["f2", None], (
            "told half an hour late, it is not whatever happened in between"
        )
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
