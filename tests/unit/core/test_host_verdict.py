"""A new proof that a host was off is a failure; a lost host is waited for; nothing is told twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yaffle.core.health.host_verdict import (
    KEPT_MAX,
    HostPatience,
    KnownHost,
    is_judged,
    judge,
)
from yaffle.model.host_state import HostFencing, HostSighting, HostState, Seen

S = 1_000_000
NOW_S = 1_000_000
PATIENCE = HostPatience(unfenced_after_s=180.0, late_s=3600.0)
UP, LOST, FENCED = HostState.UP, HostState.LOST, HostState.FENCED
UNFENCED, STOPPED, MAINTENANCE = HostState.UNFENCED, HostState.STOPPED, HostState.MAINTENANCE


def fenced(ago_s=5):
    return HostFencing(host="h1", at_s=NOW_S - ago_s, proof="off succeeded")


def look(before, seen, *fencings, since_s=10, told=(), now_s=NOW_S, off=False):
    known = None
    if before is not None:
        known = KnownHost(state=before, since_us=(NOW_S - since_s) * S, told=tuple(told))
    sighting = HostSighting(host="h1", seen=seen, why="because", off=off)
    return judge(known, sighting, fencings, now_s * S, PATIENCE)


NONE, PROOF, OLD = "no fencing", "off", "fenced before it was up last"


@pytest.mark.parametrize(
    ("before", "seen", "new", "after", "tells"),
    [
        # What was seen before, what is seen now, whether it is newly proved off → state, told or not.
        (None, Seen.UP, NONE, UP, False),
        (None, Seen.UP, OLD, UP, False),
        (None, Seen.LOST, NONE, LOST, False),
        (None, Seen.LOST, PROOF, FENCED, True),
        (None, Seen.LOST, OLD, LOST, False),
        (None, Seen.STOPPED, OLD, STOPPED, False),
        (None, Seen.MAINTENANCE, OLD, MAINTENANCE, False),
        (UP, Seen.UP, NONE, UP, False),
        (UP, Seen.UP, OLD, UP, True),
        (UP, Seen.LOST, NONE, LOST, False),
        (UP, Seen.LOST, PROOF, FENCED, True),
        # It came back after its fencing, and may run now.
        (UP, Seen.LOST, OLD, LOST, False),
        (UP, Seen.STOPPED, NONE, STOPPED, False),
        (UP, Seen.STOPPED, PROOF, FENCED, True),
        (UP, Seen.STOPPED, OLD, STOPPED, False),
        (UP, Seen.MAINTENANCE, NONE, MAINTENANCE, False),
        (UP, Seen.MAINTENANCE, PROOF, MAINTENANCE, True),
        (LOST, Seen.UP, NONE, UP, False),
        (LOST, Seen.UP, OLD, UP, True),
        (LOST, Seen.LOST, NONE, LOST, False),
        (LOST, Seen.LOST, PROOF, FENCED, True),
        (LOST, Seen.LOST, OLD, LOST, False),
        (LOST, Seen.STOPPED, NONE, STOPPED, False),
        (LOST, Seen.MAINTENANCE, NONE, MAINTENANCE, False),
        (FENCED, Seen.UP, NONE, UP, False),
        (FENCED, Seen.LOST, NONE, FENCED, False),
        (FENCED, Seen.LOST, PROOF, FENCED, True),
        (FENCED, Seen.MAINTENANCE, NONE, MAINTENANCE, False),
        (UNFENCED, Seen.UP, NONE, UP, False),
        (UNFENCED, Seen.LOST, PROOF, FENCED, True),
        (STOPPED, Seen.UP, NONE, UP, False),
        (STOPPED, Seen.LOST, NONE, LOST, False),
        (STOPPED, Seen.STOPPED, PROOF, FENCED, True),
        # Its monitor connects to it: who was lost still is, of the others nothing is known.
        (LOST, Seen.STARTING, NONE, LOST, False),
        (LOST, Seen.STARTING, PROOF, FENCED, True),
        (FENCED, Seen.STARTING, NONE, FENCED, False),
        (UNFENCED, Seen.STARTING, NONE, LOST, False),
        (UP, Seen.STARTING, NONE, UP, False),
        (UP, Seen.STARTING, PROOF, FENCED, True),
        (UP, Seen.STARTING, OLD, UP, False),
        (STOPPED, Seen.STARTING, NONE, STOPPED, False),
        (MAINTENANCE, Seen.STARTING, NONE, MAINTENANCE, False),
        (MAINTENANCE, Seen.UP, NONE, UP, False),
        (MAINTENANCE, Seen.UP, OLD, UP, True),
        (MAINTENANCE, Seen.LOST, NONE, LOST, False),
        (MAINTENANCE, Seen.LOST, PROOF, FENCED, True),
        (MAINTENANCE, Seen.MAINTENANCE, PROOF, MAINTENANCE, False),
    ],
)
def test_each_look_beside_what_was_known(before, seen, new, after, tells):
    fencings = () if new == NONE else (fenced(),)
    verdict = look(before, seen, *fencings, off=new == PROOF)
    assert verdict.known.state is after
    assert verdict.tell == (fencings if tells else ())
    assert verdict.unknown is (seen is Seen.STARTING and after in (UP, STOPPED, MAINTENANCE))
    waits = not tells and new == OLD and seen in (Seen.LOST, Seen.STARTING)
    waits |= (before, seen, new) == (UP, Seen.STOPPED, OLD)
    assert verdict.known.told == (() if waits else tuple(f.at_s for f in fencings)), "judged once"


def test_a_fencing_that_waits_is_told_when_the_host_is_proved_off_or_up_again():
    """It was fenced and came back, and is cut off now, with its instances running."""
    waiting = look(UP, Seen.LOST, fenced(900)).known
    assert (waiting.state, waiting.told) == (LOST, ())
    for seen, off, later in ((Seen.LOST, True, (fenced(1),)), (Seen.UP, False, ())):
        sighting = HostSighting(host="h1", seen=seen, why="", off=off)
        proofs = (fenced(900), *later)
        assert judge(waiting, sighting, proofs, NOW_S * S, PATIENCE).tell == proofs


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
    verdict = look(UP, Seen.LOST, old, newer_by_a_slow_clock, told=[old.at_s], off=True)
    assert verdict.tell == (newer_by_a_slow_clock,)
    again = judge(
        verdict.known,
        HostSighting(host="h1", seen=Seen.LOST, why="", off=True),
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
        away.known,
        HostSighting(host="h1", seen=Seen.LOST, why="", off=True),
        (told,),
        NOW_S * S,
        PATIENCE,
    )
    assert back.tell == ()


def test_a_host_that_is_off_by_a_fencing_that_no_history_shows_is_told_once():
    """Its cluster keeps the history in memory, and has lost it."""

    def seen(known, *fencings, off_s=NOW_S - 50):
        sighting = HostSighting(host="h1", seen=Seen.LOST, why="fenced", off=True, off_s=off_s)
        return judge(known, sighting, fencings, NOW_S * S, PATIENCE)

    up = KnownHost(state=UP, since_us=S)
    for known in (None, up):
        first = seen(known)
        (told,) = first.tell
        assert (told.at_s, told.proof) == (
            NOW_S - 50,
            "fenced; its history does not show by whom",
        )
        assert seen(first.known).tell == ()
        # The history is back, and has written another second.
        assert seen(first.known, fenced(52)).tell == ()
        assert seen(first.known, fenced(52), fenced(20), off_s=NOW_S - 20).tell == (fenced(20),)
    assert seen(up, fenced(52)).tell == (fenced(52),), "what the history shows says more"


def test_several_that_nobody_saw_are_several_failures():
    proofs = (fenced(300), fenced(200), fenced(100))
    assert look(UP, Seen.LOST, *proofs, off=True).tell == proofs


def test_of_a_host_seen_for_the_first_time_only_the_latest_is_told():
    proofs = (fenced(300), fenced(100), fenced(200))
    verdict = look(None, Seen.LOST, *proofs, off=True)
    assert verdict.tell == (fenced(100),)
    assert len(verdict.known.told) == 3


def test_old_news_of_a_host_that_is_back_is_passed_over_and_says_why():
    verdict = look(UP, Seen.UP, fenced(3601), fenced(3599))
    assert verdict.tell == (fenced(3599),)
    assert verdict.pass_over == (fenced(3601),)
    assert "is up again" in verdict.because
    lasting = look(UP, Seen.LOST, fenced(90_000), off=True)
    assert lasting.tell == (fenced(90_000),), "what lasts is never old"
    kept = look(MAINTENANCE, Seen.MAINTENANCE, fenced())
    assert (kept.pass_over, kept.because) == ((fenced(),), "the host is under maintenance")


def test_since_when_it_is_so_is_kept_while_it_is_so():
    assert look(UP, Seen.UP).known.since_us == (NOW_S - 10) * S
    assert look(UP, Seen.LOST).known.since_us == NOW_S * S
    assert look(LOST, Seen.LOST, fenced(), off=True).known.since_us == NOW_S * S


def test_what_is_shown_is_never_forgotten_and_of_what_is_gone_the_newest_is_kept():
    shown = [fenced(ago_s) for ago_s in range(4000, 4000 + 30 * KEPT_MAX, 10)]
    first = look(None, Seen.UP, *shown)
    assert len(first.known.told) == len(shown)
    again = look(UP, Seen.UP, *shown, told=first.known.told)
    assert (again.tell, again.pass_over) == ((), ()), "a long history is judged once"
    gone = look(UP, Seen.UP, told=first.known.told)
    assert gone.known.told == first.known.told[-KEPT_MAX:]


# --- marks ----------------------------------------------------------------------------------------


def owed(ago_s, within_s=300):
    """Return what a mark says that nothing else shows."""
    return HostFencing(host="h1", at_s=NOW_S - ago_s, proof="m", owed=True, within_s=within_s)


@pytest.mark.parametrize(
    ("before", "seen", "off", "tells"),
    [
        # Nobody has taken it over: neither its age nor that nobody looked before makes it old news.
        (UP, Seen.UP, False, True),
        (None, Seen.UP, False, True),
        (None, Seen.STOPPED, False, True),
        (None, Seen.LOST, True, True),
        (LOST, Seen.LOST, True, True),
        # It may run now, whatever it is marked for.
        (LOST, Seen.LOST, False, False),
        (None, Seen.LOST, False, False),
        (UP, Seen.STARTING, False, False),
        (MAINTENANCE, Seen.MAINTENANCE, False, False),
    ],
)
def test_a_mark_is_told_however_old_it_is_and_never_of_a_host_that_may_run(
    before, seen, off, tells
):
    mark = owed(90_000)
    verdict = look(before, seen, mark, off=off)
    assert verdict.tell == ((mark,) if tells else ())


def test_of_a_host_seen_for_the_first_time_the_marked_failures_are_told_beside_the_latest():
    marked, latest, other = owed(900, 0), fenced(100), fenced(500)
    verdict = look(None, Seen.LOST, marked, latest, other, off=True)
    assert verdict.tell == (marked, latest)
    assert look(None, Seen.UP, marked, latest).tell == (marked,)


def test_a_mark_and_the_fencing_that_it_was_written_in_are_one_failure():
    # It was told by the time of its completion, which the cluster has forgotten since.
    for later_s, new in ((0, False), (300, False), (305, False), (306, True), (-5, False)):
        verdict = look(UP, Seen.UP, owed(1000), told=[NOW_S - 1000 + later_s])
        assert bool(verdict.tell) is new, later_s
    # Fenced again after it, it was marked again.
    assert look(UP, Seen.UP, owed(1000), told=[NOW_S - 1006]).tell
    assert is_judged(owed(1000), [NOW_S - 900])
    assert not is_judged(fenced(1000), [NOW_S - 900]), "of others the times are exact"


def test_a_host_that_is_off_by_a_fencing_without_a_time_failed_when_it_was_lost():
    """A mark says that it was fenced, and not when, and the cluster remembers nothing."""
    since = look(LOST, Seen.LOST, since_s=50, off=True)
    assert [f.at_s for f in since.tell] == [NOW_S - 50]
    first = look(UP, Seen.LOST, since_s=5000, off=True)
    assert [f.at_s for f in first.tell] == [NOW_S], "it was up until now"
    assert [f.at_s for f in look(None, Seen.LOST, off=True).tell] == [NOW_S]
    sighting = HostSighting(host="h1", seen=Seen.LOST, why="", off=True)
    for known in (since.known, first.known):
        later = judge(known, sighting, (), (NOW_S + 90) * S, PATIENCE)
        assert (later.tell, later.known.state) == ((), FENCED), "told once"
    # What the history showed at the look before was told with its own time.
    before = look(UP, Seen.UP, fenced(2), since_s=500).known
    assert judge(before, sighting, (), (NOW_S + 5) * S, PATIENCE).tell == ()


@pytest.mark.parametrize("before", [None, UP, LOST, UNFENCED])
@pytest.mark.parametrize("off_s", [None, NOW_S - 5])
def test_of_a_host_that_somebody_only_says_is_off_nobody_is_told(before, off_s):
    """It is off by that word, and whoever gave it tells of the failure."""
    known = None if before is None else KnownHost(state=before, since_us=1, told=())
    sighting = HostSighting(
        host="h1", seen=Seen.LOST, why="somebody says so", off=True, off_s=off_s, word=True
    )
    verdict = judge(known, sighting, (), NOW_S * S, PATIENCE)
    assert (verdict.known.state, verdict.tell, verdict.known.told) == (FENCED, (), ())


@pytest.mark.parametrize(
    ("before", "since_s", "ago_s", "tells"),
    [
        # It was lost all the time: however late it is back, its failure is no old story.
        (LOST, 5000, 4900, True),
        (UNFENCED, 5000, 5004, True),
        (UNFENCED, 5000, 5006, False),
        (UP, 5000, 4900, False),
    ],
)
def test_what_ends_a_loss_that_was_seen_is_told_however_late(before, since_s, ago_s, tells):
    verdict = look(before, Seen.UP, fenced(ago_s), since_s=since_s)
    assert bool(verdict.tell) is tells
    assert bool(verdict.pass_over) is not tells


def test_of_a_host_that_was_proved_off_a_start_anew_is_no_second_failure():
    start = replace(fenced(), restart=True)
    assert look(FENCED, Seen.UP, start).tell == ()
    assert look(FENCED, Seen.UP, start).known.told == (start.at_s,), "judged for good"
    for before in (UP, LOST, UNFENCED, STOPPED):
        assert look(before, Seen.UP, start).tell == (start,)
    assert look(FENCED, Seen.UP, fenced()).tell, "another fencing is"
