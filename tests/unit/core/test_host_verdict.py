"""A new proof that a host was off is a failure; a lost host is waited for; nothing is told twice."""

from __future__ import annotations

import pytest

from yaffle.core.health.host_verdict import KEPT_MAX, HostPatience, KnownHost, judge
from yaffle.model.host_state import HostFencing, HostSighting, HostState, Seen

S = 1_000_000
NOW_S = 1_000_000
PATIENCE = HostPatience(unfenced_after_s=180.0, late_s=3600.0)
UP, LOST, FENCED = HostState.UP, HostState.LOST, HostState.FENCED
UNFENCED, STOPPED, MAINTENANCE = HostState.UNFENCED, HostState.STOPPED, HostState.MAINTENANCE


def fenced(ago_s=5):
    return HostFencing(host="h1", at_s=NOW_S - ago_s, proof="off succeeded")


def look(before, seen, *fencings, since_s=10, told=(), now_s=NOW_S):
    known = None
    if before is not None:
        known = KnownHost(state=before, since_us=(NOW_S - since_s) * S, told=tuple(told))
    sighting = HostSighting(host="h1", seen=seen, why="because")
    return judge(known, sighting, fencings, now_s * S, PATIENCE)


@pytest.mark.parametrize(
    ("before", "seen", "proved", "after", "tells"),
    [
        # What was seen before, what is seen now, whether there is a new proof → state, told or not.
        (None, Seen.UP, False, UP, False),
        (None, Seen.UP, True, UP, False),
        (None, Seen.LOST, False, LOST, False),
        (None, Seen.LOST, True, FENCED, True),
        (None, Seen.STOPPED, True, STOPPED, False),
        (None, Seen.MAINTENANCE, True, MAINTENANCE, False),
        (UP, Seen.UP, False, UP, False),
        (UP, Seen.UP, True, UP, True),
        (UP, Seen.LOST, False, LOST, False),
        (UP, Seen.LOST, True, FENCED, True),
        (UP, Seen.STOPPED, False, STOPPED, False),
        (UP, Seen.STOPPED, True, STOPPED, True),
        (UP, Seen.MAINTENANCE, False, MAINTENANCE, False),
        (UP, Seen.MAINTENANCE, True, MAINTENANCE, True),
        (LOST, Seen.UP, False, UP, False),
        (LOST, Seen.UP, True, UP, True),
        (LOST, Seen.LOST, False, LOST, False),
        (LOST, Seen.LOST, True, FENCED, True),
        (LOST, Seen.STOPPED, False, STOPPED, False),
        (LOST, Seen.MAINTENANCE, False, MAINTENANCE, False),
        (FENCED, Seen.UP, False, UP, False),
        (FENCED, Seen.LOST, False, FENCED, False),
        (FENCED, Seen.LOST, True, FENCED, True),
        (FENCED, Seen.MAINTENANCE, False, MAINTENANCE, False),
        (UNFENCED, Seen.UP, False, UP, False),
        (UNFENCED, Seen.LOST, True, FENCED, True),
        (STOPPED, Seen.UP, False, UP, False),
        (STOPPED, Seen.LOST, False, LOST, False),
        (STOPPED, Seen.STOPPED, True, STOPPED, True),
        # Its monitor connects to it: who was lost still is, of the others nothing is known.
        (LOST, Seen.STARTING, False, LOST, False),
        (LOST, Seen.STARTING, True, FENCED, True),
        (FENCED, Seen.STARTING, False, FENCED, False),
        (UNFENCED, Seen.STARTING, False, LOST, False),
        (UP, Seen.STARTING, False, UP, False),
        (UP, Seen.STARTING, True, FENCED, True),
        (STOPPED, Seen.STARTING, False, STOPPED, False),
        (MAINTENANCE, Seen.STARTING, False, MAINTENANCE, False),
        (MAINTENANCE, Seen.UP, False, UP, False),
        (MAINTENANCE, Seen.UP, True, UP, True),
        (MAINTENANCE, Seen.LOST, False, LOST, False),
        (MAINTENANCE, Seen.LOST, True, FENCED, True),
        (MAINTENANCE, Seen.MAINTENANCE, True, MAINTENANCE, False),
    ],
)
def test_each_look_beside_what_was_known(before, seen, proved, after, tells):
    new = (fenced(),) if proved else ()
    verdict = look(before, seen, *new)
    assert verdict.known.state is after
    plain = after in (UP, STOPPED, MAINTENANCE)
    assert verdict.unknown is (seen is Seen.STARTING and plain)
    assert verdict.tell == (new if tells else ())
    assert verdict.known.told == tuple(f.at_s for f in new), "and it is judged once"


def test_a_host_that_is_lost_for_long_and_not_proved_off_is_unfenced_and_stays_so():
    assert look(LOST, Seen.LOST, since_s=179).known.state is LOST
    verdict = look(LOST, Seen.LOST, since_s=180)
    assert (verdict.known.state, verdict.tell) == (UNFENCED, ())
    assert verdict.known.since_us == (NOW_S - 180) * S, "since it was lost"
    assert look(UNFENCED, Seen.LOST, since_s=5000).known.state is UNFENCED
    assert look(UP, Seen.LOST, since_s=5000).known.state is LOST, "it was up for so long"
    assert look(None, Seen.LOST).known.state is LOST


def test_a_fencing_is_told_once_whatever_the_clocks_of_those_who_fence():
    old, newer_by_a_slow_clock = fenced(5), fenced(65)
    verdict = look(UP, Seen.LOST, old, newer_by_a_slow_clock, told=[old.at_s])
    assert verdict.tell == (newer_by_a_slow_clock,)
    again = judge(
        verdict.known,
        HostSighting(host="h1", seen=Seen.LOST, why=""),
        (old, newer_by_a_slow_clock),
        NOW_S * S,
        PATIENCE,
    )
    assert again.tell == ()


def test_a_history_that_was_away_for_a_moment_is_no_news_when_it_is_back():
    told = fenced(50)
    away = look(FENCED, Seen.LOST, told=[told.at_s])
    assert away.known.told == (told.at_s,)
    back = judge(
        away.known, HostSighting(host="h1", seen=Seen.LOST, why=""), (told,), NOW_S * S, PATIENCE
    )
    assert back.tell == ()


def test_several_that_nobody_saw_are_several_failures():
    proofs = (fenced(300), fenced(200), fenced(100))
    assert look(UP, Seen.LOST, *proofs).tell == proofs


def test_of_a_host_seen_for_the_first_time_only_the_latest_is_told():
    proofs = (fenced(300), fenced(100), fenced(200))
    verdict = look(None, Seen.LOST, *proofs)
    assert verdict.tell == (fenced(100),)
    assert len(verdict.known.told) == 3


def test_old_news_of_a_host_that_is_back_is_passed_over_and_says_why():
    verdict = look(UP, Seen.UP, fenced(3601), fenced(3599))
    assert verdict.tell == (fenced(3599),)
    assert verdict.pass_over == (fenced(3601),)
    assert "has been up again" in verdict.because
    assert look(UP, Seen.LOST, fenced(90_000)).tell == (fenced(90_000),), "what lasts is never old"
    kept = look(MAINTENANCE, Seen.MAINTENANCE, fenced())
    assert (kept.pass_over, kept.because) == ((fenced(),), "the host is under maintenance")


def test_since_when_it_is_so_is_kept_while_it_is_so():
    assert look(UP, Seen.UP).known.since_us == (NOW_S - 10) * S
    assert look(UP, Seen.LOST).known.since_us == NOW_S * S
    assert look(LOST, Seen.LOST, fenced()).known.since_us == NOW_S * S


def test_what_is_remembered_is_bounded_and_the_newest_of_it_is_kept():
    told = list(range(NOW_S - 500, NOW_S - 300))
    verdict = look(UP, Seen.UP, fenced(1), told=told)
    assert len(verdict.known.told) == KEPT_MAX
    assert verdict.known.told[-1] == NOW_S - 1
