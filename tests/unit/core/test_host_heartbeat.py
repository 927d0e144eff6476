"""A host is lost when two places miss it that hear the others; silence of all is nobody's end."""

from __future__ import annotations

import pytest

from yaffle.core.health.host_heartbeat import HeartbeatPatience, judge_heartbeats
from yaffle.model.host_heartbeat import HeardHost, VantagePoint
from yaffle.model.host_state import HostReport, MonitorBlind, Seen

NOW_US = 2_000_000_000_000_000
TERMS = HeartbeatPatience()


def heard(silent_s=1.0, beats=9, boot="b1", uptime_s=1000.0, **more):
    return HeardHost(boot=boot, silent_s=silent_s, beats=beats, uptime_s=uptime_s, **more)


WELL, SILENT = heard(), heard(silent_s=40.0)


def point(name, hosts, *, ago_s=2.0, listening_s=500.0, every_s=5.0):
    at_us = NOW_US - int(ago_s * 1e6)
    return VantagePoint(
        name=name, at_us=at_us, every_s=every_s, listening_s=listening_s, hosts=hosts
    )


def judged(*points):
    report = judge_heartbeats(points, NOW_US, TERMS)
    assert isinstance(report, HostReport), report
    return report


def how(host, *points):
    """Return how a host is seen; None where that is not known."""
    report = judged(*points)
    (one,) = [s.seen for s in report.sightings if s.host == host] or [None]
    assert (one is None) == (host in report.unknown)
    return one


@pytest.mark.parametrize(
    ("at_a", "at_b", "seen"),
    [
        (WELL, WELL, Seen.UP),
        # Whoever hears it is right.
        (WELL, SILENT, Seen.UP),
        (SILENT, WELL, Seen.UP),
        (SILENT, SILENT, Seen.LOST),
        # Who has never heard of it does not miss it.
        (SILENT, None, None),
        (heard(beats=2), SILENT, Seen.STARTING),
        (heard(beats=2), heard(beats=3), Seen.UP),
        (heard(silent_s=14.9), SILENT, Seen.UP),
        (heard(silent_s=15.0), SILENT, Seen.LOST),
        # Shut down: the goodbye counts, if it was the last word.
        (heard(silent_s=40, goodbye=True), SILENT, Seen.STOPPED),
        (heard(silent_s=40, goodbye=True, uptime_s=900), SILENT, Seen.LOST),
        (heard(silent_s=40, goodbye=True), heard(), Seen.UP),
        (heard(silent_s=90, goodbye=True), heard(silent_s=40, boot="b2", uptime_s=30), Seen.LOST),
        # Its agent died, and the host was there to say so; one connection alone is no such word.
        (heard(silent_s=40, closed=True), heard(silent_s=40, closed=True), None),
        (heard(silent_s=40, closed=True), SILENT, Seen.LOST),
        (heard(silent_s=40, closed=True), heard(silent_s=900, uptime_s=140), None),
        (heard(silent_s=40, closed=True, uptime_s=989), SILENT, Seen.LOST),
        # It calls, and is not heard: a certificate that has expired is nobody's end.
        (heard(silent_s=40, refused="expired"), SILENT, None),
        (heard(silent_s=40, goodbye=True, refused="expired"), SILENT, None),
        (heard(silent_s=40, refused="expired"), WELL, Seen.UP),
        # Its heartbeats are far apart.
        (heard(silent_s=29, every_s=10), heard(silent_s=31, every_s=10), Seen.UP),
        (heard(silent_s=31, every_s=10), heard(silent_s=31, every_s=10), Seen.LOST),
    ],
)
def test_how_a_host_is_that_two_places_hear_of(at_a, at_b, seen):
    others = {"h2": WELL, "h3": WELL}
    points = [
        point(name, others if one is None else {"h1": one, **others})
        for name, one in (("a", at_a), ("b", at_b))
    ]
    assert how("h1", *points) is seen
    assert how("h2", *points) is Seen.UP


MISSING = {"h1": SILENT, "h2": WELL, "h3": WELL}


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        (point("b", MISSING), Seen.LOST),
        (point("b", MISSING, ago_s=-3), Seen.LOST),
        # It stored that too long ago.
        (point("b", MISSING, ago_s=25), None),
        (point("b", MISSING, ago_s=25, every_s=9), Seen.LOST),
        (point("b", MISSING, ago_s=46, every_s=1000), None),
        (point("b", MISSING, ago_s=-25), None),
        # It has just begun to listen.
        (point("b", MISSING, listening_s=34), None),
        (point("b", MISSING, listening_s=35), Seen.LOST),
        # It is cut off itself: it hears nobody, or less than half of whom the other hears.
        (point("b", {"h1": SILENT, "h2": SILENT, "h3": SILENT}), None),
        (point("b", {"h1": SILENT, "h2": SILENT, "h3": WELL}), Seen.LOST),
        (point("b", {"h1": SILENT, "h2": SILENT, "h3": SILENT, "h4": WELL}), None),
        # It does not miss whom it has never heard of, and is not cut off for that.
        (point("b", {"h1": SILENT, "h2": WELL}), Seen.LOST),
        # The same place twice is one.
        (None, None),
    ],
)
def test_two_places_have_to_miss_it_that_are_not_cut_off_themselves(other, seen):
    points = [point("a", MISSING), *([other] if other is not None else [])]
    assert how("h1", *points) is seen
    assert how("h2", *points) is Seen.UP


def test_where_nobody_hears_anything_nothing_is_known():
    silent = {"h1": SILENT, "h2": SILENT}
    for points in ([], [point("a", silent), point("b", silent)], [point("a", MISSING, ago_s=99)]):
        assert isinstance(judge_heartbeats(points, NOW_US, TERMS), MonitorBlind)


def test_where_all_were_shut_down_that_is_what_they_are():
    gone = {"h1": heard(silent_s=40, goodbye=True), "h2": heard(silent_s=40, goodbye=True)}
    report = judged(point("a", gone))
    assert [s.seen for s in report.sightings] == [Seen.STOPPED, Seen.STOPPED]
    silent = [point("a", {**gone, "h3": SILENT}), point("b", {**gone, "h3": SILENT})]
    assert isinstance(judge_heartbeats(silent, NOW_US, TERMS), MonitorBlind)


def test_a_third_place_that_hears_it_is_right():
    points = [point(name, MISSING) for name in "ab"]
    assert how("h1", *points, point("c", {**MISSING, "h1": WELL})) is Seen.UP
    assert how("h1", *points, point("c", {**MISSING, "h1": WELL}, listening_s=1)) is Seen.UP
    assert how("h1", *points, point("c", {"h1": WELL}, ago_s=99)) is Seen.LOST, "an old word"


def test_why_is_said_and_does_not_change_with_every_second():
    def why(silent_s):
        hosts = {
            "h1": heard(silent_s=30 + silent_s),
            "h2": heard(silent_s=silent_s),
            "h3": heard(silent_s=silent_s, disk_s=100 + silent_s, ahead_s=-61.0 - silent_s),
        }
        return [(s.host, s.why) for s in judged(point("a", hosts), point("b", hosts)).sightings]

    assert why(1.0) == why(3.0) == [
        ("h1", "no heartbeat has reached a, b for over 15 s"),
        ("h2", "heartbeats reach a, b"),
        ("h3", "heartbeats reach a, b; its disk takes no writes; its clock is behind ours"),
    ]  # fmt: skip


@pytest.mark.parametrize(("days", "said"), [(13.9, True), (14.1, False), (-1, True)])
def test_a_certificate_that_ends_soon_is_said_to(days, said):
    expires_s = NOW_US / 1e6 + days * 86_400
    (one, *_) = judged(point("a", {"h1": heard(expires_s=expires_s)})).sightings
    assert ("its certificate ends on 2033-" in one.why) is said
    (unknown, *_) = judged(point("a", {"h1": heard(expires_s=0.0)})).sightings
    assert "certificate" not in unknown.why


def test_where_a_host_would_not_be_missed_that_is_said_of_it_and_of_the_monitor():
    alone = judged(point("a", {"h1": WELL, "h2": WELL}))
    assert alone.sightings[0].why == (
        "heartbeats reach a; a would miss it, and that takes 2 vantage points"
    )
    assert alone.fault == "fewer than 2 vantage points would miss h1, h2"
    # The second has never heard of one of them, or has just begun to listen.
    second = judged(point("a", {"h1": WELL, "h2": WELL}), point("b", {"h2": WELL}))
    assert [("would miss it" in s.why) for s in second.sightings] == [True, False]
    assert second.fault == "fewer than 2 vantage points would miss h1"
    young = judged(point("a", {"h1": WELL}), point("b", {"h1": WELL}, listening_s=1))
    assert young.fault
    both = judged(point("a", {"h1": WELL}), point("b", {"h1": WELL}))
    assert (both.fault, both.sightings[0].why) == ("", "heartbeats reach a, b")
    gone = heard(silent_s=40, goodbye=True)
    assert judged(point("a", {"h1": gone})).fault == "", "nobody has to miss it"


def test_a_start_without_a_goodbye_is_one_proof_whoever_tells_of_it():
    first = heard(boot="b2", restarts={"b2": 1_700_000_000})
    second = heard(boot="b2", restarts={"b2": 1_700_000_007, "b1": 1_600_000_000})
    found = judged(point("a", {"h1": first}), point("b", {"h1": second})).fencings
    assert sorted((f.at_s, f.restart) for f in found) == [
        (1_600_000_000, True),
        (1_700_000_000, True),
    ]
    assert "2023-11-14T22:13:20" in max(found, key=lambda f: f.at_s).proof


NOW_S = NOW_US // 1_000_000
ANEW = heard(boot="b2", uptime_s=20.0, restarts={"b2": NOW_S - 22})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (heard(boot="b2", uptime_s=20.0), True),
        (heard(boot="b2", uptime_s=20.0, cleaned="b2"), False),
        (heard(boot="b2", uptime_s=20.0, cleaned="b1"), True),
        # It has heard the goodbye, and not yet the boot after it.
        (heard(silent_s=60, goodbye=True), False),
        (heard(silent_s=60), True),
        # That goodbye came long before, or after.
        (heard(silent_s=1500, goodbye=True), True),
        (heard(silent_s=1, goodbye=True), True),
    ],
)
def test_whoever_has_heard_the_goodbye_makes_a_start_no_failure(other, told):
    found = judged(point("a", {"h1": ANEW, "h2": WELL}), point("b", {"h1": other})).fencings
    assert bool(found) is told
