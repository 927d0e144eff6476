"""What has one owner is done by nobody else; the rooms' imports cannot say so, the source can."""

from __future__ import annotations

import re
from pathlib import Path

import yaffle.engine

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
