"""The table of load balancers' words: DOWN and ERROR fail, what an operator does never does."""

from __future__ import annotations

import itertools

import pytest

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.core.health.lb_member_status import HAPROXY, OCTAVIA, combined, haproxy
from yaffle.model.health import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
LB = [code for code in OUTCOMES if code.startswith("LB-")]


@pytest.mark.parametrize(("word", "code"), [*HAPROXY.items(), *OCTAVIA.items()])
def test_only_down_and_error_are_failures(word: str, code: str) -> None:
    assert (judge(code) is FAIL) is (word.startswith("DOWN") or word == "ERROR")
    aside = word.startswith(("MAINT", "no check", "OFFLINE", "NO_MONITOR", "UP (INI)"))
    assert (judge(code) is UNKNOWN) is aside
    assert (judge(code) is PASS) is (word in {"UP", "ONLINE"})


@pytest.mark.parametrize(
    ("status", "check", "detail", "code"),
    [
        ("UP", "L7OK", "HTTP status check returned code 200", "LB-UP"),
        ("UP", "* L7OK", "", "LB-UP"),
        ("UP", "", "", "LB-UP"),
        ("UP 1/2", "L7STS", "", "LB-FALLING"),
        ("UP", "INI", "", "LB-INITIAL"),
        ("UP 1/2", "* INI", "", "LB-INITIAL"),
        ("DOWN", "L7STS", "503", "LB-DOWN"),
        ("DOWN 1/2", "L7OK", "", "LB-DOWN"),
        ("DOWN (agent)", "L7OK", "", "LB-DOWN"),
        ("DOWN", "L4TOUT", "", "LB-SILENT"),
        ("DOWN", "L4CON", "Connection refused", "LB-DOWN"),
        ("DOWN", "L4CON", "No route to host", "LB-SILENT"),
        ("DOWN", "* L4CON", "", "LB-SILENT"),
        ("DOWN", "L7TOUT", "", "LB-DOWN"),
        ("NOLB", "L7OKC", "", "LB-DRAIN"),
        ("NOLB 1/2", "L7OKC", "", "LB-DRAIN"),
        ("DRAIN", "L7OK", "", "LB-DRAIN"),
        ("DRAIN 1/3", "L7STS", "", "LB-DRAIN"),
        ("DRAIN (agent)", "L7OK", "", "LB-DRAIN"),
        ("MAINT", "L4TOUT", "", "LB-MAINT"),
        ("MAINT (via web/web-1)", "", "", "LB-MAINT"),
        ("MAINT (resolution)", "", "", "LB-MAINT"),
        ("no check", "", "", "LB-UNCHECKED"),
        ("", "", "", "LB-ODD"),
        ("DOWNISH", "", "", "LB-ODD"),
        ("down", "", "", "LB-ODD"),
        ("DOWN 1/2 3/4", "", "", "LB-ODD"),
    ],
)
def test_what_haproxy_says(status: str, check: str, detail: str, code: str) -> None:
    assert haproxy(status, check, detail) == code


def test_one_balancer_has_its_own_word() -> None:
    assert [combined([code]) for code in LB] == LB


@pytest.mark.parametrize("one", LB)
@pytest.mark.parametrize("two", LB)
def test_down_needs_all_that_answer(one: str, two: str) -> None:
    both = combined([one, two])
    answers = [c for c in (one, two) if c not in {"LB-TIMEOUT", "LB-ERROR"}]
    down = bool(answers) and all(judge(c) is FAIL for c in answers)
    assert (judge(both) is FAIL) is down
    assert judge(both) is judge(combined([two, one]))
    if down:
        # One that was answered bears it out.
        assert OUTCOMES[both].answered is any(OUTCOMES[c].answered for c in answers)
    assert (judge(both) is PASS) is (
        any(judge(c) is PASS for c in answers) and not any(judge(c) is FAIL for c in answers)
    )


@pytest.mark.parametrize("codes", [*itertools.permutations(("LB-UP", "LB-DOWN", "LB-TIMEOUT"))])
def test_who_differs_is_in_doubt(codes: tuple[str, ...]) -> None:
    assert combined(codes) == "LB-SPLIT"
