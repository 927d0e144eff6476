"""The verdict: observations to a node's health, by votes, rise and fall, grace, resettling, marks.

Each detection mode has a *track* with its own counters, so that two modes of different pace never
count for each other. A track that has risen or fallen holds a belief; the beliefs vote by
three-valued logic (ANY_FAILED is OR, ALL_FAILED is AND, and unknown stays unknown unless the others
decide without it). Grace turns a failing vote into doubt. A user's mark outvotes everything.

After blindness the tracks are emptied (`resettle`) while health and grace keep their values: a
verdict then rests on fresh observations only, and until it does the node is not `settled`, which
the planner takes as a reason to hold (design/failure#health). A track that nobody fed for too long,
or whose last answer lies in the future of a clock that was set back, is emptied in the same way:
counts are consecutive only where no hole lies between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

from yaffle.core.health.staleness import freshness
from yaffle.core.health.transitions import HealthEvent, move
from yaffle.model.health import Health, Outcome
from yaffle.model.policy import Conditional

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.model.health import Mark, Observation
    from yaffle.model.ids import ModeKey, NodeId
    from yaffle.model.policy import Detection

SECOND: Final = 1_000_000


class Belief(StrEnum):
    """The verdict of one mode, after `rise` and `fall`."""

    PENDING = "pending"
    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


class Vote(StrEnum):
    """The verdict of all modes together."""

    PENDING = "pending"
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One mode's consecutive counts. An unknown neither passes nor fails, and changes no count."""

    belief: Belief = Belief.PENDING
    passes: int = 0
    fails: int = 0
    unknowns: int = 0
    fell: int = 0
    """How many failures in a row it took to believe it down: `fall` as it was then, or 1 of an
    authoritative one, or once a pass that was not enough has interrupted them; 0 unless it is down."""
    last: Observation | None = None


EMPTY: Final = Track()
UNSEEN: Final[Mapping[ModeKey, Track]] = MappingProxyType({})
STALE: Final = Track(belief=Belief.UNKNOWN)
"""A track whose last observation counts no more, neither for a verdict nor as a sign of life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMemory:
    """The health state of one node: all that is kept between observations."""

    node_id: NodeId
    health: Health = Health.INITIALIZING
    since_us: int = 0
    """When `health` began."""
    tracks: Mapping[ModeKey, Track] = field(default_factory=lambda: UNSEEN)
    grace_us: int | None = None
    """When the present grace began; None once it is over."""
    settled: bool = False
    """Whether the votes since the last blindness suffice for a verdict."""
    gray: bool = False
    """The sources disagree, or one of them warns."""
    mark: Mark | None = None
    first_fail_us: int | None = None
    """First failing observation of the present run of failures."""
    unheard_us: int | None = None
    """Since when some mode has not been heard of at all; None while all have been."""
    verified_us: int | None = None
    """When a recovery found it well; None once every mode has been asked since then."""


def count(track: Track, seen: Observation, detection: Detection) -> Track:
    """Return the track after one more observation."""
    match seen.outcome:
        case Outcome.PASS | Outcome.WARN:
            passes = track.passes + 1
            risen = passes >= detection.rise or seen.authoritative
            if risen:
                return Track(belief=Belief.UP, passes=passes, last=seen)
            # It is down still: the failures after this pass need not be as many again.
            return Track(belief=track.belief, passes=passes, fell=min(track.fell, 1), last=seen)
        case Outcome.FAIL:
            fails = track.fails + 1
            fallen = fails >= detection.fall or seen.authoritative
            if fallen:
                fell = 1 if seen.authoritative else detection.fall
                return Track(belief=Belief.DOWN, fails=fails, fell=fell, last=seen)
            return Track(belief=track.belief, fails=fails, fell=track.fell, last=seen)
        case Outcome.UNKNOWN:
            unknowns = track.unknowns + 1
            if unknowns >= detection.fall:
                return Track(belief=Belief.UNKNOWN, unknowns=unknowns, last=seen)
            return replace(track, unknowns=unknowns, last=seen)
        case _:
            assert_never(seen.outcome)


def aged(track: Track, stale_us: int, now_us: int) -> Track:
    """Return the track as it counts now: one whose observation is too old, or of the future, is emptied.

    Its counts go with it, so that a single answer after a hole never completes a run from before.
    `stale_us`: the age at which an observation of this mode stops counting.
    """
    if track.last is None:
        return track
    if abs(now_us - track.last.at_us) <= stale_us:
        return track
    return STALE


def vote(beliefs: tuple[Belief, ...], conditional: Conditional) -> Vote:
    """Combine beliefs by three-valued OR (ANY_FAILED) or AND (ALL_FAILED); no belief is unknown.

    What is pending or unknown decides only where the others leave it open.
    """
    if not beliefs:
        return Vote.UNKNOWN
    decisive, otherwise = (
        (Belief.DOWN, Belief.UP)
        if conditional is Conditional.ANY_FAILED
        else (Belief.UP, Belief.DOWN)
    )
    verdict = {Belief.DOWN: Vote.FAIL, Belief.UP: Vote.PASS}
    if decisive in beliefs:
        return verdict[decisive]
    if Belief.PENDING in beliefs:
        return Vote.PENDING
    if Belief.UNKNOWN in beliefs:
        return Vote.UNKNOWN
    return verdict[otherwise]


def in_grace(memory: NodeMemory, detection: Detection, now_us: int) -> bool:
    """Whether the node is still protected after its last life-cycle change.

    A start in the future means that the clock was set back: protected, and `conclude` lets the
    grace begin again, so that it neither ends at once nor lasts until the clock has caught up.
    """
    if memory.grace_us is None:
        return False
    return now_us - memory.grace_us < detection.node_update_timeout_s * SECOND


def observe(memory: NodeMemory, seen: Observation, detection: Detection, now_us: int) -> NodeMemory:
    """Return the state after one observation; one of a mode that the policy lacks changes nothing."""
    stale = freshness(detection)
    stale_us = stale.get(seen.mode)
    if stale_us is None:
        return memory
    if (steady := _steady(memory, seen, stale, now_us)) is not None:
        return steady
    asked_us = seen.at_us - seen.took_us
    if memory.grace_us is not None and asked_us < memory.grace_us <= now_us:
        return memory  # asked before the present life began: the answer is about the copy before
    if memory.verified_us is not None and asked_us < memory.verified_us <= now_us:
        return memory  # it is of the failure that has been dealt with
    before = memory.tracks.get(seen.mode, EMPTY)
    if before.last is not None:
        if seen.at_us < before.last.at_us <= now_us + stale_us:
            return memory  # an answer that was overtaken by a later one
        before = aged(before, stale_us, seen.at_us)
    tracks = {**memory.tracks, seen.mode: count(before, seen, detection)}
    first_fail = memory.first_fail_us
    if seen.outcome is Outcome.FAIL and first_fail is None:
        first_fail = seen.at_us
    return _concluded(memory, tracks, first_fail, detection, now_us)


def _steady(
    memory: NodeMemory, seen: Observation, stale: Mapping[ModeKey, int], now_us: int
) -> NodeMemory | None:
    """Return the state after one more pass of a healthy node, None where the full computation is needed.

    It is what counting and concluding come to, at a fraction of their cost: of a hundred thousand
    nodes nearly all are so at any moment. Whatever could change a verdict is left to the long way.
    """
    if (
        seen.outcome is not Outcome.PASS
        or memory.health is not Health.HEALTHY
        or memory.gray
        or not memory.settled
        or memory.mark is not None
        or memory.grace_us is not None
        or memory.first_fail_us is not None
        or memory.unheard_us is not None
        or len(memory.tracks) != len(stale)
    ):
        return None
    for key, track in memory.tracks.items():
        last, stale_us = track.last, stale.get(key)
        if last is None or stale_us is None or track.belief is not Belief.UP or track.fails:
            return None
        at_us = last.at_us
        if key == seen.mode:
            if not 0 <= seen.at_us - at_us <= stale_us:
                return None
            at_us = seen.at_us
        if abs(now_us - at_us) > stale_us or last.outcome is Outcome.WARN:
            return None
    passes = memory.tracks[seen.mode].passes + 1
    mine = Track(belief=Belief.UP, passes=passes, last=seen)
    return NodeMemory(
        node_id=memory.node_id,
        health=Health.HEALTHY,
        since_us=memory.since_us,
        tracks=MappingProxyType({**memory.tracks, seen.mode: mine}),
        settled=True,
    )


def conclude(memory: NodeMemory, detection: Detection, now_us: int) -> NodeMemory:
    """Return the state with health, grace, gray and settled as the tracks now say.

    Also to be called when only time has passed: observations grow stale and grace ends
    (`core.health.check_deadlines` says when). Tracks of modes that the policy no longer has are dropped.
    """
    return _concluded(memory, memory.tracks, memory.first_fail_us, detection, now_us)


def _concluded(
    memory: NodeMemory,
    known: Mapping[ModeKey, Track],
    first_fail_us: int | None,
    detection: Detection,
    now_us: int,
) -> NodeMemory:
    """Conclude as if `memory` had these tracks and this first failure."""
    stale = freshness(detection)
    held = {k: aged(known.get(k, EMPTY), old_us, now_us) for k, old_us in stale.items()}
    tracks = tuple(held.values())
    beliefs = _heard(memory, tracks, tuple(stale.values()), now_us)
    result = vote(beliefs, detection.conditional)
    graceful = in_grace(memory, detection, now_us)
    if result is Vote.PASS and detection.grace_ends_early:
        graceful = False
    event = _event(memory, result, graceful=graceful, doubtful=_doubtful(tracks, detection))
    health = memory.health if event is None else move(memory.health, event)
    return NodeMemory(
        node_id=memory.node_id,
        health=health,
        since_us=now_us if health is not memory.health else memory.since_us,
        tracks=MappingProxyType({k: t for k, t in held.items() if t is not EMPTY}),
        grace_us=_not_after(memory.grace_us, now_us) if graceful else None,
        settled=result is not Vote.PENDING,
        gray=_gray(tracks, beliefs),
        mark=memory.mark,
        first_fail_us=None if health is Health.HEALTHY else first_fail_us,
        unheard_us=_not_after(memory.unheard_us, now_us) if EMPTY in tracks else None,
        verified_us=memory.verified_us if EMPTY in tracks else None,
    )


def _not_after(start_us: int | None, now_us: int) -> int:
    """Return a stored start, or now where there is none or a clock set back left it in the future."""
    return now_us if start_us is None else min(start_us, now_us)


def _heard(
    memory: NodeMemory, tracks: tuple[Track, ...], stale: tuple[int, ...], now_us: int
) -> tuple[Belief, ...]:
    """Return the beliefs; a mode that never answered is pending at first, unknown after too long.

    Otherwise a node that nobody asks any more would keep the health it had, "healthy" above all.
    """
    waited_us = now_us - _not_after(memory.unheard_us, now_us)
    return tuple(
        Belief.UNKNOWN if t.last is None and waited_us > old_us else t.belief
        for t, old_us in zip(tracks, stale, strict=True)
    )


def _event(
    memory: NodeMemory, result: Vote, *, graceful: bool, doubtful: bool
) -> HealthEvent | None:
    """Return the event that the votes make, or None while they are pending."""
    if memory.mark is not None:
        return HealthEvent.MARKED
    match result:
        case Vote.FAIL:
            return HealthEvent.WAVER if graceful else HealthEvent.FAIL
        case Vote.PASS:
            return HealthEvent.WAVER if doubtful else HealthEvent.PASS
        case Vote.UNKNOWN:
            return HealthEvent.WAVER if doubtful else HealthEvent.UNKNOWN
        case Vote.PENDING:
            return HealthEvent.DOUBT if doubtful else None
        case _:
            assert_never(result)


def _doubtful(tracks: tuple[Track, ...], detection: Detection) -> bool:
    """Whether the failures now being counted would, if they went on, meet the conditional."""
    failing = [t.fails > 0 or t.belief is Belief.DOWN for t in tracks]
    if detection.conditional is Conditional.ANY_FAILED:
        return any(failing)
    return bool(failing) and all(failing)


def _gray(tracks: tuple[Track, ...], beliefs: tuple[Belief, ...]) -> bool:
    warned = any(t.last is not None and t.last.outcome is Outcome.WARN for t in tracks)
    # One that is believed up and whose last check failed contradicts nobody.
    said = zip(beliefs, (None if t.last is None else t.last.outcome for t in tracks), strict=True)
    well = (Belief.UP, Outcome.PASS) in said
    return warned or (well and Belief.DOWN in beliefs)


def restart(memory: NodeMemory, now_us: int) -> NodeMemory:
    """Return the state after a life-cycle change: counts empty, grace begins again."""
    return replace(
        memory,
        health=move(memory.health, HealthEvent.RESTARTED),
        since_us=now_us,
        tracks=MappingProxyType({}),
        grace_us=now_us,
        settled=False,
        gray=False,
        first_fail_us=None,
        unheard_us=None,
        verified_us=None,
    )


def verified(memory: NodeMemory, at_us: int) -> NodeMemory:
    """Return the state of a node that a recovery verified: earlier observations no longer vote."""
    return replace(
        memory,
        health=move(memory.health, HealthEvent.PASS),
        since_us=at_us,
        tracks=UNSEEN,
        settled=False,
        gray=False,
        first_fail_us=None,
        unheard_us=None,
        verified_us=at_us,
    )


def resettle(memory: NodeMemory) -> NodeMemory:
    """Return the state after blindness: health and grace stay, counts begin again."""
    # Not `replace`: where a loop was late, all nodes are resettled at once.
    return NodeMemory(
        node_id=memory.node_id,
        health=memory.health,
        since_us=memory.since_us,
        tracks=UNSEEN,
        grace_us=memory.grace_us,
        gray=memory.gray,
        mark=memory.mark,
        first_fail_us=memory.first_fail_us,
        verified_us=memory.verified_us,
    )


def set_mark(
    memory: NodeMemory, mark: Mark | None, detection: Detection, now_us: int
) -> NodeMemory:
    """Return the state with a user's mark set or lifted; nothing but a lift removes it.

    A node that was unhealthy by a mark alone is judged anew when the mark is lifted: from what its
    life cycle says (grace) or from nothing, never from the mark that is gone.
    """
    base = memory.health
    if mark is None and memory.mark is not None:
        base = Health.INITIALIZING if in_grace(memory, detection, now_us) else Health.UNKNOWN
    after = conclude(replace(memory, mark=mark, health=base), detection, now_us)
    since_us = memory.since_us if after.health is memory.health else now_us
    return replace(after, since_us=since_us)
