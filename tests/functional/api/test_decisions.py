"""What was decided, over a real socket: with what it was made from, and whether it still agrees."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.functional.api.live import POLICY, Live, pid_of

from yaffle.store.tables import decisions

OBSERVE = POLICY.replace("  recovery:\n", "  recovery:\n    mode: observe\n")


@pytest.fixture(scope="module")
def held(healing: Live) -> Live:
    """One node that would be healed and is held, since its policy only observes."""
    healing.profile("sleeper")
    healing.policy("observe", OBSERVE)
    healing.cluster("web", "sleeper", 1, "observe")
    found = healing.until("/clusters/web", lambda a: a["cluster"]["health"]["healthy"] == 1)
    os.kill(pid_of(found["cluster"]["nodes"][0]), signal.SIGKILL)
    healing.until(
        "/nodes/web-1/why", lambda a: (a["why"]["held"] or {}).get("reason") == "observe-mode"
    )
    return healing


def check(live: Live, query: str = "") -> Any:
    return live.call("GET", f"/decisions/check{query}")["check"]


def tamper(live: Live, seq: int, **values: object) -> dict[str, Any]:
    """Change a stored row as nobody should; return how it was."""

    def work(conn: Any) -> dict[str, Any]:
        mine = decisions.c.seq == seq
        before = conn.execute(select(decisions).where(mine)).mappings().one()
        conn.execute(update(decisions).where(mine).values(**values))
        return {name: before[name] for name in values}

    return live.write(work)


def test_a_decision_is_listed_with_all_that_it_was_made_from(held: Live) -> None:
    found = held.call("GET", "/decisions?node=web-1")
    one = found["decisions"][-1]
    assert (one["node"], one["kind"], one["reason"]) == ("web-1", "hold", "observe-mode")
    assert one["recheck"] == {"agrees": True, "why": ""}
    record = one["inputs"]["record"]
    assert record["healing"]["mode"] == "observe"
    assert record["believed"]["heard"][0]["last"]["code"] in {"ST-GONE", "ST-DOWN"}
    assert found["last"] == one["seq"]
    assert held.call("GET", f"/decisions?after={found['last']}")["decisions"] == []
    assert held.call("GET", "/decisions?node=web-1&within_s=0.000001")["decisions"] == []
    assert len(json.dumps(one["inputs"])) < 4096


def test_why_says_that_it_was_decided_once_more(held: Live) -> None:
    lines = held.call("GET", "/nodes/web-1/why")["why"]["lines"]
    assert "Decision replayed from its record: consistent." in lines
    told = "More about it: `yaffle explain observe-mode` (docs/runbook/observe-mode.md)"
    assert told in lines


def test_a_row_that_was_changed_is_found(held: Live) -> None:
    clean = check(held)
    assert clean["checked"] == clean["agreed"] > 0
    assert clean["disagreed"] == []
    one = held.call("GET", "/decisions?node=web-1")["decisions"][-1]
    before = tamper(held, one["seq"], numbers={**one["numbers"], "sick": 41})
    try:
        found = check(held)
        assert found["agreed"] == found["checked"] - 1
        (differs,) = found["disagreed"]
        assert (differs["seq"], differs["node"]) == (one["seq"], "web-1")
        assert (differs["stored"], differs["recomputed"]) == (41, 1)
        assert check(held, f"?after={one['seq']}")["disagreed"] == []
        lines = held.call("GET", "/nodes/web-1/why")["why"]["lines"]
        assert any("it does NOT come to the same: numbers.sick" in line for line in lines)
    finally:
        tamper(held, one["seq"], **before)


def test_a_row_of_an_older_version_is_counted_apart(held: Live) -> None:
    one = held.call("GET", "/decisions?node=web-1")["decisions"][-1]
    inputs = {k: v for k, v in one["inputs"].items() if k != "record"}
    before = tamper(held, one["seq"], inputs=inputs)
    try:
        found = check(held)
        assert (found["not_recheckable"], found["disagreed"]) == (1, [])
        lines = held.call("GET", "/nodes/web-1/why")["why"]["lines"]
        assert any(line.startswith("It cannot be decided once more: ") for line in lines)
    finally:
        tamper(held, one["seq"], **before)


@pytest.mark.parametrize("query", ["?within_s=0", "?after=-1", "?limit=0", "?node=nobody"])
def test_what_cannot_be_asked(held: Live, query: str) -> None:
    want = 404 if "nobody" in query else 400
    held.call("GET", f"/decisions/check{query}", want=want)
