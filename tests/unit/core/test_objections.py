"""What may be done to a node whose state may be somebody's wish: the table itself, and who reads it."""

from __future__ import annotations

import pytest

from yaffle.core.recovery.objections import (
    BY_ACTOR,
    BY_HINDRANCE,
    MAY_ACT,
    Harm,
    Objection,
    harm_of,
    may_be_wished,
    of_cause,
    of_reading,
)
from yaffle.model.operations import Actor, Cause, Hindrance, Reading
from yaffle.model.policy import RecoveryAction, RungKind

OFF = Reading(exists=True, up=False, backend_status="SHUTOFF", detail="it is off")


def reading(**more: object) -> Reading:
    given = {"exists": True, "up": False, "backend_status": "SHUTOFF", "detail": "it is off"}
    return Reading(**{**given, **more})  # type: ignore[arg-type]


def test_only_what_nobody_objects_to_may_cost_a_copy() -> None:
    losing = {o for (o, harm), may in MAY_ACT.items() if may and harm is Harm.LOSES}
    assert losing == {Objection.NONE}
    keeping = {o for (o, harm), may in MAY_ACT.items() if may and harm is Harm.KEEPS}
    assert keeping == {Objection.NONE, Objection.UNTOLD}
    assert set(MAY_ACT) == {(o, h) for o in Objection for h in Harm}


def test_not_told_and_not_asked_are_two_answers_and_neither_is_nobody() -> None:
    assert set(BY_ACTOR) == set(Actor)
    assert [actor for actor, found in BY_ACTOR.items() if found is Objection.NONE] == [Actor.NOBODY]
    assert BY_ACTOR[Actor.UNKNOWN] is Objection.UNTOLD
    assert BY_ACTOR[Actor.UNASKED] is Objection.UNASKED
    wished = {actor for actor, found in BY_ACTOR.items() if found is Objection.WISHED}
    assert wished == {Actor.USER, Actor.OURSELVES}


def test_each_way_in_which_an_act_fails_is_told_from_the_others() -> None:
    """Only one that was tried and has failed lets a stronger one follow."""
    assert BY_HINDRANCE == {
        Hindrance.NONE: Objection.NONE,
        Hindrance.UNASKED: Objection.UNASKED,
        Hindrance.BARRED: Objection.LOCKED,
        Hindrance.OVER: Objection.OVER,
    }


@pytest.mark.parametrize(
    ("name", "kind", "in_place", "harm"),
    [
        pytest.param("START", RungKind.BUILTIN, True, Harm.KEEPS, id="start"),
        pytest.param("REBOOT", RungKind.BUILTIN, True, Harm.KEEPS, id="reboot"),
        pytest.param("REBUILD", RungKind.BUILTIN, True, Harm.LOSES, id="rebuild"),
        pytest.param("STACK_UPDATE", RungKind.BUILTIN, True, Harm.LOSES, id="replaces members"),
        pytest.param("RECREATE", RungKind.BUILTIN, False, Harm.LOSES, id="recreate"),
        pytest.param("EVACUATE", RungKind.BUILTIN, False, Harm.LOSES, id="evacuate"),
        pytest.param("START", RungKind.HTTP, True, Harm.LOSES, id="a workflow's own word"),
    ],
)
def test_what_a_rung_may_cost(name: str, kind: RungKind, in_place: bool, harm: Harm) -> None:
    assert harm_of(RecoveryAction(name=name, kind=kind, in_place=in_place)) is harm


@pytest.mark.parametrize("actor", list(Actor))
def test_a_deletion_is_no_wish_to_have_the_copy_but_silence_stays_silence(actor: Actor) -> None:
    found = of_cause(Cause(actor=actor, detail="d", keeps=False), acted=False)
    assert found is (Objection.UNASKED if actor is Actor.UNASKED else Objection.NONE)


def test_what_this_recovery_did_itself_is_nobodys_wish() -> None:
    ours = Cause(actor=Actor.OURSELVES, detail="stop, req-1")
    assert of_cause(ours, acted=True) is Objection.NONE
    assert of_cause(ours, acted=False) is Objection.WISHED


def test_what_a_reading_objects_to() -> None:
    assert of_reading(OFF)[0] is Objection.NONE
    assert of_reading(reading(asked=False))[0] is Objection.UNASKED
    locked = reading(kept="it is locked")
    assert of_reading(locked) == (Objection.LOCKED, "it is locked")
    assert may_be_wished(OFF)
    assert may_be_wished(reading(up=None)), "rescued, or put away"
    assert not may_be_wished(reading(up=True)), "nobody asked for a server that does not answer"
    assert not may_be_wished(reading(exists=False))
