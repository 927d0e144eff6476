"""The judge can say no: for each rule a history that keeps it, and one that breaks it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from tests.chaos.diary import Made
from tests.chaos.fleet.evidence import (
    CUT_OFF,
    SECOND,
    Change,
    Deed,
    History,
    Holder,
    Look,
    Row,
    Session,
    Sight,
    State,
)
from tests.chaos.fleet.judge import faults
from tests.chaos.receiver import News

T0 = 1_000 * SECOND
LEASE_S = 3.0
LEASE_US = int(LEASE_S * SECOND)
A, B = "engine-a", "engine-b"
CLUSTER, ACTION, NODE, OPERATION = "cluster-1", "action-1", "node-1", "operation-1"


def at(seconds: float) -> int:
    return T0 + int(seconds * SECOND)


DECISION: Row = {
    "seq": 1, "cluster_id": CLUSTER, "node_id": NODE, "kind": "recover", "reason": None,
    "numbers": "{}", "inputs": "{}", "policy_id": "", "policy_version": "", "at_us": T0,
    "until_us": None,
}  # fmt: skip


def look(number: int, *, owner: str = A, worker: str = A, **over: object) -> Look:
    """One look a tenth of a second after the other; both engines renew all the time."""
    now_us = at(number / 10)
    epoch = {A: 1, B: 2, "": 0}
    fresh = now_us + LEASE_US - SECOND
    values: dict[str, object] = {
        "at_us": now_us,
        "db_us": now_us,
        "watches": {CLUSTER: Holder(owner, epoch[owner], fresh if owner else 0)},
        "running": {ACTION: Holder(worker, epoch[worker], fresh)},
        "sessions": {
            A: Session(11, 1, now_us - SECOND, None),
            B: Session(12, 2, now_us - SECOND, None),
        },
        **over,
    }
    return Look(**values)  # type: ignore[arg-type]


def step(seq: int, epoch: int, **over: object) -> Row:
    return {
        "action_id": ACTION, "seq": seq, "epoch": epoch, "stage": "create", "phase": "intent",
        "operation_id": f"operation-{seq}", "submitted_us": None, "ended_us": None, **over,
    }  # fmt: skip


def wrote(number: int, table: str, row: Row, before: Row | None = None) -> Change:
    key = f"{row['action_id']}/{row['seq']}" if table == "steps" else str(row["id"])
    return Change(number, table, key, before, row)


ACTION_ROW: Row = {
    "id": ACTION, "node_id": NODE, "status": "RUNNING", "owner": A, "epoch": 1, "end_us": None,
    "created_us": at(2), "action": "NODE_RECOVER",
}  # fmt: skip
NODE_ROW: Row = {
    "id": NODE, "name": "n-1", "grace_us": at(0), "physical_id": "p", "cluster_id": CLUSTER,
    "made_us": at(0), "status": "ACTIVE",
}  # fmt: skip
INCIDENT: Row = {
    "id": "incident-1", "node_id": NODE, "node_name": "n-1", "state": "recovered",
    "opened_us": at(3), "ended_us": at(8), "open_key": None,
}  # fmt: skip
EVENTS: tuple[Row, ...] = tuple(
    {"seq": n, "action": "INCIDENT", "status": s, "incident_id": "incident-1", "oname": "n-1"}
    for n, s in enumerate(["open", "recovering", "recovered"], start=1)
)
OUTBOX: tuple[Row, ...] = tuple(
    {"id": f"message-{n}", "event_seq": n, "state": "accepted", "last_error": ""} for n in (1, 2, 3)
)
UP = (State(at(-60), "started", None), State(at(-50), "at work", able=True))


def went_back(kept_s: float) -> tuple[Deed, ...]:
    """The database goes back to what it was at `kept_s`, and a person lets it go on."""
    return (
        Deed(at(kept_s), "database kept"), Deed(at(8), "went back", "", at(8.2)),
        Deed(at(8.4), "lifted"),
    )  # fmt: skip


def clean(**over: object) -> History:
    """A node died at 2 s and was healed at 6 s by one engine; 20 s in all."""
    values: dict[str, object] = {
        "lease_s": LEASE_S,
        "detect_s": 5.0,
        "looks": tuple(look(n) for n in range(200)),
        "changes": (
            wrote(0, "nodes", NODE_ROW),
            wrote(31, "actions", ACTION_ROW),
            wrote(32, "steps", step(0, 1, stage="fence")),
            wrote(35, "steps", step(1, 1, operation_id=OPERATION)),
            wrote(
                70, "actions", {**ACTION_ROW, "status": "SUCCEEDED", "end_us": at(7)}, ACTION_ROW
            ),
        ),
        "sights": (
            Sight(at(0), {"n-1": ((101, "R"),)}),
            Sight(at(2), {}),
            Sight(at(6), {"n-1": ((102, "R"),)}),
        ),
        "engines": {"a": UP, "b": UP},
        "pids": {11: "a", 12: "b"},
        "made": (Made("n-1", 102, at(6), OPERATION),),
        "news": (News("incident-1", 1, "open"), News("incident-1", 3, "recovered")),
        "arrived_us": {f"message-{n}": at(9) for n in (1, 2, 3)},
        "tables": {
            "incidents": (INCIDENT,),
            "events": EVENTS,
            "outbox": OUTBOX,
            "actions": ({**ACTION_ROW, "end_us": at(7)},),
            "steps": (step(0, 1), step(1, 1, operation_id=OPERATION)),
            "proofs": ({"action_id": ACTION, "method": "kill"},),
        },
        **over,
    }
    return History(**values)  # type: ignore[arg-type]


def tables(**over: object) -> dict[str, object]:
    return {**clean().tables, **over}


def with_changes(*more: Change) -> tuple[Change, ...]:
    return tuple(sorted((*clean().changes, *more), key=lambda c: c.look))


def killed(number: int, *, taken: int, by: str = B, **over: object) -> History:
    """Engine a is killed at look `number`; b has the watch and the action from look `taken` on."""
    lease_us = at(number / 10) + LEASE_US - SECOND
    seen = Session(11, 1, at(number / 10) - SECOND, None)

    def one(n: int) -> Look:
        found = look(n)
        if n < number:
            return found
        sessions = {**found.sessions, A: seen}
        if n >= taken:
            return dataclasses.replace(look(n, owner=by, worker=by), sessions=sessions)
        held = {CLUSTER: Holder(A, 1, lease_us)}, {ACTION: Holder(A, 1, lease_us)}
        return dataclasses.replace(found, watches=held[0], running=held[1], sessions=sessions)

    dead = (*UP, State(at(number / 10), "killed", able=False))
    return clean(looks=tuple(one(n) for n in range(200)), engines={"a": dead, "b": UP}, **over)


def away(first: int, last: int) -> tuple[Look, ...]:
    """The database does not answer for a while."""
    return tuple(Look(at(n / 10), None) if first <= n < last else look(n) for n in range(200))


CLEAN: dict[str, Callable[[], History]] = {
    "nothing but a healing": clean,
    "taken over in time": lambda: killed(100, taken=138),
    "nobody could take over": lambda: dataclasses.replace(
        killed(100, taken=180),
        engines={
            "a": (*UP, State(at(10), "killed", able=False)),
            "b": (*UP, State(at(9), "frozen", able=False), State(at(17.5), "thawed", None)),
        },
    ),
    "the database was away": lambda: clean(looks=away(50, 150)),
    "the machine was too busy to tell": lambda: killed(
        100, taken=160, late=((at(12), SECOND), (at(13), SECOND), (at(14), SECOND))
    ),
    "an engine cut off from the nodes needs its time": lambda: dataclasses.replace(
        killed(100, taken=175),
        engines={"a": (*UP, State(at(10), CUT_OFF, able=False)), "b": UP},
    ),
    "the successor goes on under its own epoch": lambda: clean(
        changes=with_changes(
            wrote(40, "actions", {**ACTION_ROW, "epoch": 2}),
            wrote(41, "steps", step(2, 2)),
        )
    ),
    "an older engine takes over from a younger one": lambda: clean(
        changes=with_changes(
            wrote(40, "actions", {**ACTION_ROW, "owner": B, "epoch": 2}),
            wrote(41, "steps", step(2, 2)),
            wrote(44, "actions", ACTION_ROW),
            wrote(46, "steps", step(3, 1)),
        )
    ),
    "one call that had begun before a freeze": lambda: dataclasses.replace(
        killed(
            100,
            taken=138,
            changes=with_changes(wrote(99, "steps", step(2, 1, action_id="action-2"))),
            made=(Made("n-1", 103, at(13.6), "operation-2"),),
        ),
        engines={"a": (*UP, State(at(10), "frozen", able=False)), "b": UP},
    ),
    "a state is put back in which a dead engine has an action": lambda: clean(
        looks=tuple(
            look(
                n,
                owner=B,
                worker=B,
                era=int(n >= 60),
                sessions={**look(n).sessions, A: Session(11, 1, at(0), at(1))},
            )
            for n in range(61)
        ),
        changes=(wrote(60, "actions", ACTION_ROW),),
        made=(),
    ),
    "a state is put back in which an action has had two hands": lambda: clean(
        looks=tuple(look(n, era=int(n >= 40) + int(n >= 42)) for n in range(201)),
        changes=with_changes(
            wrote(36, "actions", {**ACTION_ROW, "epoch": 2}, ACTION_ROW),
            wrote(45, "actions", {**ACTION_ROW, "epoch": 2}),
            wrote(45, "steps", step(0, 1)),
            wrote(45, "steps", step(1, 1, operation_id=OPERATION)),
        ),
    ),
    "grace begins with a new life": lambda: clean(
        changes=with_changes(
            wrote(71, "nodes", {**NODE_ROW, "grace_us": at(7), "physical_id": "q"}, NODE_ROW)
        )
    ),
    "dark for long, while somebody disturbed": lambda: clean(
        sights=(Sight(at(0), {"n-1": ((101, "R"),)}), Sight(at(9), {})),
        deeds=(Deed(at(12), "database away", "", at(16)),),
        tables=tables(incidents=(), events=(), actions=()),
    ),
    "a stop after the database went back": lambda: clean(
        looks=tuple(look(n, stopped=80 < n < 150) for n in range(200)),
        deeds=(Deed(at(7), "went back", "", at(8)), Deed(at(15), "lifted")),
    ),
    "a process, where nobody is left who wrote what the database has lost": lambda: clean(
        looks=tuple(
            look(n, sessions={A: Session(11, 1, at(0), None), B: Session(12, 2, at(0), None)})
            if n < 40
            else look(n)
            for n in range(200)
        ),
        deeds=(
            Deed(at(1), "database kept", "", at(1.2)),
            Deed(at(3), "went back", "", at(3.2)),
            Deed(at(7), "lifted"),
        ),
    ),
    "an action that was over is under way in the state that is put back": lambda: clean(
        deeds=went_back(kept_s=5), made=(Made("n-1", 102, at(9), OPERATION),)
    ),
}
BROKEN: dict[str, tuple[str, Callable[[], History]]] = {
    "a copy beside a stopped one": (
        "two_copies",
        lambda: clean(sights=(Sight(at(6), {"n-1": ((101, "T"), (102, "R"))}),)),
    ),
    "a node met the lock of another": (
        "two_copies", lambda: clean(violations=("n-1: violation 102 1",)),
    ),
    "one operation, two processes": (
        "done_twice",
        lambda: clean(
            made=(Made("n-1", 102, at(6), OPERATION), Made("n-1", 103, at(6.5), OPERATION))
        ),
    ),
    "one operation, two steps": (
        "done_twice",
        lambda: clean(tables=tables(steps=(step(0, 1), step(1, 1, operation_id="operation-0")))),
    ),
    "fenced twice": (
        "done_twice",
        lambda: clean(tables=tables(proofs=[{"action_id": ACTION, "method": "kill"}] * 2)),
    ),
    "a step of the old epoch after the new one": (
        "old_hand",
        lambda: clean(
            changes=with_changes(
                wrote(40, "actions", {**ACTION_ROW, "epoch": 2}),
                wrote(45, "steps", step(2, 1)),
            )
        ),
    ),
    "a process started long after the lease": (
        "acted_without_lease",
        lambda: killed(
            100, taken=190, changes=with_changes(wrote(99, "steps", step(2, 1, action_id="action-2"))),
            made=(Made("n-1", 103, at(15), "operation-2"),),
        ),
    ),
    "an action taken long after the lease": (
        "acted_without_lease",
        lambda: killed(
            100, taken=138, changes=with_changes(wrote(137, "actions", ACTION_ROW, None))
        ),
    ),
    "a process for an action that was over": (
        "began_after_its_end", lambda: clean(made=(Made("n-1", 102, at(9), OPERATION),)),
    ),
    "a process for an action that was over in the state that was put back, too": (
        "began_after_its_end",
        lambda: clean(deeds=went_back(kept_s=7.5), made=(Made("n-1", 102, at(9), OPERATION),)),
    ),
    "blind after going back": (
        "acted_blindly",
        lambda: clean(
            looks=tuple(look(n, stopped=n > 30) for n in range(200)),
            deeds=(Deed(at(2), "went back", "", at(3)), Deed(at(15), "lifted")),
        ),
    ),
    "blind, though an engine had written what the database has lost": (
        "acted_blindly",
        lambda: clean(
            deeds=(
                Deed(at(1), "database kept", "", at(1.2)), Deed(at(3), "went back", "", at(3.2)),
                Deed(at(7), "lifted"),
            ),
        ),
    ),
    "no stop after going back": (
        "acted_blindly",
        lambda: clean(deeds=(Deed(at(7), "went back", "", at(8)), Deed(at(15), "lifted"))),
    ),
    "taken over too late": ("uncovered", lambda: killed(100, taken=150)),
    "never taken over": ("not_taken_over", lambda: killed(100, taken=1000)),
    "given up and left": (
        "uncovered", lambda: clean(looks=tuple(look(n, owner=A if n < 50 else "") for n in range(200))),
    ),
    "held by one whose lease ran out": (
        "uncovered",
        lambda: clean(
            looks=tuple(
                look(n, watches={CLUSTER: Holder(A, 1, at(min(n / 10, 5) + 2))}) for n in range(200)
            )
        ),
    ),
    "a second grace at takeover": (
        "grace_begun_again",
        lambda: clean(
            changes=with_changes(wrote(140, "nodes", {**NODE_ROW, "grace_us": at(14)}, NODE_ROW))
        ),
    ),
    "dark, and nobody cares": (
        "lost_failures",
        lambda: clean(
            sights=(Sight(at(0), {"n-1": ((101, "R"),)}), Sight(at(9), {})),
            tables=tables(incidents=(), events=(), actions=()),
        ),
    ),
    "hung, and nobody cares": (
        "lost_failures",
        lambda: clean(
            sights=(Sight(at(0), {"n-1": ((101, "R"),)}), Sight(at(9), {"n-1": ((101, "T"),)})),
            tables=tables(incidents=(), events=(), actions=()),
        ),
    ),
    "no message": ("untold", lambda: clean(tables=tables(outbox=OUTBOX[:2]))),
    "a message that never arrived": (
        "untold", lambda: clean(arrived_us={"message-1": 1, "message-2": 1}),
    ),
    "a message given up": (
        "untold",
        lambda: clean(tables=tables(outbox=(*OUTBOX[:2], {**OUTBOX[2], "state": "failed"}))),
    ),
    "news that is overtaken": (
        "overtaken",
        lambda: clean(news=(News("incident-1", 3, "recovered"), News("incident-1", 1, "open"))),
    ),
    "a last word that is stale": (
        "overtaken", lambda: clean(news=(News("incident-1", 2, "recovering"),)),
    ),
    "a forged message": ("untold", lambda: clean(forged=("bad",))),
    "an engine that crashed": ("ended_by_itself", lambda: clean(falls=("a, pid 9, code -11",))),
    "an end that nobody was told": (
        "silent_incidents", lambda: clean(tables=tables(events=EVENTS[:2])),
    ),
    "a decision without what it was made from": (
        "decided_otherwise", lambda: clean(tables=tables(decisions=[DECISION])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_a_history_that_keeps_every_rule(name: str) -> None:
    assert faults(CLEAN[name]()) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_history_that_breaks_one(name: str) -> None:
    rule, make = BROKEN[name]
    assert rule in {fault.partition(":")[0] for fault in faults(make())}


def test_every_rule_is_broken_by_some_history() -> None:
    from tests.chaos.fleet.judge import RULES

    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in BROKEN.values()}
