"""A lost host is switched off when it has been lost for long and nothing speaks against it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yaffle.core.health.host_fencing import (
    HEARD_S,
    LONGEST_S,
    RULES,
    HostFencePolicy,
    HostFleet,
    Kept,
    LostHost,
    choose,
    is_heard,
)
from yaffle.model.host_state import HostFence, HostState

NOW_US = 1_000_000_000
LATER_US = NOW_US + 1
ALLOWED = HostFencePolicy(fence_lost=True, share=0.25)
FLEET = HostFleet(hosts=8, failed=2, policy=ALLOWED, now_us=NOW_US)
HOST = LostHost(host="h1", state=HostState.UNFENCED, since_us=1, device="bmc1")
ASKED = HostFence(asked_by="mara", why="it burns")
STORM = {"failed": 3}
FORBIDDEN = {"policy": HostFencePolicy(fence_lost=False)}


@pytest.mark.parametrize(
    ("rule", "host", "fleet", "asked_lifts"),
    [
        ("no-device", {"device": ""}, {}, False),
        ("running", {"fence": HostFence(running=True, until_us=LATER_US)}, {}, False),
        ("stopped", {}, {"stopped": True}, False),
        ("busy", {"busy": True}, {}, False),
        ("returning", {"missed": False}, {}, False),
        ("answers", {"answering": 1}, {}, False),
        ("said-up", {"said_up": True}, {}, False),
        (
            "heard",
            {"fence": HostFence(heard="nodes on it answer", heard_until_us=LATER_US)},
            {},
            False,
        ),
        ("storm", {}, STORM, True),
        ("domain-storm", {"domain": "rack1"}, {"domains": {"rack1": (4, 2)}}, True),
        ("not-allowed", {}, FORBIDDEN, True),
        ("later", {"fence": HostFence(until_us=LATER_US, said="not proved")}, {}, False),
        ("in-use", {}, {"in_use": frozenset({"bmc1"})}, False),
    ],
)
def test_each_rule_keeps_a_host_and_says_why(rule, host, fleet, asked_lifts):
    lost, seen = replace(HOST, **host), replace(FLEET, **fleet)
    assert choose([HOST], FLEET) == (["h1"], {}), "nothing speaks against it"
    chosen, kept = choose([lost], seen)
    assert (chosen, list(kept)) == ([], ["h1"])
    assert kept["h1"].says, "why is said"
    (own,) = [r for r in RULES if r.name == rule]
    assert kept["h1"] == Kept(own, own.says(lost, seen))
    asked = replace(lost, fence=replace(lost.fence, asked_by="mara"))
    assert bool(choose([asked], seen)[0]) is asked_lifts, "a person lifts what is forbidden alone"
    assert own.lifted is asked_lifts


def test_every_rule_has_its_row():
    (marks,) = [
        m for m in test_each_rule_keeps_a_host_and_says_why.pytestmark if m.name == "parametrize"
    ]
    assert [row[0] for row in marks.args[1]] == [rule.name for rule in RULES]


@pytest.mark.parametrize("state", list(HostState))
def test_a_host_that_is_not_lost_for_long_is_waited_for_unless_a_person_asks(state):
    host = replace(HOST, state=state)
    assert bool(choose([host], FLEET)[0]) is (state is HostState.UNFENCED)
    assert choose([replace(host, fence=ASKED)], FLEET)[0] == ["h1"]


@pytest.mark.parametrize(
    ("hosts", "failed", "most"),
    [(1, 1, 1), (3, 1, 1), (3, 2, 1), (8, 2, 2), (8, 3, 2), (100, 25, 25), (100, 26, 25)],
)
def test_when_many_have_failed_at_once_none_is_switched_off_and_one_always_may(hosts, failed, most):
    fleet = replace(FLEET, hosts=hosts, failed=failed)
    assert ALLOWED.most(hosts) == most
    chosen, kept = choose([HOST], fleet)
    assert bool(chosen) is (failed <= most)
    if kept:
        assert f"{failed} of {hosts} hosts have failed at once" in kept["h1"].says


@pytest.mark.parametrize(
    ("domain", "fine"), [("rack1", False), ("rack2", True), ("", True), ("rack3", True)]
)
def test_a_storm_in_one_failure_domain_keeps_its_hosts_alone(domain, fine):
    fleet = replace(FLEET, hosts=100, domains={"rack1": (8, 3), "rack2": (8, 2)}, failed=5)
    chosen, kept = choose([replace(HOST, domain=domain)], fleet)
    assert bool(chosen) is fine
    if not fine:
        assert "3 of 8 hosts of rack1 have failed at once" in kept["h1"].says


@pytest.mark.parametrize(
    ("names", "domain"),
    [
        (("cmp1", "cmp1.example.org"), "rack1"),
        (("cmp9", "cmp9.b.example.org"), "rack2"),
        (("cmp9", "cmp9"), ""),
        (("both1", "both1"), "rack1"),
    ],
)
def test_a_host_is_in_the_first_failure_domain_that_has_one_of_its_names(names, domain):
    domains = {"rack1": ("cmp1", "both*"), "rack2": ("*.b.example.org", "both*")}
    assert HostFencePolicy(domains=domains).domain_of(names) == domain


def test_one_device_is_asked_for_one_host_and_who_is_lost_longest_comes_first():
    late = replace(HOST, host="h2", since_us=9)
    early = replace(HOST, host="h3", since_us=3)
    other = replace(HOST, host="h4", since_us=9, device="bmc2")
    chosen, kept = choose([late, other, early], FLEET)
    assert (chosen, list(kept)) == (["h3", "h4"], ["h2"])
    running = replace(early, fence=HostFence(running=True, until_us=LATER_US))
    assert choose([late, running], FLEET)[0] == [], "it is asked already"


def test_what_one_engine_hears_of_a_host_keeps_all_others_from_it_for_a_while():
    until_us = NOW_US + int(HEARD_S * 1_000_000)
    fence = HostFence(heard="nodes on it answer", heard_until_us=until_us)
    for later_s, keeps in ((0, True), (HEARD_S - 1, True), (HEARD_S, False), (-LONGEST_S, False)):
        now_us = NOW_US + int(later_s * 1_000_000)
        assert is_heard(fence, now_us) is keeps, later_s
        chosen, kept = choose([replace(HOST, fence=fence)], replace(FLEET, now_us=now_us))
        assert bool(chosen) is not keeps
        assert not keeps or kept["h1"].says == "an engine hears of it: nodes on it answer"


def test_a_claim_that_nobody_ended_is_over_by_itself():
    for until_us in (NOW_US, NOW_US + 901_000_000):
        # The later one was written by a clock that was ahead.
        for running in (True, False):
            left = replace(HOST, fence=HostFence(running=running, until_us=until_us))
            assert choose([left], FLEET)[0] == ["h1"]
