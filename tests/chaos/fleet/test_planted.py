"""The judge sees what it is there for: bugs are planted in the engines of a real fleet, and found."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.fleet.conftest import DOCUMENT, LEASE_S, own_server
from tests.chaos.fleet.evidence import Deed
from tests.chaos.fleet.judge import faults, history_of
from tests.chaos.fleet.lab import fleet
from tests.chaos.fleet.observer import observing
from tests.chaos.fleet.plants import PLANTS, Plant, planted
from tests.chaos.fleet.scenario import Trouble
from tests.chaos.fleet.server import Reader, keep
from tests.chaos.lab import long, now_us
from tests.chaos.receiver import receiving


def patiently(what: Callable[[], object], bound_s: float) -> None:
    """Wait until it is so, or for so long; with a bug inside it may never be."""
    until_s = time.monotonic() + bound_s
    while not what() and time.monotonic() < until_s:
        time.sleep(0.05)


def freeze(here: Trouble) -> None:
    shared = here.fleet
    victim = shared.holder()
    assert victim is not None
    shared.diaries.manner("c-1", "slow 2")
    shared.diaries.signal("c-1", signal.SIGSTOP)
    sql = "select 1 as one from steps where stage = 'create' and ended_us is null"
    patiently(lambda: shared.rows(sql), 30)
    worker = next(
        e for e in shared.engines.values()
        if e.pid in {r["pid"] for r in shared.rows(
            "select e.pid from actions a join engines e on e.id = a.owner where a.end_us is null"
        )}
    )  # fmt: skip
    worker.freeze()
    time.sleep(LEASE_S * 2)
    worker.thaw()
    time.sleep(LEASE_S * 2)


def kill(here: Trouble) -> None:
    victim = here.fleet.holder()
    assert victim is not None
    victim.kill()
    # Long enough to be no excuse, however busy the machine is.
    patiently(lambda: here.fleet.holder() not in {None, victim}, 40)
    time.sleep(1)


def mute_receiver(here: Trouble) -> None:
    here.fleet.receiver.broken = True
    here.fleet.diaries.signal("c-1", signal.SIGKILL)
    patiently(lambda: len(here.fleet.diaries.lives("c-1")) > 1, 30)
    patiently(here.fleet.told, 10)


def go_back(here: Trouble) -> None:
    with here.deed("database kept"):
        keep(here.fleet.server)
    patiently(here.fleet.healthy, 30)
    time.sleep(3)
    here.back_in_time()
    time.sleep(3)
    here.fleet.diaries.signal("c-1", signal.SIGKILL)
    time.sleep(LEASE_S * 3)
    here.deeds.append(Deed(now_us(), "lifted"))


def stop_a_node(here: Trouble) -> None:
    here.fleet.diaries.signal("c-1", signal.SIGSTOP)
    patiently(lambda: len(here.fleet.diaries.made()) > 2, 30)
    time.sleep(1)


TROUBLES = {
    f.__name__.replace("_", " "): f for f in (freeze, kill, mute_receiver, go_back, stop_a_node)
}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_it_still_fits(plant: Plant) -> None:
    assert [edit.path for edit in plant.edits if not edit.fits()] == []
    assert plant.trouble in TROUBLES


@long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_it_is_found(plant: Plant, tmp_path: Path) -> None:
    server = own_server("postgresql")
    source = planted(plant, tmp_path / "source")
    try:
        server.start()
        with (
            receiving() as receiver,
            fleet(
                tmp_path / "fleet", server, receiver,
                lease=LEASE_S, clusters={"c": 2}, document=DOCUMENT, source=source,
            ) as made,
            observing(
                lambda: Reader(made.server, made.database), made.diaries, made.workers
            ) as observer,
        ):  # fmt: skip
            patiently(lambda: observer.looks, 20)
            time.sleep(1)
            here = Trouble(made, observer)
            TROUBLES[plant.trouble](here)
            with contextlib.suppress(AssertionError):
                made.settle(5)
            found = faults(history_of(made, observer, here.deeds, document=DOCUMENT))
    finally:
        server.remove()
    print("\n".join(found))
    assert plant.rule in {fault.partition(":")[0] for fault in found}
