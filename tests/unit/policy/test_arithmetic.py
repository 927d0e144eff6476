"""Worst-case times as a table, and every row of the hazards with numbers on both sides of its edge."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.policy.documents import STATUS, accepted, document, problems, url_mode

from yaffle.model import timing
from yaffle.policy.lint import HAZARDS, Level

EVENTS = {"type": "LIFECYCLE_EVENTS"}
COMMAND = {"name": "w", "type": "HTTP", "timeout": 100}

# version, parts, (detect, seen by all, prepare, fence, recover)
TABLE: list[Any] = [
    pytest.param("1.3", {}, (47, 47, 45, 24, 628), id="status"),
    pytest.param("1.2", {}, (88, 88, 45, 24, 616), id="status-read-twice-in-1.2"),
    pytest.param("1.3", {"modes": [url_mode()]}, (35, 35, 18, 24, 610), id="url"),
    pytest.param("1.2", {"modes": [url_mode()]}, (76, 76, 42, 24, 615), id="url-3-attempts"),
    pytest.param("1.3", {"modes": [STATUS, url_mode()]}, (47, 35, 45, 24, 628), id="any"),
    pytest.param(
        "1.3",
        {"modes": [STATUS, url_mode()], "detection": {"recovery_conditional": "ALL_FAILED"}},
        (47, 47, 45, 24, 628),
        id="all",
    ),
    pytest.param("1.3", {"modes": [EVENTS]}, (None, None, 45, 24, 628), id="events-alone"),
    pytest.param(
        "1.3", {"modes": [EVENTS, STATUS]}, (47, 47, 45, 24, 628), id="events-and-polling"
    ),
    pytest.param(
        "1.3",
        {"detection": {"interval": 5, "fall": 2}},
        (19, 19, 30, 24, 618),
        id="short-interval-bounds-the-check",
    ),
    pytest.param(
        "1.3",
        {"actions": [{"name": "REBOOT", "timeout": 60}]},
        (47, 47, 45, 0, 88),
        id="in-place-needs-no-fence",
    ),
    pytest.param("1.3", {"recovery": {"fencing": ["COMPUTE"]}}, (47, 47, 45, 58, 628), id="fencer"),
    pytest.param(
        "1.3",
        {"actions": [COMMAND, {"name": "RECREATE", "timeout": 50}]},
        (47, 47, 85, 24, 206),
        id="two-copies-possible-twice",
    ),
    pytest.param(
        "1.3",
        {"recovery": {"evidence": {"timeout": 7}, "snapshot": {"timeout": 9}}},
        (47, 47, 101, 24, 628),
        id="evidence-and-snapshot",
    ),
    pytest.param(
        "1.3",
        {
            "actions": [COMMAND, {"name": "RECREATE", "timeout": 50}],
            "recovery": {"evidence": {"timeout": 7}, "snapshot": {"timeout": 9}},
        },
        (47, 47, 181, 24, 206),
        id="evidence-and-a-snapshot-of-two-actions",
    ),
    pytest.param(
        "1.3",
        {"recovery": {"evidence": {"timeout": 7, "console_log": False}}},
        (47, 47, 45, 24, 628),
        id="no-evidence-no-time-for-it",
    ),
    pytest.param(
        "1.3",
        {"modes": [url_mode(poll_url_timeout=9.5)], "detection": {"fall": 2}},
        (54.5, 54.5, 43.5, 24, 627),
        id="a-round-is-skipped-while-the-last-goes-on",
    ),
    pytest.param(
        "1.3", {"recovery": {"snapshot": {"take": False}}}, (47, 47, 45, 24, 628), id="no-snapshot"
    ),
]


@pytest.mark.parametrize(("version", "parts", "wanted"), TABLE)
def test_worst_case(version: str, parts: dict[str, Any], wanted: tuple[float | None, ...]) -> None:
    got = accepted(document(version, **parts)).arithmetic
    assert (got.detect_s, got.detect_seen_by_all_s, got.prepare_s, got.fence_s, got.recover_s) == (
        wanted
    )
    total = None if wanted[0] is None else sum(n for n in (wanted[0], *wanted[2:]) if n is not None)
    assert got.total_s == total
    assert got.as_json()["total_s"] == total


def test_what_is_let_finish_fits_into_the_overrun() -> None:
    """A pause that began in time, then a poll and a submit that each get the shortest deadline."""
    assert timing.POLL_MAX_S + 2 * (timing.CALL_MIN_S + timing.CALL_GRACE_S) <= timing.OVERRUN_S


def test_lines_for_people() -> None:
    got = accepted(document(modes=[STATUS, url_mode()], detection={"interval": 2})).arithmetic
    assert got.lines() == (
        "detect + prepare + fence + recover <= 669.6 s",
        (
            "detect <= 12.6 s (ANY_FAILED: 0:NODE_STATUS_POLLING 12.6 s, 1:NODE_STATUS_POLL_URL"
            " 8.6 s; 8.6 s when every mode sees the failure)"
        ),
        "fall 3: 3 failed looks in a row make a node unhealthy",
        "prepare <= 21 s (5 s to decide; looking again before each action, 16 s)",
        "fence <= 24 s, recover <= 612 s",
        "a new or changed node is left alone for up to 60 s first",
        "guards, budgets, further attempts and our own outages come on top: `yaffle why NODE` tells",
    )
    older = accepted(document("1.2")).arithmetic.lines()
    assert (
        "fall 1: 1 failed look makes a node unhealthy; one at the status is repeated at once before"
        " it counts"
    ) in older
    assert "not bounded" in accepted(document(modes=[EVENTS])).arithmetic.lines()[0]


# code -> parts that are unsafe, parts that are just safe, words of the sentence
UNSAFE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "timeout-reaches-interval": (
        {"modes": [url_mode(poll_url_timeout=10)]},
        {"modes": [url_mode(poll_url_timeout=9.9)]},
        "options.poll_url_timeout: one attempt may take 10 s and checks come every 10 s",
    ),
    "retries-exceed-interval": (
        {"modes": [url_mode(poll_url_retry_limit=4, poll_url_timeout=1)]},
        {"modes": [url_mode(poll_url_retry_limit=3, poll_url_timeout=1)]},
        "4 attempts of 1 s, 3 s apart, take up to 13 s and checks come every 10 s",
    ),
    "grace-short": (
        {"detection": {"node_update_timeout": 29}},
        {"detection": {"node_update_timeout": 30}},
        "left alone for 29 s, less than 3 checks of 10 s; give at least 30",
    ),
    "in-flight-over-threshold": (
        {"recovery": {"limits": {"max_unhealthy": 2, "max_in_flight": 3}}},
        {"recovery": {"limits": {"max_unhealthy": 2, "max_in_flight": 2}}},
        "3 recoveries at once, but more than 2 unhealthy nodes stop all",
    ),
    "cooldown-short": (
        {"recovery": {"retry": {"backoff": 9}}},
        {"recovery": {"retry": {"backoff": 10}}},
        "may come after 9 s, before the next check (10 s)",
    ),
    "backoff-order": (
        {"recovery": {"retry": {"backoff": 60, "max_backoff": 59}}},
        {"recovery": {"retry": {"backoff": 60, "max_backoff": 60}}},
        "59 s is less than backoff (60 s)",
    ),
    "stable-short": (
        {"recovery": {"retry": {"stable_after": 19}}},
        {"recovery": {"retry": {"stable_after": 20}}},
        "forgotten after 19 s, before 2 checks of 10 s have passed",
    ),
    "restore-without-take": (
        {"recovery": {"snapshot": {"take": False, "restore": True}}},
        {"recovery": {"snapshot": {"take": True, "restore": True}}},
        "nothing to restore without take: true",
    ),
    "force-recreate-unfenced": (
        {"recovery": {"node_force_recreate": True}},
        {"recovery": {"node_force_recreate": True, "fencing": ["COMPUTE"]}},
        "your consent to two copies of a node",
    ),
    "no-storm-limit": (
        {"recovery": {"limits": {"max_unhealthy": "100%"}}},
        {"recovery": {"limits": {"max_unhealthy": "99.5%"}}},
        "at 100% the storm limit never holds anything",
    ),
    "hair-trigger": (
        {"detection": {"fall": 1}, "modes": [url_mode()]},
        {"detection": {"fall": 2}, "modes": [url_mode()]},
        "one failed check (1 attempts within 1 s) gets the node recreated",
    ),
}


def test_every_row_is_tried() -> None:
    assert [hazard.code for hazard in HAZARDS] == list(UNSAFE)


@pytest.mark.parametrize("hazard", HAZARDS, ids=lambda hazard: hazard.code)
def test_hazard(hazard: Any) -> None:
    unsafe, safe, words = UNSAFE[hazard.code]
    refused = hazard.level is Level.REFUSED
    found = problems(document(**unsafe)) if refused else accepted(document(**unsafe)).warnings
    (line,) = [line for line in found if line.endswith(f"[{hazard.code}]")]
    assert words in line
    assert not any(hazard.code in line for line in accepted(document(**safe)).warnings)


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("grace-short", {"detection": {"node_update_timeout": 59}}),
        ("retries-exceed-interval", {"modes": [url_mode(poll_url_retry_limit=16)]}),
        ("timeout-reaches-interval", {"modes": [url_mode(poll_url_retry_interval=600)]}),
        ("hair-trigger", {"modes": [url_mode()]}),
        ("force-recreate-unfenced", {"recovery": {"node_force_recreate": True}}),
    ],
)
def test_old_documents_are_warned_and_work_on(code: str, parts: dict[str, Any]) -> None:
    assert any(f"[{code}]" in line for line in accepted(document("1.2", **parts)).warnings)


def test_a_guard_of_zero_still_lets_one_node_heal() -> None:
    recovery = accepted(document(recovery={"limits": {"max_unhealthy": 0}})).policy.recovery
    assert recovery.limits.max_in_flight == 1
