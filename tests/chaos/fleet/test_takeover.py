"""One engine fails in each way that was named: others take over, nothing is done twice or lost."""

from __future__ import annotations

import signal
import time

import pytest
from tests.chaos.fleet.conftest import DOCUMENT, LEASE_S, only
from tests.chaos.fleet.engines import Engine
from tests.chaos.fleet.lab import Fleet
from tests.chaos.fleet.proxy import Mode
from tests.chaos.fleet.scenario import trouble
from tests.chaos.fleet.space import missing
from tests.chaos.lab import MINUTES, long, now_us
from tests.servers.clock import FAKETIME

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
HEALED_S = 60.0


def holder(fleet: Fleet, cluster: str) -> Engine:
    """Return who watches a cluster; it may just be handed from one to another."""
    found: list[Engine | None] = [None]

    def look() -> bool:
        found[0] = fleet.holder(cluster)
        return found[0] is not None

    fleet.wait(look, 20, f"somebody watches {cluster}")
    assert found[0] is not None
    return found[0]


def taken(fleet: Fleet, cluster: str, before: Engine) -> None:
    """Wait until another one has it; how long that may take is for the judge to say."""
    fleet.wait(lambda: fleet.holder(cluster) not in {None, before}, HEALED_S, "it is taken over")


def test_killed_in_the_middle_of_a_recovery(shared: Fleet) -> None:
    only(shared, "mariadb")
    victim = holder(shared, "k")
    with trouble(shared, DOCUMENT) as here:
        shared.diaries.signal("k-1", signal.SIGKILL)
        here.step_seen("fence", "intent")
        victim.kill()
        shared.diaries.signal("k-2", signal.SIGKILL)
        taken(shared, "k", victim)
        shared.wait(shared.healthy, HEALED_S, "healed by others, within no second grace")
    victim.start()
    victim.ready()


def test_frozen_for_ten_leases_and_thawed(shared: Fleet) -> None:
    only(shared, "postgresql")
    victim = holder(shared, "k")
    with trouble(shared, DOCUMENT) as here:
        shared.diaries.signal("k-1", signal.SIGKILL)
        here.step_seen("delete", "intent")
        victim.freeze()
        began_s = time.monotonic()
        taken(shared, "k", victim)
        shared.wait(shared.healthy, HEALED_S, "healed by others")
        shared.diaries.signal("l-1", signal.SIGSTOP)
        time.sleep(max(0.0, LEASE_S * 10 - (time.monotonic() - began_s)))
        victim.thaw()
        shared.wait(lambda: "session lost" in victim.said(), 20, "it knows that it was away")
        assert "TaskGroup" not in victim.said(), "it says why, not where that was raised"
        shared.wait(shared.healthy, HEALED_S, "healed")


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (Mode.STALL, "postgresql"),
        (Mode.MUTE, "mariadb"),
        pytest.param(Mode.REFUSE, "", marks=long),
        pytest.param(Mode.HOLE, "", marks=long),
    ],
)
def test_cut_off_from_the_database(shared: Fleet, mode: Mode, kind: str) -> None:
    only(shared, kind)
    victim = holder(shared, "l")
    with trouble(shared, DOCUMENT) as here:
        shared.diaries.signal("l-1", signal.SIGKILL)
        here.step_seen("fence", "intent")
        victim.cut_database(mode)
        taken(shared, "l", victim)
        shared.wait(shared.healthy, HEALED_S, "healed by others")
        victim.mend_database()


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.root
def test_cut_off_from_the_nodes(shared: Fleet) -> None:
    only(shared, "mariadb")
    victim = holder(shared, "m")
    with trouble(shared, DOCUMENT):
        victim.cut_nodes()
        taken(shared, "m", victim)
        shared.diaries.signal("m-1", signal.SIGSTOP)
        shared.wait(shared.healthy, HEALED_S, "healed by those who see")
        victim.mend_nodes()


@pytest.mark.skipif(
    not FAKETIME.exists(), reason="no libfaketime is installed (package libfaketime)"
)
def test_its_clock_is_stepped(shared: Fleet) -> None:
    only(shared, "mariadb")
    victim = holder(shared, "k")
    with trouble(shared, DOCUMENT):
        for step_s in (3600.0, -3600.0) if MINUTES else (3600.0,):
            victim.step_clock(step_s)
            time.sleep(1.5)
            shared.diaries.signal("k-1", signal.SIGKILL)
            time.sleep(1.0)
            shared.wait(shared.healthy, HEALED_S, "healed")
        victim.step_clock(0.0)


def test_its_disk_is_full(shared: Fleet) -> None:
    only(shared, "postgresql")
    victim = holder(shared, "k")
    # Others of these tests have killed it before.
    before = len(shared.diaries.lives("k-1"))
    with trouble(shared, DOCUMENT):
        began_us = now_us()
        victim.fill_disk()
        shared.diaries.signal("k-1", signal.SIGKILL)

        def tried() -> bool:
            """By another one, or by the one that can write nothing and says so: whoever is first."""
            steps = "select 1 as one from steps where intent_us > %s"
            said = f"{steps} and (detail like %s or detail like %s)"
            healed = len(shared.diaries.lives("k-1")) > before
            # In the act itself, or in the look whether it could be done, before anything is given up.
            words = ("%cannot work in%", "%cannot be written below%")
            return healed or bool(shared.rows(said, began_us, *words))

        shared.wait(tried, HEALED_S, "tried")
        time.sleep(3.0)
        victim.free_disk()
