"""A stored decision is decided once more from its row: it agrees, and whatever is changed is found."""

from __future__ import annotations

import copy
import json
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
    pause,
    recovery,
    tried,
)
from tests.unit.core.rows import LIMITS, Member, World, member, play, well

from yaffle.core.decision_audit.replay import (
    Agreement,
    Disagreement,
    NotRecheckable,
    recheck,
    replayed,
)
from yaffle.core.decision_audit.schema import ANSWERING, PAUSES_MAX, RECORD, VERSION, Stored
from yaffle.core.planning.budgets import Bucket, Scope
from yaffle.core.planning.host_attribution import HostReport, Word
from yaffle.model.health import Health, Mark
from yaffle.model.ids import PauseId
from yaffle.model.incident import Hold, Recover
from yaffle.model.policy import Conditional, RecoveryAction, RecoveryMode, Threshold, WhenExceeded

TWO = detection(STATUS, URL)
BOTH = detection(STATUS, URL, conditional=Conditional.ALL_FAILED)
MARK = Mark(reason="smells", by="ann", at_us=T0)
LOST = HostReport(
    name="h", word=Word.LOST, watched=3, sick=3, suspect=0, alive=0, shared=True, open=False
)
UNCLEAR = replace(LOST, word=Word.UP, watched=3, sick=2)
QUIET = tuple(well(f"w{i}") for i in range(4))


def zoned(*members: Member) -> tuple[Member, ...]:
    return tuple(replace(m, domain="abc"[n % 2]) for n, m in enumerate(members))


def both_modes(status: str, url: str) -> Member:
    """A node that two modes speak of, the one after the other."""
    before = feed(memory(health=Health.HEALTHY), [status] * 3, BOTH, start_us=T0 - 30 * SECOND)
    after = feed(before, [url] * 3, BOTH, mode=URL, start_us=T0 - 29 * SECOND)
    return Member(name="a", memory=after)


def deadly(name: str = "a", **changed: Any) -> Member:
    return member(name, **changed)


def gone_for_good(name: str) -> Member:
    """A node that the backend does not know any more; its profile says that a reboot is in vain."""
    found = deadly(name, left_out=("REBOOT",))
    tracks = {
        key: replace(track, last=replace(track.last, code="ST-GONE"))
        for key, track in found.memory.tracks.items()
        if track.last is not None
    }
    return replace(found, memory=replace(found.memory, tracks=tracks))


def half_heard() -> Member:
    """Down by one mode; the other, which has to agree, has not been heard of since we looked."""
    before = memory(health=Health.UNHEALTHY)
    return Member(name="a", memory=feed(before, ["fail"] * 3, BOTH, start_us=T0 - 20 * SECOND))


EMPTY = Bucket(tokens=0.25, updated_us=T0 - 6 * SECOND)
FULL = Bucket(tokens=3.0, updated_us=T0, in_flight=5)

WORLDS: dict[str, World] = {
    "recover": World(members=(deadly(), *QUIET)),
    "two": World(members=(deadly("a"), deadly("b"), *QUIET)),
    "interrupted": World(members=(member("a", ("fail",) * 3 + ("pass", "fail")), *QUIET)),
    "asked": World(members=(well("a", requested_by="ann", retry=tried(1)), *QUIET)),
    "asked-forgotten": World(
        members=(
            well("a", requested_by="ann", retry=tried(3), healthy_us=T0 - 601 * SECOND),
            *QUIET,
        )
    ),
    "in-grace": World(
        members=(
            member(
                "a",
                before=memory(health=Health.INITIALIZING, grace_us=T0 - 40 * SECOND),
                requested_by="ann",
            ),
            *QUIET,
        )
    ),
    "asked-tired": World(members=(deadly(requested_by="ann", retry=tried(3)), *QUIET)),
    "marked": World(
        members=(member("a", (), before=memory(mark=MARK, health=Health.UNHEALTHY)), *QUIET)
    ),
    "second-mode": World(members=(both_modes("pass", "fail"), *QUIET), detection=TWO),
    "both-modes": World(members=(both_modes("fail", "fail"), *QUIET), detection=BOTH),
    "half-heard": World(members=(half_heard(), *QUIET), detection=BOTH),
    "stopped": World(
        members=(deadly(), *QUIET),
        pauses=(pause("stop", owner="ann", expires_us=T0 + 60 * SECOND),),
    ),
    "maintenance": World(
        members=(deadly(), *QUIET), pauses=(pause("maintenance", "node", "a", id=PauseId("m")),)
    ),
    "many-pauses": World(
        members=(deadly(), *QUIET),
        pauses=tuple(pause("stop", id=PauseId(f"p{i:02d}")) for i in range(PAUSES_MAX + 4)),
    ),
    "lost": World(members=(deadly(), *QUIET), lost=("database",)),
    "blind": World(members=(deadly("a"), deadly("b")), answers=False, references=(False,)),
    "one-road": World(
        members=(both_modes("pass", "fail"), replace(both_modes("pass", "fail"), name="b")),
        detection=TWO,
        roads=("NODE_STATUS_POLL_URL",),
    ),
    "busy": World(members=(deadly(busy="NODE_UPDATE"), *QUIET)),
    "resettling": World(
        members=(member("a", (), before=memory(health=Health.UNHEALTHY)), *QUIET)
    ),
    "needs-human": World(members=(deadly(retry=tried(3)), *QUIET)),
    "exhausted": World(members=(deadly(retry=tried(1, exhausted_us=T0 - 1)), *QUIET)),
    "cooling": World(members=(deadly(retry=tried(1, next_us=T0 + 30 * SECOND)), *QUIET)),
    "gone": World(
        members=(gone_for_good("a"), *QUIET),
        recovery=recovery(RecoveryAction(name="REBOOT"), RecoveryAction(name="RECREATE")),
    ),
    "gone-watched": World(
        members=(gone_for_good("a"), *QUIET),
        recovery=recovery(
            RecoveryAction(name="REBOOT"),
            RecoveryAction(name="RECREATE"),
            mode=RecoveryMode.OBSERVE,
        ),
    ),
    "host-lost": World(
        members=(*(deadly(n, host=LOST) for n in "abc"), *QUIET[:2]),
        recovery=recovery(RecoveryAction(name="REBOOT"), RecoveryAction(name="EVACUATE")),
        hosts=3,
    ),
    "host-left": World(
        members=(deadly("a", host=replace(LOST, sick=1, alive=1, open=True)), *QUIET), hosts=3
    ),
    "host-lost-held": World(
        members=(*(deadly(n, host=LOST) for n in "abc"), deadly("d"), deadly("e"), QUIET[0]),
        recovery=recovery(max_unhealthy=Threshold(count=2)),
        hosts=3,
    ),
    "host-lost-watched": World(
        members=(deadly("a", host=LOST), *QUIET),
        recovery=recovery(
            RecoveryAction(name="REBOOT"),
            RecoveryAction(name="EVACUATE"),
            mode=RecoveryMode.OBSERVE,
        ),
        hosts=3,
    ),
    "host-unclear": World(
        members=(deadly("a", host=UNCLEAR), deadly("b", host=UNCLEAR), *QUIET), hosts=3
    ),
    "storm": World(members=(deadly("a"), deadly("b"), deadly("c"), *QUIET[:2])),
    "slow": World(
        members=(deadly("a"), deadly("b"), deadly("c"), *QUIET[:2]),
        recovery=recovery(when_exceeded=WhenExceeded.SLOW),
    ),
    "released": World(
        members=(deadly("a"), deadly("b"), deadly("c"), *QUIET[:2]),
        released_until_us=T0 + 60 * SECOND,
    ),
    "domain-storm": World(
        members=zoned(
            *(m for i in range(3) for m in (deadly(f"a{i}"), well(f"b{i}"))), *QUIET
        ),
        recovery=recovery(domain="zone"),
    ),
    "observe": World(members=(deadly(), *QUIET), recovery=recovery(mode=RecoveryMode.OBSERVE)),
    "in-flight": World(members=(deadly(), deadly("b", recovering=True), *QUIET),
                       recovery=recovery(max_in_flight=1)),
    "rate": World(members=(deadly(), *QUIET), buckets={Scope.CLUSTER: EMPTY}),
    "full": World(members=(deadly(), *QUIET), buckets={Scope.GLOBAL: FULL}),
    "observe-rate": World(
        members=(deadly(), *QUIET),
        recovery=recovery(mode=RecoveryMode.OBSERVE),
        buckets={Scope.CLUSTER: EMPTY},
    ),
}  # fmt: skip


def through_json(row: Stored) -> Stored:
    """Return the row as a database would give it back."""
    return replace(
        row,
        numbers=json.loads(json.dumps(row.numbers)),
        inputs=json.loads(json.dumps(row.inputs)),
    )


def row_of(name: str, place: int = 0) -> Stored:
    return through_json(play(WORLDS[name])[place])


def named(row: Stored) -> str:
    return row.reason or row.kind


@pytest.mark.parametrize("name", WORLDS)
def test_what_was_stored_agrees(name: str) -> None:
    rows = [through_json(row) for row in play(WORLDS[name])]
    assert rows
    assert [recheck(row) for row in rows] == [Agreement()] * len(rows)


def test_every_reason_is_among_the_worlds() -> None:
    from yaffle.model.incident import HoldReason

    found = {named(row) for world in WORLDS.values() for row in play(world)}
    assert found == {"recover", *HoldReason}


# --- whatever is changed is found -----------------------------------------------------------------

Path = tuple[str | int, ...]


def changed(row: Stored, path: Path, value: object) -> Stored:
    """Return the row with one place of its numbers or inputs, or one column, replaced."""
    column, *inner = path
    if not inner:
        return replace(row, **{str(column): value})
    whole = copy.deepcopy(getattr(row, str(column)))
    place = whole
    for step in inner[:-1]:
        place = place[step]
    place[inner[-1]] = value
    return replace(row, **{str(column): whole})


def rec(*steps: str | int) -> Path:
    return ("inputs", RECORD, *steps)


TAMPERED: list[tuple[str, Path, object]] = [
    # What was said.
    ("recover", ("kind",), "hold"),
    ("recover", ("reason",), "storm"),
    ("storm", ("reason",), "rate"),
    ("storm", ("kind",), "recover"),
    ("cooling", ("until_us",), T0 + 31 * SECOND),
    ("cooling", ("until_us",), None),
    ("recover", ("at_us",), T0 + 1),
    ("recover", ("policy_id",), "q"),
    ("recover", ("policy_version",), "1.2"),
    ("rate", ("cluster_id",), "another"),
    ("maintenance", ("node_id",), "another"),
    *(
        ("recover", ("numbers", name), 7)
        for name in ("sick", "suspect", "threshold", "in_flight", "max_in_flight", "attempt",
                     "attempts_allowed", "unheard-of")
    ),
    *(("storm", ("numbers", n), 9) for n in ("sick", "suspect", "threshold", "capacity")),
    ("observe", ("numbers", "would"), ["REBOOT"]),
    ("rate", ("numbers", "scope"), "host"),
    ("recover", ("inputs", "health"), "healthy"),
    ("recover", ("inputs", "settled"), False),
    ("recover", ("inputs", "problem"), "It is fine."),
    ("recover", ("inputs", "cause"), "gone"),
    ("recover", ("inputs", "ladder"), ["REBOOT"]),
    ("asked-tired", ("inputs", "overrode"), []),
    # What cannot help.
    ("gone", rec("left_out"), []),
    ("gone", rec("left_out"), ["REBOOT", "RECREATE"]),
    ("gone", rec("left_out"), ["REBUILD"]),
    ("gone", rec("believed", "heard", 0, "last", "code"), "ST-DOWN"),
    ("gone", ("inputs", "ladder"), ["REBOOT", "RECREATE"]),
    ("gone", ("numbers", "left_out"), []),
    ("gone-watched", ("numbers", "would"), ["REBOOT", "RECREATE"]),
    # The host.
    ("host-lost", rec("host"), None),
    ("host-lost", rec("host", "name"), "i"),
    ("host-lost", rec("host", "word"), "up"),
    ("host-lost", rec("host", "sick"), 2),
    ("host-lost", rec("host", "suspect"), 1),
    ("host-lost", rec("host", "watched"), 4),
    ("host-lost", rec("hosts"), 1),
    ("host-lost", rec("nodes", 1, "host"), ""),
    ("host-lost", ("inputs", "ladder"), ["REBOOT", "EVACUATE"]),
    ("host-lost", ("inputs", "cause"), "silent"),
    *(
        ("host-lost", ("numbers", n), 9)
        for n in ("host", "host_sick", "host_suspect", "host_watched", "lost_hosts")
    ),
    ("host-lost-held", rec("nodes", 2, "host"), ""),
    ("host-left", rec("host", "open"), False),
    ("host-lost-held", ("numbers", "lost_hosts"), 2),
    ("host-lost-watched", ("numbers", "would"), ["REBOOT", "EVACUATE"]),
    ("host-unclear", rec("host", "word"), "lost"),
    ("host-unclear", rec("host", "shared"), False),
    ("host-unclear", rec("host", "watched"), 4),
    ("host-unclear", rec("host", "sick"), 1),
    ("host-lost", rec("host", "alive"), 3),
    *(
        ("host-unclear", ("numbers", n), 9)
        for n in ("host", "word", "sick", "suspect", "watched", "alive")
    ),
    # When.
    ("recover", rec("now_us"), T0 + 1),
    # The policy.
    ("recover", rec("policy_id"), "q"),
    ("recover", rec("policy_version"), "1.2"),
    ("recover", rec("judging", "interval_s"), 1.0),
    ("recover", rec("judging", "modes", 0, "key"), "1:NODE_STATUS_POLLING"),
    ("second-mode", rec("judging", "modes", 1, "type"), "LIFECYCLE_EVENTS"),
    ("recover", rec("judging", "modes"), []),
    ("second-mode", rec("judging", "conditional"), "ALL_FAILED"),
    ("recover", rec("healing", "mode"), "observe"),
    ("observe", rec("healing", "mode"), "recover"),
    ("recover", rec("healing", "actions"), ["REBOOT"]),
    ("observe", rec("healing", "actions"), ["REBOOT"]),
    ("recover", rec("healing", "limits", "max_unhealthy", "percent"), 60.0),
    ("recover", rec("healing", "limits", "max_unhealthy", "count"), 3),
    ("recover", rec("healing", "limits", "max_in_flight"), 3),
    ("slow", rec("healing", "limits", "when_exceeded"), "hold"),
    ("domain-storm", rec("healing", "limits", "domain"), None),
    ("recover", rec("healing", "tries", "attempts"), 4),
    ("cooling", rec("healing", "tries", "max_backoff_s"), 10.0),
    ("asked-forgotten", rec("healing", "tries", "stable_after_s"), 700.0),
    # What was believed.
    ("recover", rec("believed", "health"), "suspect"),
    ("recover", rec("believed", "settled"), False),
    ("recover", rec("believed", "gray"), True),
    ("recover", rec("believed", "grace_us"), T0 - SECOND),
    ("in-grace", rec("judging", "node_update_timeout_s"), 0.0),
    ("recover", rec("believed", "unheard_us"), T0),
    ("marked", rec("believed", "mark"), None),
    ("marked", rec("believed", "mark"), "another reason"),
    ("half-heard", rec("believed", "unheard_us"), T0 - 600 * SECOND),
    ("recover", rec("believed", "heard"), []),
    ("recover", rec("believed", "heard", 0, "mode"), "7:NODE_STATUS_POLLING"),
    ("recover", rec("believed", "heard", 0, "belief"), "up"),
    ("recover", rec("believed", "heard", 0, "belief"), "pending"),
    ("recover", rec("believed", "heard", 0, "fails"), 2),
    ("recover", rec("believed", "heard", 0, "fell"), 4),
    ("recover", rec("believed", "heard", 0, "fell"), 0),
    ("recover", rec("believed", "heard", 0, "last", "outcome"), "pass"),
    ("recover", rec("believed", "heard", 0, "last", "outcome"), "warn"),
    ("recover", rec("believed", "heard", 0, "last", "code"), "ST-GONE"),
    ("recover", rec("believed", "heard", 0, "last", "detail"), "another word"),
    ("recover", rec("believed", "heard", 0, "last", "at_us"), T0 - 600 * SECOND),
    ("both-modes", rec("believed", "heard", 1, "belief"), "up"),
    # The node.
    ("recover", rec("subject", "busy"), "NODE_UPDATE"),
    ("busy", rec("subject", "busy"), "NODE_DELETE"),
    ("domain-storm", rec("subject", "domain"), "b"),
    ("recover", rec("subject", "requested_by"), "ann"),
    ("asked", rec("subject", "requested_by"), ""),
    ("recover", rec("subject", "attempts"), 1),
    ("cooling", rec("subject", "next_us"), T0 + 40 * SECOND),
    ("recover", rec("subject", "exhausted_us"), T0),
    ("exhausted", rec("subject", "exhausted_us"), None),
    ("asked-forgotten", rec("subject", "healthy_us"), T0),
    # The cluster.
    ("recover", rec("desired_capacity"), 50),
    ("recover", rec("nodes"), []),
    ("domain-storm", rec("nodes", 1, "nodes"), 9),
    ("storm", rec("nodes", 1, "nodes"), 2),
    ("storm", rec("nodes", 1, "health"), "suspect"),
    ("recover", rec("nodes", 0, "recovering"), True),
    ("storm", rec("nodes", 1, "planned"), True),
    ("domain-storm", rec("nodes", 2, "here"), False),
    ("released", rec("released_until_us"), None),
    ("released", rec("released_until_us"), T0),
    ("recover", rec("sight", "answered"), 0),
    ("blind", rec("sight", "asked"), 3),
    ("blind", rec("sight", "answered"), 1),
    ("blind", rec("sight", "references_asked"), 2),
    ("blind", rec("sight", "references_answered"), 1),
    ("one-road", rec("sight", "road"), ""),
    ("recover", rec("lost"), ["prober"]),
    ("lost", rec("lost"), []),
    # The pauses.
    ("stopped", rec("pauses"), []),
    ("stopped", rec("pauses", 0, "id"), "p2"),
    ("stopped", rec("pauses", 0, "kind"), "maintenance"),
    ("stopped", rec("pauses", 0, "scope"), "cluster"),
    ("maintenance", rec("pauses", 0, "target_id"), "b"),
    ("stopped", rec("pauses", 0, "owner"), "bob"),
    ("stopped", rec("pauses", 0, "reason"), "no reason"),
    ("stopped", rec("pauses", 0, "starts_us"), T0 + 1),
    ("stopped", rec("pauses", 0, "expires_us"), T0 + 70 * SECOND),
    ("many-pauses", rec("more_pauses", "stop"), 5),
    ("stopped", rec("more_pauses"), {"stop": 1}),
    # The budgets.
    ("recover", rec("purses"), []),
    ("recover", rec("purses", 1, "tokens"), 0.5),
    ("rate", rec("purses", 1, "tokens"), 0.5),
    ("rate", rec("purses", 1, "updated_us"), T0),
    ("rate", rec("purses", 1, "scope"), "host"),
    ("rate", rec("purses", 1, "key"), "another"),
    ("recover", rec("purses", 0, "in_flight"), 5),
    ("full", rec("purses", 0, "in_flight"), 6),
    ("full", rec("purses", 0, "max_in_flight"), 4),
    ("rate", rec("purses", 1, "burst"), 6),
    ("rate", rec("purses", 1, "per_hour"), 61.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "path", "value"),
    TAMPERED,
    ids=[f"{n}-{'.'.join(map(str, p))}-{v}"[:80] for n, p, v in TAMPERED],
)
def test_whatever_is_changed_is_found(name: str, path: Path, value: object) -> None:
    found = recheck(changed(row_of(name), path, value))
    assert isinstance(found, Disagreement)
    assert found.stored != found.recomputed
    assert found.field in str(found)


def test_a_rung_is_left_out_only_where_the_copy_is_gone() -> None:
    there = changed(row_of("gone"), rec("believed", "heard", 0, "last", "code"), "ST-DOWN")
    found = recheck(there)
    assert isinstance(found, Disagreement)
    assert found.field.endswith(".left_out"), found


def leaves(value: object, path: Path = ()) -> list[Path]:
    """Every place of a record, lists as they are at their first element."""
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list) and value:
        return leaves(value[0], (*path, 0))
    return [path]


def test_every_field_of_a_record_has_been_changed_once() -> None:
    """So that nobody adds one to the record that the checker does not look at."""
    known = {tuple(s for s in path[2:] if not isinstance(s, int)) for _, path, _ in TAMPERED}
    places = set()
    for name in WORLDS:
        record = row_of(name).inputs[RECORD]
        places |= {tuple(s for s in leaf if not isinstance(s, int)) for leaf in leaves(record)}
    elsewhere = {("v",), ("judging", "grace_ends_early"), ("judging", "modes", "url")}
    assert places - known == elsewhere


def test_grace_that_ends_early_matters_where_the_node_passes() -> None:
    """A person asked for a node in its grace, whose checks pass: it is healthy by 1.3 only."""
    before = memory(health=Health.INITIALIZING, grace_us=T0 - 30 * SECOND)
    asked = member("a", ("pass",) * 3, before=before, requested_by="ann")
    row = through_json(play(World(members=(asked, *QUIET)))[0])
    assert recheck(row) == Agreement()
    kept = changed(row, rec("believed", "grace_us"), T0 - 30 * SECOND)
    assert isinstance(recheck(kept), Disagreement)
    assert recheck(changed(kept, rec("judging", "grace_ends_early"), False)) == Agreement()


def test_the_time_outs_of_a_url_say_when_an_answer_is_stale() -> None:
    how = detection(URL)
    before = memory(health=Health.HEALTHY)
    last_us = T0 - 26 * SECOND
    seen = feed(before, ["fail"] * 3, how, mode=URL, start_us=last_us - 20 * SECOND)
    row = through_json(
        play(World(members=(Member(name="a", memory=seen), *QUIET), detection=how))[0]
    )
    assert recheck(row) == Agreement()
    assert MODES[URL].url is not None
    shorter = changed(row, rec("judging", "modes", 0, "url"), [0.5, 1, 0.0])
    assert isinstance(recheck(shorter), Disagreement)


# --- what is not judged ----------------------------------------------------------------------------


def test_a_row_from_before_there_were_records_is_not_judged() -> None:
    row = row_of("recover")
    inputs = {k: v for k, v in row.inputs.items() if k != RECORD}
    found = recheck(replace(row, inputs=inputs))
    assert isinstance(found, NotRecheckable)
    assert "older" in found.why


def test_what_was_gray_by_other_rules_is_not_judged() -> None:
    gray = changed(row_of("recover"), rec("believed", "gray"), True)
    assert isinstance(recheck(gray), Disagreement)
    assert isinstance(recheck(changed(gray, rec("v"), ANSWERING - 1)), Agreement)


@pytest.mark.parametrize(
    ("name", "version", "judged"),
    [
        pytest.param("recover", VERSION + 1, False, id="of later rules"),
        pytest.param("host-lost", ANSWERING - 1, False, id="when hosts were judged otherwise"),
        pytest.param("recover", ANSWERING - 1, True, id="of before, on no host"),
    ],
)
def test_a_row_of_other_rules_is_not_judged(name: str, version: int, judged: bool) -> None:
    found = recheck(changed(row_of(name), rec("v"), version))
    assert isinstance(found, Agreement if judged else NotRecheckable)
    assert judged or str(version) in str(found)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda record: record.pop("believed"), id="a-field-is-missing"),
        pytest.param(lambda record: record.update(now_us="noon"), id="of-another-type"),
        pytest.param(lambda record: record.pop("v"), id="no-version"),
        pytest.param(lambda record: record["believed"].update(health="so-so"), id="no-such-word"),
    ],
)
def test_a_record_that_cannot_be_read_is_a_disagreement(damage: Callable[[Any], Any]) -> None:
    row = row_of("recover")
    inputs: Any = copy.deepcopy(row.inputs)
    damage(inputs[RECORD])
    found = recheck(replace(row, inputs=inputs))
    assert isinstance(found, Disagreement)
    assert found.field == RECORD


def test_a_node_that_is_well_and_unasked_for_is_not_decided_upon() -> None:
    asked = row_of("asked")
    found = recheck(changed(asked, rec("subject", "requested_by"), ""))
    assert isinstance(found, Disagreement)
    assert found.recomputed == "nothing to decide"


def test_a_verdict_that_came_one_failure_too_soon_is_found() -> None:
    """The bug `fails >= fall - 1`: the belief is down, and two failures were enough for it."""
    row = changed(row_of("recover"), rec("believed", "heard", 0, "fails"), 2)
    found = recheck(row)
    assert isinstance(found, Disagreement)
    assert (found.stored, found.recomputed) == (2, "at least 3")


# --- in the other mode ------------------------------------------------------------------------------


def test_what_observe_mode_holds_is_what_would_be_done() -> None:
    would = replayed(row_of("observe"), RecoveryMode.RECOVER)
    assert isinstance(would, Recover)
    did = replayed(row_of("recover"), RecoveryMode.OBSERVE)
    assert isinstance(did, Hold)
    assert {**would.numbers, "would": ["RECREATE"]} == dict(did.numbers)
    assert replayed(replace(row_of("observe"), inputs={}), RecoveryMode.RECOVER) is None


# --- how long it is ---------------------------------------------------------------------------------


def test_a_record_does_not_grow_with_the_cluster() -> None:
    def length(size: int, pauses: int) -> int:
        zones = tuple(replace(well(f"w{i}"), domain=f"zone-{i % 40}") for i in range(size))
        world = World(
            members=(deadly("a", how=TWO, domain="zone-1"), *zones),
            detection=TWO,
            recovery=recovery(domain="zone", max_unhealthy=Threshold(percent=40.0)),
            pauses=tuple(pause("stop", id=PauseId(f"{i:036d}")) for i in range(pauses)),
        )
        return len(json.dumps(dict(play(world)[0].inputs)))

    assert length(2000, 0) < length(50, 0) + 20 < 3000
    assert length(50, 500) < 6000


def test_the_budgets_of_the_tests_are_all_scopes() -> None:
    assert set(LIMITS) == set(Scope)
