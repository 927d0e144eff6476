"""What has one owner is done by nobody else; the rooms' imports cannot say so, the source can."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaffle.engine
from yaffle.core.recovery.node_actions import NODE_ACTIONS
from yaffle.engine.cluster_actions.table import KINDS
from yaffle.model.action import ActionKind

ENGINE = Path(yaffle.engine.__file__).parent
ROOMS = ("cluster_actions", "execution", "steps")
WRITE = re.compile(r"\bstore\.write\(")
NO_ACTION = {
    "execution/executor.py": 1,  # claims; without the database nothing is claimed
    "steps/host_quarantine.py": 1,  # its owner's rounds, not an action's
}
"""How often a module of these rooms writes what is no part of an action."""


def test_actions_write_through_their_session_which_waits_while_the_database_is_away() -> None:
    found = {
        str(path.relative_to(ENGINE)): count
        for room in ROOMS
        for path in sorted((ENGINE / room).rglob("*.py"))
        if (count := len(WRITE.findall(path.read_text())))
    }
    assert found == NO_ACTION


SRC = ENGINE.parent
STATUS = {"status", "status_reason"}
MADE_WITH = {"engine/commands/adopt.py"}
"""Modules that insert a node's row, with its first status."""


def _writes_of_status(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that set a node's status by name."""
    for part in ast.walk(tree):
        if isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "set_node":
            yield from (k.lineno for k in part.keywords if k.arg in STATUS)
        elif isinstance(part, ast.Dict):
            named = {k.value for k in part.keys if isinstance(k, ast.Constant)}
            if named & STATUS and "NodeStatus." in ast.unparse(part):
                yield part.lineno
        elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Subscript):
            key = part.targets[0].slice
            if isinstance(key, ast.Constant) and key.value in STATUS:
                yield part.lineno


def test_the_status_of_a_node_is_written_as_the_table_of_its_lifecycle_says() -> None:
    found = {
        f"{name}:{line}"
        for path in sorted(SRC.rglob("*.py"))
        if (name := str(path.relative_to(SRC))) not in MADE_WITH
        for line in _writes_of_status(ast.parse(path.read_text()))
    }
    assert found == set()


def test_a_write_past_the_table_would_be_found() -> None:
    past = """
catalog.set_node(conn, node.id, now_us, status=status.value)
values = {"status": NodeStatus.ERROR.value}
values["status_reason"] = "so"
"""
    assert sorted(_writes_of_status(ast.parse(past))) == [2, 3, 4]


INCIDENT = re.compile(r"\bincidents\.add\(|\bincidents\.set_values\([^)]*\bstate=")
INCIDENT_OWNER = "engine/incidents/lifecycle.py"


def test_incidents_are_opened_and_moved_by_their_lifecycle_alone() -> None:
    found = {
        str(path.relative_to(SRC)): count
        for path in sorted(SRC.rglob("*.py"))
        if (count := len(INCIDENT.findall(path.read_text())))
    }
    assert found == {INCIDENT_OWNER: 2}, "one opener, one mover"


NAMES = re.compile(rf'"(?:{"|".join(ActionKind)})"')
NAMED_ELSEWHERE = {
    "model/action.py": len(ActionKind),
    "model/cluster_policies.py": 2,  # events of a scaling policy, Senlin's words
    "policy/type_schema.py": 1,
    "api/clustering/routes/receivers.py": 1,  # examples
    "api/examples.py": 2,
}


def test_actions_are_named_by_their_kind_and_never_by_a_word() -> None:
    found = {
        str(path.relative_to(SRC)): count
        for path in sorted(SRC.rglob("*.py"))
        if (count := len(NAMES.findall(path.read_text())))
    }
    assert found == NAMED_ELSEWHERE


def test_each_kind_of_action_has_one_row_in_one_table() -> None:
    assert sorted([*NODE_ACTIONS, *KINDS]) == sorted(ActionKind)
