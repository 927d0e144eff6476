"""The monitor that goes by other monitors' word: only by that of senders that are trusted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from yaffle.config import Settings
from yaffle.drivers.host_monitors.notified import BACK_S, NotifiedMonitor
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.notified_hosts import KEPT_US, StoredNotifications
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.model.host_state import HostReport, HostSighting, MonitorBlind, Seen
from yaffle.ports.context import DriverContext
from yaffle.prober.client import ProberClient
from yaffle.store import instance_ha
from yaffle.store.database import Store, open_store
from yaffle.store.instance_ha import Kind
from yaffle.store.tables import ha_notifications
from yaffle.testing import check_host_monitor
from yaffle.wiring import address_rules, load_drivers

CLOCK = SystemClock()
OFF = {"event": "STOPPED", "host_status": "NORMAL"}
BACK = {"event": "STARTED", "host_status": "NORMAL"}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    url = f"sqlite:///{tmp_path / 'yaffle.db'}"
    opened = open_store(url, clock=CLOCK, backup_dir=tmp_path, with_engine_lock=True)
    yield opened
    asyncio.run(opened.close())


def monitor(notified: Any, *senders: str) -> NotifiedMonitor:
    return NotifiedMonitor(
        DriverContext(
            clock=CLOCK,
            state_dir=Path(),
            settings={"senders": list(senders)},
            section="host_monitors.word",
            notified=notified,
            host_names={"cmp1": "cmp1.example.org"},
        )
    )


def look(store: Store, *senders: str) -> dict[str, HostSighting]:
    ours = monitor(StoredNotifications(store, CLOCK), *senders)
    report = asyncio.run(ours.look(deadline_s=5))
    assert isinstance(report, HostReport)
    assert report.fencings == report.marks == (), "whoever notified us tells of failures"
    return {sighting.host: sighting for sighting in report.sightings}


def tell(store: Store, host: str, payload: Any, **values: Any) -> int:
    """Store a notification; return since when its host is off, or back."""
    now_us = CLOCK.now_us()
    tell.count += 1  # type: ignore[attr-defined]
    row = {
        "id": f"n{tell.count}",  # type: ignore[attr-defined]
        "type": "COMPUTE_HOST",
        "host": host,
        "origin": "instance-ha",
        "sender": "masakari",
        "payload": payload,
        "generated_us": now_us,
        "status": "new",
        "created_us": now_us,
        **values,
    }
    asyncio.run(store.write(lambda conn: instance_ha.add(conn, Kind.NOTIFICATION, row)))
    return min(row["generated_us"], row["created_us"]) // 1_000_000


tell.count = 0  # type: ignore[attr-defined]


def test_a_host_is_off_by_the_word_of_a_trusted_sender(store: Store) -> None:
    since_s = tell(store, "cmp1", OFF)
    (seen,) = look(store, "masakari", "other").values()
    assert (seen.host, seen.seen, seen.off, seen.word) == ("cmp1", Seen.LOST, True, True)
    assert seen.off_s == since_s
    assert seen.why.startswith("masakari has notified that it failed and is off since ")


def test_the_kit_finds_nothing(store: Store) -> None:
    now_us = CLOCK.now_us()
    tell(store, "cmp1", OFF, generated_us=now_us - 30_000_000)
    tell(store, "cmp1", BACK, generated_us=now_us)
    ours = monitor(StoredNotifications(store, CLOCK), "masakari")
    asyncio.run(check_host_monitor(ours, clock=CLOCK, up="cmp1"))


def test_nobody_else_is_believed(store: Store) -> None:
    tell(store, "cmp1", OFF)
    assert look(store, "Masakari") == {}


@pytest.mark.parametrize(
    "payload", [{"event": "STOPPED"}, {"event": "STOPPED", "host_status": "UNKNOWN"}]
)
def test_a_sender_that_does_not_know_whether_it_is_off_proves_nothing(
    store: Store, payload: Any
) -> None:
    tell(store, "cmp1", payload)
    assert look(store, "masakari") == {}


def test_what_is_told_of_instances_and_processes_says_nothing_of_a_host(store: Store) -> None:
    tell(store, "cmp1", OFF, type="PROCESS")
    tell(store, "cmp1", OFF, type="VM")
    assert look(store, "masakari") == {}


def test_the_latest_word_counts_whoever_gives_it(store: Store) -> None:
    now_us = CLOCK.now_us()
    tell(store, "cmp1", OFF, generated_us=now_us - 60_000_000)
    tell(store, "cmp1", BACK, generated_us=now_us - 30_000_000)
    # It was under way for long.
    tell(store, "cmp1", OFF, generated_us=now_us - 90_000_000)
    assert look(store, "masakari")["cmp1"].seen is Seen.UP
    tell(store, "cmp1", OFF, generated_us=now_us, sender="stranger")
    assert look(store, "masakari") == {}, "somebody else says another thing: nothing is proved"


@pytest.mark.parametrize(
    ("later", "stands"),
    [
        ((OFF,), True),
        ((OFF, OFF), True),
        (({"event": "STOPPED"},), False),
        ((BACK,), False),
        # It was back in between: what was said before is over.
        ((BACK, OFF), False),
    ],
)
def test_who_says_the_same_takes_nothing_from_a_trusted_word(
    store: Store, later: tuple[Any, ...], stands: bool
) -> None:
    now_us = CLOCK.now_us()
    since_s = tell(store, "cmp1", OFF, generated_us=now_us - 60_000_000)
    for number, payload in enumerate(later):
        at_us = now_us - 60_000_000 + (number + 1) * 2_000_000
        tell(store, "cmp1", payload, generated_us=at_us, sender="stranger")
    found = look(store, "masakari")
    assert {name: seen.off_s for name, seen in found.items()} == (
        {"cmp1": since_s} if stands else {}
    )


def test_a_stamp_ahead_of_our_clock_counts_as_of_when_it_came(store: Store) -> None:
    now_us = CLOCK.now_us()
    since_s = tell(store, "cmp1", OFF, generated_us=now_us + 10**12, created_us=now_us)
    assert look(store, "masakari")["cmp1"].off_s == since_s == now_us // 1_000_000


def test_one_host_of_two_names_has_one_latest_word(store: Store) -> None:
    now_us = CLOCK.now_us()
    tell(store, "cmp1.example.org", OFF, generated_us=now_us - 60_000_000)
    tell(store, "cmp1", BACK, generated_us=now_us - 30_000_000)
    (seen,) = look(store, "masakari").values()
    assert seen.seen is Seen.UP
    tell(store, "cmp1.example.org", OFF, generated_us=now_us - 30_000_000)
    (seen,) = look(store, "masakari").values()
    assert seen.seen is Seen.UP, "of two words of one time the one that moves nothing counts"


def test_the_names_of_the_settings_reach_the_monitor(store: Store, tmp_path: Path) -> None:
    values = {"type": "notified", "senders": ["masakari"]}
    settings = Settings(
        state_dir=tmp_path,
        hosts={"names": {"cmp1": "cmp1.example.org"}},
        host_monitors={"word": values},
    )
    notified = StoredNotifications(store, CLOCK)
    never_run = ProberClient(clock=CLOCK, on_blind=lambda _: None, rules=address_rules(settings))
    word = load_drivers(settings, CLOCK, never_run, notified=notified).host_monitors["word"]
    now_us = CLOCK.now_us()
    tell(store, "cmp1.example.org", OFF, generated_us=now_us - 60_000_000)
    tell(store, "cmp1", BACK, generated_us=now_us)
    report = asyncio.run(word.look(deadline_s=5))
    assert isinstance(report, HostReport)
    assert [seen.seen for seen in report.sightings] == [Seen.UP]


def test_that_a_host_was_back_is_no_sight_of_it_later(store: Store) -> None:
    for ago_s, seen in ((BACK_S - 30, {"cmp1": Seen.UP}), (BACK_S + 1, {})):
        tell(store, "cmp1", BACK, generated_us=CLOCK.now_us() - ago_s * 1_000_000)
        found = look(store, "masakari")
        assert {name: one.seen for name, one in found.items()} == seen
        asyncio.run(store.write(lambda conn: conn.execute(ha_notifications.delete())))


def test_an_old_word_is_none(store: Store) -> None:
    old_us = CLOCK.now_us() - KEPT_US - 1_000_000
    tell(store, "cmp1", OFF, created_us=old_us)
    assert look(store, "masakari") == {}


def test_a_database_that_is_away_is_no_empty_one() -> None:
    class Away:
        async def words(self) -> Any:
            raise StoreUnavailable("the database is away")

    for notified in (Away(), None):
        seen = asyncio.run(monitor(notified, "masakari").look(deadline_s=5))
        assert isinstance(seen, MonitorBlind)


def test_a_monitor_that_trusts_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"host_monitors\.word\.senders must be"):
        monitor(None)
