"""The ladder: its table, its paths, and the replay of whole, short and damaged journals."""

from __future__ import annotations

from itertools import product

import pytest
from tests.unit.core.build import recovery

from yaffle.core.recovery.ladder import (
    DANGEROUS,
    TABLE,
    Done,
    End,
    IllegalStep,
    Next,
    NodeActionKind,
    Onward,
    Result,
    Rung,
    Stage,
    build,
    helpless,
    one_rung,
    path_of,
    position,
    without,
)
from yaffle.model.policy import (
    Evidence,
    FencingKind,
    Recovery,
    RecoveryAction,
    RungKind,
    Snapshot,
)

S, R = Stage, Result
REBOOT = RecoveryAction(name="REBOOT", in_place=True)
EVACUATE = RecoveryAction(name="EVACUATE")
RECREATE = RecoveryAction(name="RECREATE")
EVIDENCE = Evidence(console_log=True, timeout_s=30.0)

RECOVERIES = [
    recovery(
        fencing=fencing,
        evidence=evidence,
        snapshot=snapshot,
        node_force_recreate=force,
        node_delete_timeout_s=delete_s,
    )
    for fencing, evidence, snapshot, force, delete_s in product(
        ((), (FencingKind.COMPUTE,), (FencingKind.HOST,), tuple(FencingKind)),
        (None, EVIDENCE),
        (None, Snapshot(take=True, restore=True, timeout_s=300.0)),
        (False, True),
        (0.0, 20.0),
    )
]
ACTIONS = [
    RecoveryAction(name=name, kind=kind, in_place=in_place)
    for name, kind, in_place in product(
        ("REBOOT", "REBUILD", "RECREATE", "EVACUATE", "my_workflow"), RungKind, (False, True)
    )
]


# --- the table ------------------------------------------------------------------------------------


def test_only_proof_waiver_or_left_behind_leads_past_a_fence_or_deletion() -> None:
    past = {
        (stage, result)
        for (stage, result), move in TABLE.items()
        if stage in {S.FENCE, S.DELETE} and move is Onward.NEXT_STAGE
    }
    assert past == {
        (S.FENCE, R.PROVED),
        (S.FENCE, R.WAIVED),
        (S.DELETE, R.PROVED),
        (S.DELETE, R.WAIVED),
        (S.DELETE, R.LEFT_BEHIND),
    }


WORDS = {R.SUPERSEDED, R.HALTED}
"""Results that come from people, at any step boundary."""


def test_a_stop_halts_every_stage_but_the_look_that_touches_nothing() -> None:
    halted = {s: m for (s, r), m in TABLE.items() if r is R.HALTED}
    assert halted == dict.fromkeys(set(S) - {S.VERIFY}, End.ABANDONED)


def test_what_each_result_leads_to() -> None:
    assert {(str(s), str(r)): str(m) for (s, r), m in TABLE.items() if r not in WORDS} == {
        ("look", "sick"): "next-stage",
        ("look", "healthy"): "already-healthy",
        ("look", "unclear"): "abandoned",
        ("evidence", "done"): "next-stage",
        ("evidence", "failed"): "next-stage",
        ("snapshot", "done"): "next-stage",
        ("snapshot", "failed"): "next-stage",
        ("snapshot", "unclear"): "abandoned",
        ("fence", "proved"): "next-stage",
        ("fence", "waived"): "next-stage",
        ("fence", "unproved"): "next-rung",
        ("fence", "unclear"): "abandoned",
        ("delete", "proved"): "next-stage",
        ("delete", "waived"): "next-stage",
        ("delete", "left-behind"): "next-stage",
        ("delete", "unproved"): "next-rung",
        ("delete", "unclear"): "abandoned",
        ("create", "done"): "next-stage",
        ("create", "failed"): "next-rung",
        ("create", "unclear"): "abandoned",
        ("act", "done"): "next-stage",
        ("act", "failed"): "next-rung",
        ("act", "unclear"): "abandoned",
        ("verify", "passed"): "recovered",
        ("verify", "failed"): "next-rung",
        ("verify", "unclear"): "abandoned",
    }


def test_every_stage_and_result_is_used() -> None:
    assert {stage for stage, _ in TABLE} == set(Stage)
    assert {result for _, result in TABLE} == set(Result)
    assert {*TABLE.values(), End.EXHAUSTED, End.DONE} == {*End, *Onward}


@pytest.mark.parametrize("stage", list(Stage))
def test_a_user_may_take_over_at_every_step(stage: Stage) -> None:
    assert TABLE[stage, R.SUPERSEDED] is End.SUPERSEDED


def test_only_a_verified_step_recovers() -> None:
    assert [key for key, move in TABLE.items() if move is End.RECOVERED] == [(S.VERIFY, R.PASSED)]


def test_what_is_dangerous() -> None:
    assert frozenset({S.CREATE}) == DANGEROUS


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("how", RECOVERIES)
def test_a_second_copy_is_never_started_before_the_first_is_dealt_with(
    how: Recovery, first: bool
) -> None:
    for action in ACTIONS:
        path = path_of(action, how, first=first)
        for place, stage in enumerate(path):
            if stage in DANGEROUS or (stage is S.ACT and not action.in_place):
                assert {S.FENCE, S.DELETE} & set(path[:place]), (action, path)
        assert path[0] is S.LOOK
        assert path[-1] is S.VERIFY
        acts = path[len(path) - path[::-1].index(S.LOOK) :]
        assert not {S.EVIDENCE, S.SNAPSHOT} & set(acts), "acts upon a look that has grown old"
        assert len(set(acts)) == len(acts)


@pytest.mark.parametrize("how", RECOVERIES)
def test_every_result_of_every_step_has_somewhere_to_go(how: Recovery) -> None:
    """No path ends in a stage that leads on: `position` could not say what comes next."""
    for action in ACTIONS:
        last = path_of(action, how, first=True)[-1]
        assert all(m is not Onward.NEXT_STAGE for (s, _), m in TABLE.items() if s is last)


@pytest.mark.parametrize(
    ("action", "fencing", "evidence", "first", "path"),
    [
        pytest.param(REBOOT, False, False, True, "look act verify", id="in-place"),
        pytest.param(
            REBOOT, True, True, True, "look evidence look act verify", id="evidence-first"
        ),
        pytest.param(REBOOT, True, True, False, "look act verify", id="evidence-once"),
        pytest.param(EVACUATE, False, False, True, "look fence act verify", id="always-fenced"),
        pytest.param(
            RECREATE, False, False, True, "look delete create verify", id="deletion-is-the-proof"
        ),
        pytest.param(
            RECREATE,
            True,
            True,
            True,
            "look evidence look fence delete create verify",
            id="fence-then-delete",
        ),
        pytest.param(
            RecoveryAction(name="RECREATE", in_place=True),
            False,
            False,
            True,
            "look delete create verify",
            id="recreate-is-never-in-place",
        ),
        pytest.param(
            RecoveryAction(name="RECREATE", kind=RungKind.COMMAND),
            True,
            False,
            True,
            "look fence act verify",
            id="a-workflow-of-that-name",
        ),
        pytest.param(
            RecoveryAction(name="w", kind=RungKind.HTTP, in_place=True),
            True,
            False,
            True,
            "look act verify",
            id="a-workflow-declared-in-place",
        ),
    ],
)
def test_path(
    action: RecoveryAction, fencing: bool, evidence: bool, first: bool, path: str
) -> None:
    how = recovery(
        fencing=(FencingKind.COMPUTE,) if fencing else (), evidence=EVIDENCE if evidence else None
    )
    assert " ".join(path_of(action, how, first=first)) == path


def test_build_takes_evidence_on_the_first_rung_only() -> None:
    how = recovery(REBOOT, RECREATE, evidence=EVIDENCE)
    assert build(how) == (
        Rung(action=REBOOT, path=(S.LOOK, S.EVIDENCE, S.LOOK, S.ACT, S.VERIFY)),
        Rung(action=RECREATE, path=(S.LOOK, S.DELETE, S.CREATE, S.VERIFY)),
    )


TAKE = Snapshot(take=True, restore=True, timeout_s=300.0)
REBUILD = RecoveryAction(name="REBUILD", in_place=True)


@pytest.mark.parametrize(
    ("actions", "snapshot", "paths"),
    [
        pytest.param(
            (REBOOT, REBUILD, RECREATE),
            TAKE,
            [
                "look evidence look act verify",
                "look snapshot look act verify",
                "look fence delete create verify",
            ],
            id="before-the-first-that-gives-up-the-disk",
        ),
        pytest.param(
            (RECREATE,),
            TAKE,
            ["look evidence snapshot look fence delete create verify"],
            id="before-the-fence-which-may-end-what-is-kept",
        ),
        pytest.param(
            (RECREATE,),
            Snapshot(take=False, restore=False, timeout_s=300.0),
            ["look evidence look fence delete create verify"],
            id="not-wanted",
        ),
        pytest.param(
            (RecoveryAction(name="RECREATE", kind=RungKind.HTTP),),
            TAKE,
            ["look evidence look fence act verify"],
            id="not-before-a-workflow-of-that-name",
        ),
    ],
)
def test_a_snapshot_is_taken_once_while_there_is_a_disk(
    actions: tuple[RecoveryAction, ...], snapshot: Snapshot, paths: list[str]
) -> None:
    how = recovery(*actions, evidence=EVIDENCE, fencing=(FencingKind.COMPUTE,), snapshot=snapshot)
    assert [" ".join(rung.path) for rung in build(how)] == paths


@pytest.mark.parametrize("result", [R.DONE, R.FAILED])
def test_a_recovery_goes_on_without_a_snapshot_and_has_touched_nothing_yet(result: Result) -> None:
    ladder = build(recovery(RECREATE, snapshot=TAKE))
    journal = [Done(rung=0, stage=S.LOOK, result=R.SICK)]
    journal.append(Done(rung=0, stage=S.SNAPSHOT, result=result))
    place = position(ladder, journal)
    assert isinstance(place, Next)
    assert (place.stage, place.acted, place.proved, place.completed) == (
        S.LOOK,
        False,
        False,
        False,
    )


# --- errands --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "in_place", "path"),
    [
        pytest.param(NodeActionKind.MAKE, False, "create", id="make"),
        pytest.param(NodeActionKind.REMOVE, False, "delete", id="remove"),
        pytest.param(NodeActionKind.CHECK, False, "look", id="check"),
        pytest.param(NodeActionKind.REPLACE, False, "delete create", id="replace"),
        pytest.param(NodeActionKind.REPLACE, True, "delete create", id="replace-is-never-in-place"),
        pytest.param(NodeActionKind.OPERATE, True, "act", id="operate-in-place"),
        pytest.param(NodeActionKind.OPERATE, False, "fence act", id="operate-fenced"),
    ],
)
def test_errand(kind: NodeActionKind, in_place: bool, path: str) -> None:
    action = RecoveryAction(name="X", in_place=in_place)
    (rung,) = one_rung(kind, action)
    assert rung.action is action
    assert " ".join(rung.path) == path


@pytest.mark.parametrize("kind", sorted(set(NodeActionKind) - {NodeActionKind.MAKE}))
@pytest.mark.parametrize("in_place", [False, True])
def test_an_errand_starts_no_second_copy_before_the_first_is_dealt_with(
    kind: NodeActionKind, in_place: bool
) -> None:
    action = RecoveryAction(name="X", in_place=in_place)
    (rung,) = one_rung(kind, action)
    for place, stage in enumerate(rung.path):
        if stage in DANGEROUS or (stage is S.ACT and not in_place):
            assert {S.FENCE, S.DELETE} & set(rung.path[:place]), rung.path


@pytest.mark.parametrize(
    ("kind", "results", "end"),
    [
        pytest.param(NodeActionKind.CHECK, [R.SICK], End.DONE, id="checked-and-sick"),
        pytest.param(NodeActionKind.CHECK, [R.HEALTHY], End.ALREADY_HEALTHY, id="checked-and-well"),
        pytest.param(NodeActionKind.CHECK, [R.UNCLEAR], End.ABANDONED, id="could-not-be-checked"),
        pytest.param(NodeActionKind.REPLACE, [R.PROVED, R.DONE], End.DONE, id="replaced"),
        pytest.param(NodeActionKind.REPLACE, [R.UNPROVED], End.EXHAUSTED, id="not-proved-gone"),
        pytest.param(
            NodeActionKind.REPLACE, [R.PROVED, R.FAILED], End.EXHAUSTED, id="not-made-again"
        ),
        pytest.param(NodeActionKind.OPERATE, [R.UNPROVED], End.EXHAUSTED, id="not-fenced"),
        pytest.param(NodeActionKind.OPERATE, [R.PROVED, R.DONE], End.DONE, id="fenced-and-done"),
    ],
)
def test_how_an_errand_ends(kind: NodeActionKind, results: list[Result], end: End) -> None:
    ladder = one_rung(kind, RecoveryAction(name="X"))
    done = [
        Done(rung=0, stage=stage, result=result)
        for stage, result in zip(ladder[0].path, results, strict=False)
    ]
    assert position(ladder, done) is end


# --- replay ---------------------------------------------------------------------------------------

LADDER = build(recovery(REBOOT, RECREATE, fencing=(FencingKind.COMPUTE,), evidence=EVIDENCE))
"""Rung 0: look evidence look act verify. Rung 1: look fence delete create verify."""


def journal(text: str) -> list[Done]:
    """Read `0.look=sick 0.act=done`."""
    steps = []
    for word in text.split():
        place, result = word.split("=")
        rung, stage = place.split(".")
        steps.append(Done(rung=int(rung), stage=Stage(stage), result=Result(result)))
    return steps


UP_TO_RUNG_1 = "0.look=sick 0.evidence=failed 0.look=sick 0.act=failed "
UP_TO_DELETE = UP_TO_RUNG_1 + "1.look=sick 1.fence=proved "


def told(answer: Next | End) -> str:
    if isinstance(answer, End):
        return answer.value
    flags = "".join(f" {n}" for n in ("acted", "proved") if getattr(answer, n))
    return f"{answer.rung}.{answer.stage}{flags}"


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        pytest.param("", "0.look", id="nothing-done"),
        pytest.param("0.look=sick", "0.evidence", id="sick"),
        pytest.param("0.look=healthy", "already-healthy", id="healthy"),
        pytest.param(
            "0.look=sick 0.evidence=done 0.look=healthy", "already-healthy", id="well-meanwhile"
        ),
        pytest.param("0.look=sick 0.evidence=done 0.look=sick", "0.act", id="still-sick"),
        pytest.param("0.look=unclear", "abandoned", id="unclear"),
        pytest.param("0.look=sick 0.evidence=done", "0.look", id="evidence"),
        pytest.param("0.look=sick 0.evidence=failed", "0.look", id="no-evidence"),
        pytest.param(
            "0.look=sick 0.evidence=done 0.look=sick 0.act=done",
            "0.verify acted",
            id="acted: verify it",
        ),
        pytest.param(
            "0.look=sick 0.evidence=done 0.look=sick 0.act=done 0.verify=passed",
            "recovered",
            id="recovered",
        ),
        pytest.param(
            "0.look=sick 0.evidence=done 0.look=sick 0.act=done 0.verify=failed",
            "1.look acted",
            id="next-rung",
        ),
        pytest.param(UP_TO_RUNG_1, "1.look acted", id="a-failed-act-has-acted"),
        pytest.param(UP_TO_RUNG_1 + "1.look=healthy", "recovered", id="worked-after-all"),
        pytest.param(UP_TO_RUNG_1 + "1.look=unclear", "abandoned", id="unclear-later"),
        pytest.param(UP_TO_RUNG_1 + "1.look=sick", "1.fence acted", id="before-the-fence"),
        pytest.param(UP_TO_DELETE, "1.delete acted proved", id="fenced"),
        pytest.param(UP_TO_DELETE + "1.delete=proved", "1.create acted proved", id="deleted"),
        pytest.param(
            UP_TO_DELETE + "1.delete=left-behind", "1.create acted proved", id="left-behind"
        ),
        pytest.param(
            UP_TO_RUNG_1 + "1.look=sick 1.fence=waived 1.delete=waived",
            "1.create acted proved",
            id="waived",
        ),
        pytest.param(
            UP_TO_RUNG_1 + "1.look=sick 1.fence=waived 1.delete=left-behind",
            "1.create acted proved",
            id="waived-and-left-behind",
        ),
        pytest.param(
            UP_TO_RUNG_1 + "1.look=sick 1.fence=unproved", "exhausted", id="the-last-rung-failed"
        ),
        pytest.param(UP_TO_DELETE + "1.delete=unproved", "exhausted", id="deletion-unproved"),
        pytest.param(
            UP_TO_DELETE + "1.delete=proved 1.create=done",
            "1.verify acted proved",
            id="created: verify it",
        ),
        pytest.param(
            UP_TO_DELETE + "1.delete=proved 1.create=failed", "exhausted", id="not-created"
        ),
        pytest.param(UP_TO_DELETE + "1.delete=superseded", "superseded", id="superseded"),
        pytest.param(
            "0.look=healthy 0.act=done", "already-healthy", id="nothing-after-an-end-counts"
        ),
    ],
)
def test_position(steps: str, answer: str) -> None:
    assert told(position(LADDER, journal(steps))) == answer


def test_a_proof_is_of_one_rung_only() -> None:
    twice = build(recovery(RECREATE, RECREATE))
    steps = journal("0.look=sick 0.delete=proved 0.create=failed 1.look=sick")
    assert position(twice, steps) == Next(
        rung=1, stage=S.DELETE, acted=True, completed=False, proved=False
    )


@pytest.mark.parametrize(
    ("stage", "steps", "answer"),
    [
        pytest.param(S.CREATE, "", "0.create", id="to-create"),
        pytest.param(S.CREATE, "0.create=done", "done", id="created"),
        pytest.param(S.CREATE, "0.create=failed", "exhausted", id="not-created"),
        pytest.param(S.DELETE, "0.delete=proved", "done", id="deleted"),
        pytest.param(S.DELETE, "0.delete=unproved", "exhausted", id="not-deleted"),
        pytest.param(S.DELETE, "0.delete=superseded", "superseded", id="superseded"),
    ],
)
def test_a_users_own_creating_and_deleting_is_not_verified(
    stage: Stage, steps: str, answer: str
) -> None:
    single = (Rung(action=RECREATE, path=(stage,)),)
    assert told(position(single, journal(steps))) == answer


def test_nothing_follows_the_end_of_a_path() -> None:
    single = (Rung(action=RECREATE, path=(S.CREATE,)),)
    with pytest.raises(IllegalStep, match="does not come next"):
        position(single, journal("0.create=done 0.verify=passed"))


def test_no_ladder_is_exhausted() -> None:
    assert position((), ()) is End.EXHAUSTED


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        pytest.param("0.act=done", "does not come next", id="the-look-is-missing"),
        pytest.param("1.look=sick", "does not come next", id="a-rung-is-missing"),
        pytest.param("0.look=sick 0.look=sick", "does not come next", id="a-step-twice"),
        pytest.param("0.look=sick 0.act=done", "does not come next", id="a-step-is-missing"),
        pytest.param("0.look=sick 1.evidence=done", "does not come next", id="rungs-mixed"),
        pytest.param("0.look=done", "look cannot come to done", id="an-impossible-result"),
        pytest.param(
            UP_TO_RUNG_1 + "1.look=sick 1.fence=done",
            "fence cannot come to done",
            id="a-fence-is-never-just-done",
        ),
        pytest.param(
            UP_TO_RUNG_1 + "1.look=sick 1.fence=failed", "cannot come to", id="nor-failed"
        ),
        pytest.param(
            UP_TO_DELETE + "1.delete=unproved 2.look=sick", "does not come next", id="past-the-last"
        ),
    ],
)
def test_a_damaged_journal_is_loud(steps: str, message: str) -> None:
    with pytest.raises(IllegalStep, match=message):
        position(LADDER, journal(steps))


def test_nothing_is_left_behind_without_a_fence() -> None:
    """Without a fence the deletion is the only proof, so an unfinished one proves nothing."""
    unfenced = build(recovery(RECREATE))
    with pytest.raises(IllegalStep, match="rung 0 left a copy behind"):
        position(unfenced, journal("0.look=sick 0.delete=left-behind"))


def test_an_act_that_failed_has_answered_nothing() -> None:
    """A mark, or a person's request, stands until some act has come to its end."""
    ladder = build(recovery(REBOOT, RECREATE))
    failed = position(ladder, journal("0.look=sick 0.act=failed"))
    done = position(ladder, journal("0.look=sick 0.act=done 0.verify=failed"))
    assert isinstance(failed, Next)
    assert isinstance(done, Next)
    assert (failed.rung, failed.completed) == (1, False)
    assert (done.rung, done.completed) == (1, True)


def test_what_is_gone_is_not_treated_in_place() -> None:
    reboot = RecoveryAction(name="REBOOT", in_place=True)
    rebuild = RecoveryAction(name="REBUILD", in_place=True)
    flow = RecoveryAction(name="mend", kind=RungKind.MISTRAL_WORKFLOW, in_place=True)
    recreate = RecoveryAction(name="RECREATE")
    assert helpless((reboot, rebuild, recreate)) == ("REBOOT", "REBUILD")
    # Of a workflow nobody knows what it does.
    assert helpless((reboot, flow)) == ("REBOOT",)
    # A policy that names nothing else is taken at its word.
    assert helpless((reboot, rebuild)) == ()
    assert without((reboot, recreate), ("REBOOT",)) == (recreate,)
    assert without((reboot,), ("REBOOT",)) == (reboot,)
