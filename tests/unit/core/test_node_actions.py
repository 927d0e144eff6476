"""The table of actions on a node says what each is; here is what the rows must agree upon."""

from __future__ import annotations

from typing import Any

import pytest

from yaffle.core.health.node_lifecycle import TABLE
from yaffle.core.recovery.ladder import NodeActionKind
from yaffle.core.recovery.node_actions import NODE_ACTIONS, of_name
from yaffle.model.action import ActionKind


def _of(**wanted: Any) -> set[str]:
    return {
        name
        for name, kind in NODE_ACTIONS.items()
        if all(getattr(kind, key) == value for key, value in wanted.items())
    }


def test_each_shape_of_a_rung_belongs_to_one_action() -> None:
    shapes = [kind.ladder for kind in NODE_ACTIONS.values() if kind.ladder is not None]
    assert sorted(shapes) == sorted(NodeActionKind)


def test_what_changes_rows_alone_has_no_rung_and_is_no_status() -> None:
    assert _of(rows_only=True) == {"NODE_JOIN", "NODE_LEAVE"}
    for name in _of(rows_only=True):
        assert (NODE_ACTIONS[name].ladder, NODE_ACTIONS[name].begins) == (None, None)


@pytest.mark.parametrize("name", sorted(NODE_ACTIONS))
def test_what_says_that_it_is_in_progress_moves_the_status(name: str) -> None:
    kind = NODE_ACTIONS[name]
    assert bool(kind.progress) == (kind.begins is not None)
    if kind.begins is not None:
        assert TABLE[kind.begins].becomes is not None


def test_who_may_leave_anything_behind() -> None:
    changing = {"NODE_CREATE", "NODE_DELETE", "NODE_UPDATE", "NODE_OPERATION"}
    assert _of(may_break_off=True) == changing


def test_who_comes_past_the_others() -> None:
    assert _of(unimpeded=True) == {"NODE_DELETE", "NODE_OPERATION"}
    assert _of(urgent=True) == {"NODE_RECOVER", "NODE_JOIN", "NODE_LEAVE"}
    assert _of(looks=True) == {"NODE_RECOVER", "NODE_CHECK"}


def test_a_name_that_is_not_known_has_nothing() -> None:
    assert of_name("NODE_DANCE").begins is None
    assert of_name("NODE_DANCE").ladder is None
    assert of_name(ActionKind.NODE_CREATE) is NODE_ACTIONS["NODE_CREATE"]
