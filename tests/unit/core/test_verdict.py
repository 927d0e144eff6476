"""Observations become health: counts, votes, grace, staleness, resettling, marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.core.build import (
    MODES,
    SECOND,
    STATUS,
    T0,
    URL,
    detection,
    feed,
    memory,
    observation,
)

from yaffle.core.health.staleness import check_budget_us, stale_after_us, voting
from yaffle.core.health.verdict import (
    Belief,
    NodeMemory,
    Track,
    Vote,
    aged,
    conclude,
    in_grace,
    observe,
    resettle,
    restart,
    set_mark,
    verified,
    vote,
)
from yaffle.model.health import Health, Mark
from yaffle.model.ids import ModeKey
from yaffle.model.policy import Conditional, Detection, DetectionMode, ModeType, UrlOptions

ANY, ALL = Conditional.ANY_FAILED, Conditional.ALL_FAILED
P, U, D, N = Belief.PENDING, Belief.UP, Belief.DOWN, Belief.UNKNOWN
MARK = Mark(reason="it smells", by="ann", at_us=T0)
LETTERS = {"p": "pass", "w": "warn", "f": "fail", "u": "unknown"}


def story(letters: str) -> list[str]:
    return [LETTERS[letter] for letter in letters]


def track(seen: NodeMemory, mode: ModeKey = STATUS) -> Track:
    return seen.tracks[mode]


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "belief", "health"),
    [
        pytest.param("p", P, "initializing", id="one-pass-is-not-risen"),
        pytest.param("pp", U, "healthy", id="risen"),
        pytest.param("pw", U, "healthy", id="warn-counts-as-pass"),
        pytest.param("ff", P, "initializing", id="two-fails-are-not-fallen"),
        pytest.param("fff", D, "unhealthy", id="fallen"),
        pytest.param("ffpff", P, "initializing", id="a-pass-starts-the-fails-again"),
        pytest.param("pfp", P, "initializing", id="a-fail-starts-the-passes-again"),
        pytest.param("pfpfpfpf", P, "initializing", id="flapping-never-settles"),
        pytest.param("ppf", U, "suspect", id="one-fail-is-doubt"),
        pytest.param("ppff", U, "suspect", id="two-fails-are-doubt"),
        pytest.param("ppfff", D, "unhealthy", id="three-are-a-verdict"),
        pytest.param("ppffp", U, "healthy", id="doubt-is-gone-with-a-pass"),
        pytest.param("fffp", D, "unhealthy", id="one-late-pass-calls-nobody-back"),
        pytest.param("fffpp", U, "healthy", id="it-has-to-rise-again"),
        pytest.param("ffuf", D, "unhealthy", id="an-unknown-neither-counts-nor-resets"),
        pytest.param("pup", U, "healthy", id="nor-for-passes"),
        pytest.param("ffuuf", D, "unhealthy", id="two-unknowns-are-no-news"),
        pytest.param("ffuuuf", N, "initializing", id="three-unknowns-empty-the-counts"),
        pytest.param("ppuu", U, "healthy", id="two-unknowns-keep-the-belief"),
        pytest.param("ppuuu", N, "unknown", id="three-unknowns-are-unknown"),
        pytest.param("uuu", N, "initializing", id="nothing-known-of-a-new-node"),
        pytest.param("fffuuu", N, "unknown", id="old-bad-news-is-no-licence"),
        pytest.param("fffuuuf", N, "suspect", id="fails-again-but-not-long"),
        pytest.param("fffuuuff", N, "suspect", id="fails-again-twice"),
        pytest.param("fffuuufff", D, "unhealthy", id="fallen-afresh"),
        pytest.param("ppuuup", N, "unknown", id="one-pass-after-unknown"),
        pytest.param("ppuuupp", U, "healthy", id="risen-after-unknown"),
        pytest.param("ppupuuu", N, "unknown", id="a-pass-starts-the-unknowns-again"),
        pytest.param("ppupuu", U, "healthy", id="unknowns-must-be-consecutive"),
        pytest.param("fffufu", D, "unhealthy", id="a-fail-starts-the-unknowns-again"),
    ],
)
def test_counts(letters: str, belief: Belief, health: str) -> None:
    after = feed(memory(), story(letters), detection())
    assert (track(after).belief, after.health) == (belief, Health(health))


def test_counts_are_exact() -> None:
    assert track(feed(memory(), story("ppp"), detection())).passes == 3
    fallen = track(feed(memory(), story("pffff"), detection()))
    assert (fallen.passes, fallen.fails, fallen.unknowns) == (0, 4, 0)
    unknown = track(feed(memory(), story("fuu"), detection()))
    assert (unknown.passes, unknown.fails, unknown.unknowns) == (0, 1, 2)
    lost = track(feed(memory(), story("fuuuu"), detection()))
    assert (lost.passes, lost.fails, lost.unknowns) == (0, 0, 4)


@pytest.mark.parametrize(
    ("outcome", "belief", "health"),
    [
        pytest.param("fail", D, "unhealthy", id="one-fail"),
        pytest.param("pass", U, "healthy", id="one-pass"),
        pytest.param("unknown", U, "healthy", id="one-unknown-says-nothing"),
    ],
)
def test_an_authoritative_answer_suffices(outcome: str, belief: Belief, health: str) -> None:
    risen = feed(memory(), story("pp"), detection())
    at_us = T0 + 20 * SECOND
    seen = observation(outcome, at_us, authoritative=True)
    after = observe(risen, seen, detection(), at_us)
    assert (track(after).belief, after.health) == (belief, Health(health))


def test_an_authoritative_fail_still_respects_grace() -> None:
    new = restart(memory(), T0)
    after = observe(new, observation("fail", T0 + 1, authoritative=True), detection(), T0 + 1)
    assert after.health is Health.INITIALIZING


# --- votes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beliefs", "of_any", "of_all"),
    [
        pytest.param((), "unknown", "unknown", id="nobody-votes"),
        pytest.param((U,), "pass", "pass", id="up"),
        pytest.param((D,), "fail", "fail", id="down"),
        pytest.param((N,), "unknown", "unknown", id="unknown"),
        pytest.param((P,), "pending", "pending", id="pending"),
        pytest.param((U, D), "fail", "pass", id="up-down"),
        pytest.param((D, U), "fail", "pass", id="down-up"),
        pytest.param((U, N), "unknown", "pass", id="up-unknown"),
        pytest.param((D, N), "fail", "unknown", id="down-unknown"),
        pytest.param((U, P), "pending", "pass", id="up-pending"),
        pytest.param((D, P), "fail", "pending", id="down-pending"),
        pytest.param((N, P), "pending", "pending", id="unknown-pending"),
        pytest.param((D, D), "fail", "fail", id="both-down"),
        pytest.param((U, U), "pass", "pass", id="both-up"),
        pytest.param((D, D, N), "fail", "unknown", id="all-failed-but-one-unknown"),
        pytest.param((U, D, N), "fail", "pass", id="one-of-each"),
    ],
)
def test_votes(beliefs: tuple[Belief, ...], of_any: str, of_all: str) -> None:
    assert (vote(beliefs, ANY), vote(beliefs, ALL)) == (Vote(of_any), Vote(of_all))


def test_who_listens_asks_by_itself_and_polling_is_no_second_voice() -> None:
    events = DetectionMode(key=ModeKey("2:LIFECYCLE_EVENTS"), type=ModeType.LIFECYCLE_EVENTS)
    how = detection(modes=(MODES[STATUS], MODES[URL], events))
    assert [m.key for m in voting(how)] == [URL, events.key]
    assert [m.key for m in voting(detection(modes=(MODES[STATUS], MODES[URL])))] == [STATUS, URL]


def test_an_event_needs_no_second_reading() -> None:
    events = DetectionMode(key=ModeKey("0:LIFECYCLE_EVENTS"), type=ModeType.LIFECYCLE_EVENTS)
    how = detection(modes=(events,))
    before = memory(health=Health.HEALTHY)
    for outcome, authoritative, health in (
        ("fail", False, Health.HEALTHY),
        ("fail", True, Health.UNHEALTHY),
    ):
        seen = observation(outcome, T0, mode=events.key, authoritative=authoritative)
        believed = observe(before, seen, how, T0).health
        assert (believed is Health.UNHEALTHY) is (health is Health.UNHEALTHY)


def test_nobody_to_ask_is_unknown_not_healthy() -> None:
    after = conclude(memory(health=Health.HEALTHY), detection(modes=()), T0)
    assert (after.health, after.settled) == (Health.UNKNOWN, True)


def two(status: str, url: str, how: Detection, before: NodeMemory | None = None) -> NodeMemory:
    """Feed two modes side by side, so that both end at the same moment."""
    seen, at_us = before or memory(), T0
    length = max(len(status), len(url))
    for pair in zip(status.rjust(length), url.rjust(length), strict=True):
        for letter, mode in zip(pair, (STATUS, URL), strict=True):
            if letter != " ":
                said = observation(LETTERS[letter], at_us, mode=mode)
                seen = observe(seen, said, how, at_us)
        at_us += 10 * SECOND
    return conclude(seen, how, at_us)


@pytest.mark.parametrize(
    ("conditional", "status", "url", "health", "settled", "gray"),
    [
        pytest.param(ANY, "ppp", "fff", "unhealthy", True, True, id="any-one-down"),
        pytest.param(ALL, "ppp", "fff", "healthy", True, True, id="all-one-down-is-gray"),
        pytest.param(ALL, "fff", "fff", "unhealthy", True, False, id="all-both-down"),
        pytest.param(ALL, "fff", "uuu", "initializing", True, False, id="all-with-unknown"),
        pytest.param(ANY, "fff", "uuu", "unhealthy", True, False, id="any-down-with-unknown"),
        pytest.param(ANY, "ppp", "uuu", "initializing", True, False, id="any-up-with-unknown"),
        pytest.param(ANY, "pp", "p", "initializing", False, False, id="any-up-with-pending"),
        pytest.param(ALL, "pp", "p", "healthy", True, False, id="all-up-with-pending"),
        pytest.param(ALL, "fff", "f", "initializing", False, False, id="all-down-with-pending"),
        pytest.param(ANY, "pw", "pp", "healthy", True, True, id="a-warning-is-gray"),
        pytest.param(ANY, "ppf", "ppp", "suspect", True, False, id="any-one-doubtful"),
        pytest.param(ALL, "ppf", "ppp", "healthy", True, False, id="all-one-doubtful"),
        pytest.param(ALL, "ppf", "ppf", "suspect", True, False, id="all-both-doubtful"),
        pytest.param(ALL, "ppfff", "ppf", "suspect", True, False, id="all-one-down-one-doubtful"),
        pytest.param(ALL, "fff", "ppfp", "healthy", True, True, id="all-one-down-one-well-again"),
        pytest.param(ANY, "ppff", "ppuuu", "suspect", True, False, id="failing-while-unknown"),
        pytest.param(ALL, "ppff", "ppuuu", "healthy", True, False, id="up-decides-in-all"),
        pytest.param(ALL, "fff", "uuuf", "initializing", True, False, id="new-and-failing"),
    ],
)
def test_two_modes(
    conditional: Conditional, status: str, url: str, health: str, settled: bool, gray: bool
) -> None:
    after = two(status, url, detection(STATUS, URL, conditional=conditional))
    assert (after.health, after.settled, after.gray) == (Health(health), settled, gray)


def test_a_verdict_that_the_votes_no_longer_bear_is_doubt() -> None:
    """One mode has risen again, the other fails once: no mode is down, so nobody may act."""
    how = detection(STATUS, URL)
    down = two("fff", "ppp", how)
    assert down.health is Health.UNHEALTHY
    at_us = T0 + 40 * SECOND
    for mode, outcome in ((URL, "fail"), (STATUS, "pass"), (STATUS, "pass")):
        down = observe(down, observation(outcome, at_us, mode=mode), how, at_us)
        at_us += SECOND
    assert (down.health, down.settled) == (Health.SUSPECT, True)


# --- staleness ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "budget_s", "stale_s"),
    [
        pytest.param(MODES[STATUS], 10.0, 35.0, id="no-url"),
        pytest.param(MODES[URL], 1.0, 26.0, id="one-attempt"),
        pytest.param(
            replace(MODES[URL], url=UrlOptions(poll_url="x", retry_limit=3, timeout_s=2.0)),
            12.0,
            37.0,
            id="three-attempts-two-pauses",
        ),
        pytest.param(
            replace(MODES[URL], url=UrlOptions(poll_url="x", retry_limit=-1)),
            1.0,
            26.0,
            id="at-least-one-attempt",
        ),
    ],
)
def test_arithmetic_of_staleness(mode: DetectionMode, budget_s: float, stale_s: float) -> None:
    assert check_budget_us(mode, detection().interval_s) == budget_s * SECOND
    assert stale_after_us(mode, detection()) == stale_s * SECOND


STALE = stale_after_us(MODES[STATUS], detection())


@pytest.mark.parametrize(
    ("age_us", "belief", "health"),
    [
        pytest.param(0, D, "unhealthy", id="fresh"),
        pytest.param(STALE, D, "unhealthy", id="just-fresh"),
        pytest.param(STALE + 1, N, "unknown", id="just-stale"),
        pytest.param(-STALE, D, "unhealthy", id="a-little-ahead-of-our-clock"),
        pytest.param(-STALE - 1, N, "unknown", id="from-the-future"),
    ],
)
def test_an_old_answer_is_no_belief(age_us: int, belief: Belief, health: str) -> None:
    down = feed(memory(), story("fff"), detection(), start_us=T0 - 20 * SECOND)
    now_us = T0 + age_us
    assert aged(track(down), STALE, now_us).belief is belief
    assert conclude(down, detection(), now_us).health is Health(health)


def test_a_mode_never_heard_of_has_no_age() -> None:
    assert aged(Track(), STALE, T0).belief is P


@pytest.mark.parametrize("conclude_between", [True, False], ids=["concluded", "not-concluded"])
@pytest.mark.parametrize(
    ("before", "then", "health"),
    [
        pytest.param("ppff", "f", "suspect", id="no-run-across-a-hole"),
        pytest.param("fff", "u", "unknown", id="an-unknown-refreshes-no-old-verdict"),
        pytest.param("fff", "f", "suspect", id="one-fail-renews-no-old-verdict"),
        pytest.param("ppp", "p", "unknown", id="one-pass-renews-no-old-belief"),
        pytest.param("fff", "fff", "unhealthy", id="three-fresh-ones-do"),
        pytest.param("fff", "pp", "healthy", id="two-fresh-passes-do"),
    ],
)
def test_counts_do_not_cross_a_hole(
    before: str, then: str, health: str, conclude_between: bool
) -> None:
    seen = feed(memory(), story(before), detection())
    later = T0 + 3600 * SECOND
    if conclude_between:
        seen = conclude(seen, detection(), later - SECOND)
    after = feed(seen, story(then), detection(), start_us=later)
    # Without a conclusion in between the health is still the old one until the votes are in.
    assert after.health is Health(health)


def test_a_hole_just_short_of_stale_is_none() -> None:
    before = feed(memory(), story("pp"), detection())
    after = feed(before, story("fff"), detection(), start_us=T0 + 45 * SECOND, every_s=35.0)
    assert after.health is Health.UNHEALTHY


def test_a_node_that_nobody_asks_is_not_healthy_for_ever() -> None:
    known = resettle(feed(memory(), story("pp"), detection()))
    waiting = conclude(known, detection(), T0)
    assert (waiting.health, waiting.settled) == (Health.HEALTHY, False)
    still = conclude(waiting, detection(), T0 + STALE)
    assert (still.health, still.settled) == (Health.HEALTHY, False)
    lost = conclude(still, detection(), T0 + STALE + 1)
    assert (lost.health, lost.settled) == (Health.UNKNOWN, True)
    assert conclude(lost, detection(), T0 + 2 * STALE).health is Health.UNKNOWN
    assert feed(lost, story("fff"), detection()).health is Health.UNHEALTHY
    assert resettle(lost).unheard_us is None
    assert restart(lost, T0).unheard_us is None


def test_the_wait_for_a_first_answer_ends_with_it() -> None:
    waiting = conclude(memory(), detection(), T0)
    assert waiting.unheard_us == T0
    assert conclude(waiting, detection(), T0 - SECOND).unheard_us == T0 - SECOND
    assert feed(waiting, story("p"), detection()).unheard_us is None


def test_an_overtaken_answer_is_dropped() -> None:
    before = feed(memory(), story("pp"), detection())
    late = observation("fail", T0 + 9 * SECOND)
    assert observe(before, late, detection(), T0 + 11 * SECOND) is before


def test_the_same_moment_is_not_overtaken() -> None:
    before = feed(memory(), story("pp"), detection())
    same = observation("fail", T0 + 10 * SECOND)
    assert track(observe(before, same, detection(), T0 + 10 * SECOND)).fails == 1


@pytest.mark.parametrize(
    ("back_s", "kept"),
    [
        pytest.param(5, True, id="a-small-step-waits"),
        pytest.param(35, True, id="as-long-as-an-answer-is-fresh"),
        pytest.param(36, False, id="a-large-step-starts-afresh"),
        pytest.param(3600, False, id="an-hour"),
    ],
)
def test_a_clock_set_back_does_not_deafen(back_s: int, kept: bool) -> None:
    before = feed(memory(), story("pp"), detection())
    now_us = T0 + (10 - back_s) * SECOND
    after = observe(before, observation("fail", now_us), detection(), now_us)
    assert (after is before) is kept
    if not kept:
        assert (track(after).fails, track(after).belief) == (1, N)


def test_a_backlog_of_old_answers_is_no_verdict() -> None:
    how, now_us = detection(), T0 + 3600 * SECOND
    seen = feed(memory(), story("pp"), how)
    for i in range(4):
        seen = observe(seen, observation("fail", T0 + (20 + 10 * i) * SECOND), how, now_us)
    assert seen.health is Health.UNKNOWN


def test_a_mode_that_the_policy_lacks_changes_nothing() -> None:
    before = feed(memory(), story("pp"), detection())
    assert observe(before, observation("fail", T0, mode=URL), detection(), T0) is before


def test_tracks_of_a_vanished_mode_are_dropped() -> None:
    down = two("ppp", "fff", detection(STATUS, URL))
    assert down.health is Health.UNHEALTHY
    after = conclude(down, detection(STATUS), T0 + 30 * SECOND)
    assert (after.health, set(after.tracks), after.gray) == (Health.HEALTHY, {STATUS}, False)


# --- grace ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("early", "letters", "every_s", "health"),
    [
        pytest.param(False, "ffffff", 10, "initializing", id="full-grace-protects"),
        pytest.param(True, "ffffff", 10, "initializing", id="early-grace-protects-who-never-rose"),
        pytest.param(False, "ppfff", 10, "suspect", id="full-grace-outlasts-a-rise"),
        pytest.param(True, "ppfff", 10, "unhealthy", id="early-grace-ends-with-the-rise"),
        pytest.param(True, "pfffff", 10, "initializing", id="one-pass-does-not-end-it"),
        pytest.param(False, "fffffff", 10, "unhealthy", id="over-at-60s"),
        pytest.param(False, "pppppppfff", 10, "unhealthy", id="long-after"),
    ],
)
def test_grace(early: bool, letters: str, every_s: int, health: str) -> None:
    how = detection(grace_ends_early=early)
    after = feed(restart(memory(), T0), story(letters), how, every_s=every_s)
    assert after.health is Health(health)


@pytest.mark.parametrize(
    ("grace_us", "age_s", "protected"),
    [
        pytest.param(None, 0, False, id="none"),
        pytest.param(T0, 0, True, id="begins"),
        pytest.param(T0, 59.999999, True, id="just-inside"),
        pytest.param(T0, 60, False, id="over"),
        pytest.param(T0, -3600, True, id="clock-set-back"),
    ],
)
def test_in_grace(grace_us: int | None, age_s: float, protected: bool) -> None:
    now_us = T0 + int(age_s * SECOND)
    assert in_grace(memory(grace_us=grace_us), detection(), now_us) is protected


def test_a_clock_set_back_lets_grace_begin_again_once() -> None:
    new = restart(memory(), T0)
    back = conclude(new, detection(), T0 - 3600 * SECOND)
    assert back.grace_us == T0 - 3600 * SECOND
    assert conclude(back, detection(), T0 - 3541 * SECOND).grace_us == T0 - 3600 * SECOND
    assert conclude(back, detection(), T0 - 3540 * SECOND).grace_us is None
    assert observe(new, observation("fail", T0 - 60), detection(), T0 - 60).tracks


def test_an_answer_about_the_former_copy_is_dropped() -> None:
    new = restart(feed(memory(), story("fff"), detection()), T0 + 60 * SECOND)
    asked_before = observation("pass", T0 + 61 * SECOND, took_us=2 * SECOND)
    assert observe(new, asked_before, detection(), T0 + 61 * SECOND) is new
    at_once = observation("pass", T0 + 60 * SECOND, took_us=1)
    assert observe(new, at_once, detection(), T0 + 60 * SECOND) is new
    asked_after = replace(asked_before, took_us=SECOND)
    assert observe(new, asked_after, detection(), T0 + 61 * SECOND).tracks


def test_restart_forgets_all_but_the_mark() -> None:
    old = feed(memory(mark=MARK, gray=True, since_us=1), story("fff"), detection())
    new = restart(old, T0 + SECOND)
    assert new == memory(
        health=Health.INITIALIZING, since_us=T0 + SECOND, grace_us=T0 + SECOND, mark=MARK
    )


# --- resettling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "health", "settled"),
    [
        pytest.param("", "unhealthy", False, id="the-verdict-stands-unsettled"),
        pytest.param("f", "unhealthy", False, id="one-fail"),
        pytest.param("ff", "unhealthy", False, id="two-fails"),
        pytest.param("fff", "unhealthy", True, id="three-fails-settle"),
        pytest.param("p", "unhealthy", False, id="one-pass"),
        pytest.param("pp", "healthy", True, id="risen"),
        pytest.param("uuu", "unknown", True, id="cannot-ask"),
    ],
)
def test_resettle_an_unhealthy_node(letters: str, health: str, settled: bool) -> None:
    again = resettle(feed(memory(), story("fff"), detection()))
    assert (again.health, again.settled, dict(again.tracks)) == (Health.UNHEALTHY, False, {})
    after = feed(again, story(letters), detection(), start_us=T0 + 40 * SECOND)
    assert (after.health, after.settled) == (Health(health), settled)


def test_resettle_keeps_the_grace_that_was_stored() -> None:
    assert resettle(restart(memory(), T0)).grace_us == T0


# --- marks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", ["", "p", "pp", "fff", "uuu"])
def test_a_mark_outvotes_everything(letters: str) -> None:
    marked = set_mark(feed(memory(), story(letters), detection()), MARK, detection(), T0)
    assert marked.health is Health.UNHEALTHY
    after = feed(marked, story("pppp"), detection(), start_us=T0 + 40 * SECOND)
    assert (after.health, after.mark) == (Health.UNHEALTHY, MARK)


@pytest.mark.parametrize(
    ("start", "letters", "health"),
    [
        pytest.param(memory(), "pp", "healthy", id="well"),
        pytest.param(memory(), "fff", "unhealthy", id="sick-anyway"),
        pytest.param(memory(), "uuu", "unknown", id="cannot-ask"),
        pytest.param(memory(), "", "unknown", id="nothing-known"),
        pytest.param(memory(), "f", "suspect", id="failing-pending"),
        pytest.param(restart(memory(), T0 - SECOND), "fff", "initializing", id="failing-in-grace"),
        pytest.param(restart(memory(), T0 - SECOND), "", "initializing", id="new-in-grace"),
        pytest.param(restart(memory(), T0 - SECOND), "pp", "healthy", id="well-in-grace"),
    ],
)
def test_a_lifted_mark_leaves_nothing_behind(start: NodeMemory, letters: str, health: str) -> None:
    marked = feed(set_mark(start, MARK, detection(), T0), story(letters), detection())
    assert marked.health is Health.UNHEALTHY
    lifted = set_mark(marked, None, detection(), T0 + 20 * SECOND)
    assert (lifted.health, lifted.mark) == (Health(health), None)


def test_lifting_no_mark_changes_nothing() -> None:
    before = feed(memory(), story("fff"), detection())
    assert set_mark(before, None, detection(), T0 + 20 * SECOND) == before
    unsettled = resettle(before)
    again = set_mark(unsettled, None, detection(), T0 + 20 * SECOND)
    assert (again.health, again.settled) == (Health.UNHEALTHY, False)


def test_a_node_sick_before_during_and_after_its_mark_is_sick_since_the_first() -> None:
    sick = feed(memory(), story("fff"), detection())
    marked = set_mark(sick, MARK, detection(), T0 + 21 * SECOND)
    lifted = set_mark(marked, None, detection(), T0 + 22 * SECOND)
    assert lifted.since_us == marked.since_us == sick.since_us == T0 + 20 * SECOND
    assert set_mark(memory(), MARK, detection(), T0).since_us == T0


# --- what is remembered beside ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "since_s", "first_fail_s"),
    [
        pytest.param("pp", 10, None, id="healthy"),
        pytest.param("ppp", 10, None, id="since-does-not-move"),
        pytest.param("ppf", 20, 20, id="suspect"),
        pytest.param("ppfff", 40, 20, id="unhealthy-first-fail-earlier"),
        pytest.param("ppfffpp", 60, None, id="healthy-again"),
    ],
)
def test_since_and_first_fail(letters: str, since_s: int, first_fail_s: int | None) -> None:
    after = feed(memory(), story(letters), detection())
    assert after.since_us == T0 + since_s * SECOND
    expected = None if first_fail_s is None else T0 + first_fail_s * SECOND
    assert after.first_fail_us == expected


@pytest.mark.parametrize("rise", [1, 2, 5])
@pytest.mark.parametrize("fall", [1, 2, 5])
def test_rise_and_fall_are_what_the_policy_says(rise: int, fall: int) -> None:
    how = detection(rise=rise, fall=fall)
    healths: Callable[[Any], Health] = lambda letters: feed(memory(), story(letters), how).health  # noqa: E731
    assert healths("p" * (rise - 1)) is Health.INITIALIZING
    assert healths("p" * rise) is Health.HEALTHY
    assert healths("p" * rise + "f" * fall) is Health.UNHEALTHY
    if fall > 1:
        assert healths("p" * rise + "f" * (fall - 1)) is Health.SUSPECT


def test_a_new_life_is_not_gray() -> None:
    assert not restart(two("ppp", "fff", detection(STATUS, URL)), T0).gray


def test_a_node_of_which_nothing_is_known() -> None:
    assert memory() == memory(health=Health.INITIALIZING, since_us=0, settled=False, gray=False)


# --- what a recovery has verified -----------------------------------------------------------------


def test_what_was_asked_before_a_recovery_verified_it_votes_no_more() -> None:
    once = detection(fall=1)
    at_us = T0 + 10 * SECOND
    sick = observe(memory(), observation("fail", T0), once, T0)
    assert sick.health is Health.UNHEALTHY
    well = verified(sick, at_us)
    assert (well.health, well.settled, well.first_fail_us) == (Health.HEALTHY, False, None)
    for late in (well, resettle(well)):
        old = observation("fail", at_us + SECOND, took_us=2 * SECOND)
        assert observe(late, old, once, at_us + SECOND) is late
        fresh = observation("fail", at_us + 2 * SECOND, took_us=SECOND)
        assert observe(late, fresh, once, at_us + 2 * SECOND).health is Health.UNHEALTHY
