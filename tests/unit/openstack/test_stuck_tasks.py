"""A task of Nova's that moves no more is told from one that moves, by our own looks alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from yaffle.integrations.openstack.servers.documents import Listed
from yaffle.integrations.openstack.servers.status_mapping import HARMLESS
from yaffle.integrations.openstack.servers.stuck_tasks import (
    AT_FIRST_BUILD,
    AT_WORK,
    KEPT,
    LONG_S,
    LOOKS,
    QUICK_S,
    TASKS,
    Bounds,
    Tasks,
)

EVERY_S = 30.0
# Every word of nova/compute/task_states.py, those that leave a guest as it is apart.
NOVAS = """
scheduling block_device_mapping networking spawning updating_password
resize_prep resize_migrating resize_migrated resize_finish resize_reverting resize_confirming
rebooting reboot_pending reboot_started rebooting_hard reboot_pending_hard reboot_started_hard
pausing unpausing suspending resuming powering-off powering-on rescuing unrescuing
rebuilding rebuild_block_device_mapping rebuild_spawning migrating deleting soft-deleting restoring
shelving shelving_image_pending_upload shelving_image_uploading shelving_offloading unshelving
"""
QUICK = [word for word, task in TASKS.items() if not task.long and not task.endless]
LONG = [word for word, task in TASKS.items() if task.long]


@dataclass
class Clock:
    at_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.at_s


class Looks:
    """A driver that looks every 30 s unless it is told otherwise."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.clock = Clock()
        self.tasks = Tasks(self.clock, bounds or Bounds())  # type: ignore[arg-type]

    def until_stuck(
        self, server: Listed, within_s: float = 2 * LONG_S, every_s: float = EVERY_S
    ) -> float | None:
        """Return after how long it was found stuck; None: not within that time."""
        began_s = self.clock.at_s
        while self.clock.at_s - began_s <= within_s:
            if self.tasks.stuck(server) is not None:
                return self.clock.at_s - began_s
            self.clock.at_s += every_s
        return None


def server(
    task: str | None, *, updated: str = "T1", status: str = "ACTIVE", host: str = ""
) -> Listed:
    return Listed(
        id="s", status=status, task_state=task, updated=updated, power_state=1, host_status=host
    )


def test_every_task_of_nova_has_a_word_in_the_table() -> None:
    assert set(TASKS) == set(NOVAS.split())
    assert not set(TASKS) & HARMLESS


@pytest.mark.parametrize("word", QUICK)
def test_what_is_quick_is_stuck_after_ten_minutes(word: str) -> None:
    assert Looks().until_stuck(server(word)) == QUICK_S


@pytest.mark.parametrize("word", LONG)
def test_what_is_long_by_nature_has_an_hour(word: str) -> None:
    assert Looks().until_stuck(server(word)) == LONG_S


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(server(None), id="nothing is done to it"),
        pytest.param(server("image_uploading"), id="an image is taken of it"),
        pytest.param(server("migrating"), id="it moves while it runs"),
        pytest.param(server("frobnicating"), id="a word of the future"),
        pytest.param(server("deleting", host="DOWN"), id="its host is lost"),
        pytest.param(server("deleting", host="UNKNOWN"), id="its host is not heard of"),
        pytest.param(server(None, status="VERIFY_RESIZE"), id="somebody has to confirm it"),
        pytest.param(server(None, status="UNKNOWN"), id="its cell is away"),
    ],
)
def test_what_is_never_stuck(seen: Listed) -> None:
    assert Looks().until_stuck(seen, within_s=30 * LONG_S) is None


def test_a_build_without_a_word_is_one_all_the_same() -> None:
    assert Looks().until_stuck(server(None, status="BUILD")) == LONG_S


def test_a_task_that_moves_begins_anew_however_slowly_it_moves() -> None:
    looks = Looks()
    for step in range(5):
        seen = server("rebooting_hard", updated=f"T{step}")
        assert looks.until_stuck(seen, within_s=QUICK_S - 2 * EVERY_S) is None
    for word in ("rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"):
        assert looks.until_stuck(server(word), within_s=LONG_S - 2 * EVERY_S) is None


def test_one_that_was_over_in_between_is_another_one() -> None:
    looks = Looks()
    looks.until_stuck(server("rebooting"), within_s=QUICK_S - EVERY_S)
    looks.tasks.stuck(server(None))
    assert looks.until_stuck(server("rebooting")) == QUICK_S


def test_asking_for_a_deletion_again_and_again_does_not_keep_it_young() -> None:
    # Nova stamps the server anew each time, and ignores the request.
    looks = Looks()
    for minute in range(10):
        assert looks.tasks.stuck(server("deleting", updated=f"T{minute}")) is None
        looks.clock.at_s += 60
    assert looks.tasks.stuck(server("deleting", updated="T10")) is not None


def test_a_build_whose_message_was_lost_is_found_though_nova_calls_it_changed_just_now() -> None:
    # Of what no host has had yet Nova tells the time of the question as that of the last change.
    looks = Looks()
    for minute in range(10):
        asked = server("scheduling", status="BUILD", updated=f"T{minute}")
        assert looks.tasks.stuck(asked) is None
        looks.clock.at_s += 60
    told = looks.tasks.stuck(server("scheduling", status="BUILD", updated="T10"))
    assert told is not None
    assert told.why == "Nova's task scheduling has not moved for more than 10 min"
    assert not told.may_work, "no host has it"
    # One that a host has is written of, and moves.
    for minute in range(70):
        moving = server("spawning", status="BUILD", updated=f"T{minute}")
        assert looks.tasks.stuck(moving) is None
        looks.clock.at_s += 60


def test_what_was_not_looked_at_does_not_count() -> None:
    looks = Looks()
    assert looks.tasks.stuck(server("deleting")) is None
    # The cloud cannot be read for a day, nor does anything move in it.
    looks.clock.at_s += 24 * 3600
    assert looks.tasks.stuck(server("deleting")) is None
    assert looks.until_stuck(server("deleting")) == QUICK_S * (LOOKS - 1) / LOOKS


def test_rare_looks_take_longer_and_get_there() -> None:
    assert Looks().until_stuck(server("deleting"), every_s=QUICK_S) == LOOKS * QUICK_S


@pytest.mark.parametrize("ahead", ["2026-11-21T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_novas_clock_has_no_say(ahead: str) -> None:
    assert Looks().until_stuck(server("deleting", updated=ahead)) == QUICK_S
    assert Looks().until_stuck(server("rebooting", updated=ahead)) == QUICK_S


def test_an_engine_that_starts_is_late_and_never_wrong() -> None:
    assert Looks().tasks.stuck(server("deleting", updated="1970-01-01T00:00:00Z")) is None


def test_its_words_are_the_same_at_every_look() -> None:
    looks = Looks()
    looks.until_stuck(server("powering-off"))
    first = looks.tasks.stuck(server("powering-off"))
    looks.clock.at_s += 60
    assert looks.tasks.stuck(server("powering-off")) == first
    assert first is not None
    assert first.why == "Nova's task powering-off has not moved for more than 10 min, since T1"


def test_a_host_that_is_at_work_is_given_a_day_by_those_who_ask() -> None:
    looks = Looks(Bounds(quick_s=10, long_s=60))
    assert looks.until_stuck(server("rebuilding"), every_s=5) == 60
    early = looks.tasks.stuck(server("rebuilding"))
    assert early is not None
    assert early.may_work
    assert early.patient
    for _ in range(AT_WORK * LOOKS):
        looks.clock.at_s += 60
        late = looks.tasks.stuck(server("rebuilding"))
    assert late is not None
    assert late.may_work
    assert not late.patient
    quick = Looks(Bounds(quick_s=10, long_s=60))
    quick.until_stuck(server("powering-off"), every_s=5)
    told = quick.tasks.stuck(server("powering-off"))
    assert told is not None
    assert not told.may_work


@pytest.mark.parametrize(
    ("launched", "bounds"), [(None, AT_FIRST_BUILD), ("2026-11-21T19:00:54Z", AT_WORK)]
)
def test_a_build_of_what_never_ran_is_not_waited_for_all_day(
    launched: str | None, bounds: int
) -> None:
    building = replace(server("networking", status="BUILD"), launched_at=launched)
    looks = Looks(Bounds(quick_s=10, long_s=60))
    assert looks.until_stuck(building, every_s=5) == 60
    for at_s in range(75, 60 * bounds, 15):
        looks.clock.at_s += 15
        told = looks.tasks.stuck(building)
        assert told is not None
        assert told.patient, at_s
    looks.clock.at_s += 15
    told = looks.tasks.stuck(building)
    assert told is not None
    assert not told.patient


@pytest.mark.parametrize("word", ["deleting", "soft-deleting"])
def test_a_disk_may_take_long_to_wipe(word: str) -> None:
    looks = Looks()
    assert looks.until_stuck(server(word)) == QUICK_S
    told = looks.tasks.stuck(server(word))
    assert told is not None
    assert told.may_work
    assert told.patient
    # To ask once more costs nothing, so that it is not waited for all day.
    for _ in range(2 * LOOKS):
        assert told is not None
        assert told.patient
        looks.clock.at_s += QUICK_S / LOOKS
        told = looks.tasks.stuck(server(word))
    assert told is not None
    assert not told.patient


def test_what_was_asked_for_just_now_counts_anew() -> None:
    looks = Looks()
    looks.until_stuck(server("deleting", status="ERROR"))
    looks.tasks.forget("s")
    assert looks.until_stuck(server("deleting", status="ERROR")) == QUICK_S


def test_what_is_remembered_is_bounded() -> None:
    looks = Looks()
    for number in range(KEPT + 10):
        looks.tasks.stuck(Listed(id=f"s{number}", status="ACTIVE", task_state="deleting"))
    assert len(looks.tasks._seen) == KEPT
