"""The table of hold reasons against the guards that give them, and answers in plain sentences."""

from __future__ import annotations

import string
from typing import Any

import pytest

from yaffle.engine.explain import EXPLANATIONS, Answer
from yaffle.engine.explain.answer import Doing, Held, duration
from yaffle.engine.explain.holds import MISSING, advice, sentence
from yaffle.model.incident import HoldReason

NOW = 1_795_000_000_000_000
NUMBERS: dict[HoldReason, dict[str, object]] = {
    HoldReason.STOPPED: {"pause": "p1", "scope": "all", "owner": "mara", "reason": "works"},
    HoldReason.MAINTENANCE: {"pause": "p1", "scope": "node", "owner": "mara", "reason": "disk"},
    HoldReason.DEPENDENCY_LOST: {"lost": ["prober", "database"]},
    HoldReason.BLIND: {
        "asked": 3,
        "answered": 0,
        "references_asked": 2,
        "references_answered": 0,
    },
    HoldReason.RESETTLING: {},
    HoldReason.NODE_BUSY: {"action": "NODE_DELETE"},
    HoldReason.NEEDS_HUMAN: {"attempts": 3, "allowed": 3},
    HoldReason.COOLING_DOWN: {"attempts": 1, "allowed": 3, "left_s": 12.5},
    HoldReason.HOST_UNCLEAR: {
        "host": "cmp1",
        "word": "nothing",
        "sick": 3,
        "suspect": 1,
        "watched": 5,
        "alive": 1,
    },
    HoldReason.STORM: {"sick": 3, "suspect": 1, "threshold": 1, "capacity": 5, "in_flight": 0},
    HoldReason.DOMAIN_STORM: {"domain": "az1", "sick": 2, "suspect": 0, "threshold": 1},
    HoldReason.OBSERVE_MODE: {"would": ["REBOOT", "RECREATE"]},
    HoldReason.IN_FLIGHT: {"in_flight": 2, "limit": 2},
    HoldReason.RATE: {"scope": "global", "key": "all", "burst": 20, "per_hour": 120.0},
}
"""What each guard gives (core/planning/{guards,budgets}.py); the arcs see some of them for real."""


def test_every_reason_has_a_row() -> None:
    assert set(EXPLANATIONS) == set(HoldReason)
    assert set(NUMBERS) == set(HoldReason)


@pytest.mark.parametrize("reason", list(HoldReason))
def test_a_row_uses_only_numbers_that_its_guard_gives(reason: HoldReason) -> None:
    row = EXPLANATIONS[reason]
    used = {name for _, name, _, _ in string.Formatter().parse(row.sentence) if name}
    assert used <= set(NUMBERS[reason])
    used = {name for _, name, _, _ in string.Formatter().parse(row.advice) if name}
    assert used <= {*NUMBERS[reason], "node", "cluster", "incident"}
    told = sentence(reason, NUMBERS[reason])
    assert "?" not in told
    assert told.endswith(".")
    assert advice(reason, NUMBERS[reason], node="web-1", cluster="web")


def test_a_rest_after_what_counts_as_no_try_names_none() -> None:
    told = sentence(HoldReason.COOLING_DOWN, {"attempts": 0, "allowed": 6, "left_s": 4.0})
    assert told == "It backs off after a recovery that counts as no attempt."
    lacking = {"attempts": 0, "allowed": 6, "left_s": 4.0, "missing": "the image is gone"}
    assert sentence(HoldReason.COOLING_DOWN, lacking).startswith(
        "No attempt was spent: the image is gone"
    )


def test_numbers_that_are_missing_or_strange_are_told_all_the_same() -> None:
    assert "? of ? nodes" in sentence(HoldReason.STORM, {})
    assert "prober, database" in sentence(
        HoldReason.DEPENDENCY_LOST, NUMBERS[HoldReason.DEPENDENCY_LOST]
    )
    lack = {**NUMBERS[HoldReason.COOLING_DOWN], MISSING: "the image is gone"}
    assert "No attempt was spent: the image is gone." in sentence(HoldReason.COOLING_DOWN, lack)
    hostile = sentence(HoldReason.STOPPED, {"owner": "{sick}", "reason": "{0.__class__}"})
    assert hostile == "{sick} stopped all healing: {0.__class__}."


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        pytest.param(-3.0, "0.0 s", id="not-yet"),
        pytest.param(0.25, "0.2 s", id="short"),
        pytest.param(59.9, "59 s", id="seconds"),
        pytest.param(185, "3 min 5 s", id="minutes"),
        pytest.param(3600, "1 h 0 min", id="hours"),
        pytest.param(273_600, "3 d 4 h", id="days"),
    ],
)
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def answer(**changes: Any) -> Answer:
    """Return the answer for a node that is well, with `changes`."""
    node = {
        "name": "web-1",
        "cluster_id": "c",
        "cluster": "web",
        "health": "healthy",
        "status": "ACTIVE",
        "backend_status": "running",
        "gray": False,
        "mark": None,
        "retry": {"attempts": 0, "allowed": 3, "exhausted": False, "next_at": None},
    }
    values: dict[str, Any] = {
        "now_us": NOW,
        "node": {**node, **changes.pop("node", {})},
        "called": "web-1",
        "since_us": NOW - 12_000_000,
        "believed": "",
        "watched": True,
        "policy": "heal",
        "decision": None,
        "held": None,
        "doing": None,
        "last": (),
        "bound": ("detect + prepare + fence + recover <= 53.2 s",),
    }
    return Answer(**{**values, **changes})


def test_a_healthy_node() -> None:
    first, *others = answer().lines()
    assert first.startswith("web-1 (cluster web) is healthy since 2026-11-18T11:06:28Z (12 s);")
    assert first.endswith(" status ACTIVE, the backend says 'running'.")
    assert others == [
        "We believe that because its checks pass.",
        "At worst, by policy heal: detect + prepare + fence + recover <= 53.2 s.",
    ]


TRIED = {"attempts": 1, "allowed": 3, "exhausted": False}


def test_a_held_node_says_what_you_can_do_and_when_it_ends() -> None:
    held = Held(
        reason="cooling-down",
        sentence="It backs off after attempt 1 of 3.",
        advice="Wait.",
        numbers={},
        runbook="docs/runbook/cooling-down.md",
        until_us=NOW + 90_000_000,
    )
    sick = {
        "health": "unhealthy",
        "retry": {**TRIED, "next_us": NOW + 90_000_000, "next_at": "T"},
    }
    lines = answer(held=held, believed="It refuses connections.", node=sick).lines()
    assert lines[1:] == (
        "We believe that because: It refuses connections.",
        "It is left alone (cooling-down): It backs off after attempt 1 of 3.",
        "That ends by itself at 2026-11-18T11:08:10Z (in 1 min 30 s).",
        "What you can do: Wait.",
        "More about it: `yaffle explain cooling-down` (docs/runbook/cooling-down.md)",
        "Attempts used: 1 of 3; it backs off until T.",
    )


def test_a_node_being_healed_says_the_step_and_since_when() -> None:
    doing = Doing(
        action="NODE_RECOVER",
        action_id="a",
        status="RUNNING",
        by="",
        stage="create",
        operation="RECREATE",
        since_us=NOW - 75_000_000,
        step_us=NOW - 3_000_000,
    )
    # Its rest begins with the recovery as well, and is none while that runs.
    tired = {"retry": {**TRIED, "next_us": NOW + 1, "next_at": "T"}}
    lines = answer(doing=doing, node=tired).lines()
    assert (
        "Right now: NODE_RECOVER is RUNNING, step create (RECREATE) for 3.0 s; 1 min 15 s in all."
        in lines
    )
    assert "Attempts used: 1 of 3." in lines
    assert answer(doing=doing).as_json()["doing"]["step_elapsed_s"] == 3.0  # type: ignore[index]


def test_why_it_could_not_be_helped_is_told_rung_by_rung() -> None:
    steps = [("START", "act", "it is locked"), ("RECREATE", "fence", "refused: it is locked")]
    tried = [
        {"operation": operation, "stage": stage, "result": "failed", "detail": detail}
        for operation, stage, detail in steps
    ]
    told = "The last attempt failed: START: it is locked; RECREATE, at its fence: refused: it is locked"
    assert told in answer(last_attempt=tried).lines()
    assert answer(last_attempt=tried).as_json()["last_attempt"] == tried
    assert not any("last attempt" in line for line in answer().lines())


def test_what_would_make_the_answer_worth_less_is_said() -> None:
    text = " ".join(answer(watched=False, policy="", bound=()).lines())
    assert "No engine watches it right now" in text
    assert "No health policy is in force" in text
    assert "checks pass" not in text
    bound = ("detect <= 5 s",)
    tired = (
        {"retry": {**TRIED, "attempts": 3}},
        {"retry": {**TRIED, "next_us": NOW + 1, "next_at": "T"}},
    )
    for changes in (
        {"watched": False},
        {"halted": "stop by mara: works"},
        *({"node": node} for node in tired),
    ):
        assert "At worst" not in " ".join(answer(bound=bound, **changes).lines())


def mode(belief: str, at_us: int | None = NOW - 2_000_000) -> dict[str, object]:
    return {
        "mode": f"0:{belief}",
        "belief": belief,
        "code": "L7-OK" if at_us else "",
        "detail": "200 OK" if at_us else "",
        "at_us": at_us,
        "at": None,
    }


@pytest.mark.parametrize(
    ("beliefs", "told"),
    [
        (("up", "up"), "We believe that because its checks pass."),
        (("up", "down"), "The policy takes it for unhealthy only where all of its checks fail."),
        (("up", "unknown"), "We believe that because those of its checks that can be asked pass."),
        (
            ("pending", "up"),
            "That was so before; now its checks are counted afresh, and nothing is done meanwhile.",
        ),
    ],
)
def test_why_a_node_is_taken_for_well(beliefs: tuple[str, ...], told: str) -> None:
    lines = answer(modes=tuple(map(mode, beliefs))).lines()
    assert told in lines
    assert ("because its checks pass" in " ".join(lines)) == (set(beliefs) == {"up"})


def test_a_rest_that_is_over_is_not_told() -> None:
    tired = {"retry": {**TRIED, "next_us": NOW - 1, "next_at": "T"}}
    assert "Attempts used: 1 of 3." in answer(node=tired).lines()


def test_sources_that_disagree_are_told_one_by_one() -> None:
    lines = answer(node={"gray": True}, modes=(mode("up"), mode("down"))).lines()
    assert "Check 0:up: believed up; its last answer, 2.0 s ago: 200 OK (L7-OK)." in lines
    assert "Check 0:down: believed down; its last answer, 2.0 s ago: 200 OK (L7-OK)." in lines


def test_a_source_that_warns_is_not_said_to_disagree() -> None:
    drained = {**mode("up"), "mode": "1:LB_STATUS_POLLING", "code": "LB-DRAIN", "detail": "DRAIN"}
    text = " ".join(answer(node={"gray": True}, modes=(mode("up"), drained)).lines())
    warned = (
        "One of its checks warns (gray). 1:LB_STATUS_POLLING: Well, but it takes no new sessions."
    )
    assert warned in text
    assert "disagree" not in text
    both = (mode("up"), {**mode("down"), "code": "L7-BAD"}, drained)
    text = " ".join(answer(node={"gray": True}, modes=both).lines())
    assert "Its sources disagree (gray)" in text
    text = " ".join(answer(node={"gray": True}).lines())
    assert "Its sources disagree, or one of them warns (gray)" in text


def test_a_source_that_was_never_heard_of_is_told() -> None:
    lines = answer(modes=(mode("up"), mode("unknown", None))).lines()
    assert "Check 0:unknown: believed unknown; it has not been heard of." in lines
    assert "Check 0:up: believed up; its last answer, 2.0 s ago: 200 OK (L7-OK)." in lines


def test_sources_that_agree_are_not_told_one_by_one() -> None:
    assert not any(line.startswith("Check ") for line in answer(modes=(mode("up"),)).lines())
