"""`yaffle decision check` and `yaffle explain`: scripts read the first, people the second."""

from __future__ import annotations

import sqlite3

import pytest
from tests.functional.cli.support import Server, run_here, wait_for

from yaffle.model.incident import HoldReason


@pytest.fixture(scope="module")
def marked(shop: Server) -> str:
    """A node that is held: marked, while everything is stopped."""
    shop.ok("stop", "--all", "--reason", "a test of holds")
    shop.ok("node", "mark", "unhealthy", "web-1", "--reason", "a test of holds")
    try:
        # Not what is so, which is told at once: what was decided.
        wait_for(lambda: "stopped" in shop.ok("decision", "list", "--node", "web-1").out)
    finally:
        shop.ok("node", "mark", "healthy", "web-1")
        shop.ok("stop", "--lift")
    return "web-1"


def test_a_check_that_finds_nothing_ends_well(shop: Server, marked: str) -> None:
    done = shop.ok("decision", "check", "--since", "1h", "--json").json
    assert done["checked"] == done["agreed"] >= 1
    assert done["disagreed"] == []
    assert "come to the same, 0 do not" in shop.ok("decisions", "check", "--node", marked).out
    listed = shop.ok("decision", "list", "--node", marked).out
    assert "stopped" in listed
    assert "yes" in listed


def test_a_row_that_was_changed_ends_the_check_with_1(shop: Server, marked: str) -> None:
    seq = shop.ok("decision", "list", "--node", marked, "--json").json["last"]

    def change(reason: str) -> None:
        with sqlite3.connect(shop.state_dir / "yaffle.db", timeout=60) as conn:
            conn.execute("update decisions set reason = ? where seq = ?", (reason, seq))

    change("storm")
    try:
        done = shop.cli("decision", "check")
        assert done.code == 1
        assert "reason is stored as 'storm' and comes to 'stopped'" in done.out
        assert shop.cli("decision", "check", "--json").json["disagreed"][0]["seq"] == seq
    finally:
        change("stopped")
    assert shop.cli("decision", "check").code == 0


@pytest.mark.parametrize("reason", list(HoldReason))
def test_every_reason_is_explained_without_a_server(reason: HoldReason) -> None:
    done = run_here("explain", reason.value)
    assert done.code == 0
    assert done.out.startswith(f"# `{reason.value}`")


@pytest.mark.parametrize("page", ["database-went-back", "docs/runbook/coverage.md", "STORM"])
def test_other_pages_are_found_as_they_are_named(page: str) -> None:
    assert run_here("explain", page).out.startswith("# ")


def test_what_there_is_to_explain() -> None:
    assert "Runbook" in run_here("explain").out
    unknown = run_here("explain", "gremlins")
    assert unknown.code == 3
    assert "storm" in unknown.err
