"""The judge of hosts' bad days can say no: for each rule records that keep it, and that break it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.chaos.host_history import MACHINE, Deed, History, Power, Request

T0 = 1_000_000.0
PATIENCE_S = 25.0


def power(at_s: float, verb: str = "off", by: str = "c1", **over: object) -> Power:
    given = {
        "at_s": T0 + at_s,
        "done_s": T0 + at_s + 0.5,
        "verb": verb,
        "host": "h1",
        "by": by,
        **over,
    }
    return Power(**given)  # type: ignore[arg-type]


def deed(at_s: float, whom: str, end_s: float) -> Deed:
    return Deed(at_s=T0 + at_s, what="harm", whom=whom, end_s=T0 + end_s)


def request(at_s: float, failure_s: float, ident: str = "a", **over: object) -> Request:
    given = {
        "at_s": T0 + at_s,
        "ident": ident,
        "hostname": "one",
        "failure_s": int(T0 + failure_s),
        **over,
    }
    return Request(**given)  # type: ignore[arg-type]


LOST = power(1, by="hand")
"""It loses its power, and the cluster switches it off; later it is switched on."""
FENCED = power(3)
ON = power(20, "on", "hand")
TOLD = request(5, 3)
GOOD = History(
    names={"h1": "one"},
    members=["c1", "c2"],
    powers=[LOST, FENCED, ON],
    deeds=[deed(1, "h1", 20)],
    requests=[request(4, 3, accepted=False), TOLD],
    patience_s=PATIENCE_S,
    states={"h1": "up"},
)
LATER = [deed(1, "h1", 20), deed(100, "h1", 130)]
AGAIN = [LOST, FENCED, ON, power(101, by="hand"), power(103), power(130, "on", "hand")]
OURS = "machine"


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(GOOD, id="told once, at the second attempt"),
        pytest.param(
            replace(GOOD, powers=AGAIN, deeds=LATER, requests=[TOLD, request(105, 103, "b")]),
            id="two failures, two ids",
        ),
        pytest.param(
            replace(GOOD, powers=[LOST, FENCED, power(7, by="c2"), ON]), id="fenced twice in one outage"
        ),
        pytest.param(
            replace(GOOD, powers=[LOST, power(3, "status", OURS, said="off"), ON]), id="only read"
        ),
        pytest.param(
            replace(GOOD, powers=[*GOOD.powers, power(40, by=OURS), power(60, "on", "hand")]),
            id="an own fence within the same minute",
        ),
        pytest.param(
            replace(GOOD, powers=AGAIN, deeds=[*LATER, deed(102, "c1", 110)]),
            id="the member that fenced died with its word",
        ),
        pytest.param(
            replace(GOOD, requests=[request(80, 78)], deeds=[*GOOD.deeds, deed(4, "c2", 30)]),
            id="completed late, for the member that was to mark it was away",
        ),
        pytest.param(
            replace(
                GOOD,
                powers=[power(3, by=OURS, bmc="slow"), ON],
                requests=[],
            ),
            id="a BMC that was too slow for us proved nothing",
        ),
        pytest.param(
            replace(GOOD, powers=[power(3, bmc="lies"), ON]), id="a BMC that lies is believed"
        ),
        pytest.param(replace(GOOD, deeds=[deed(1, "c1", 3)]), id="the cluster moved its connection"),
        pytest.param(replace(GOOD, deeds=[deed(1, MACHINE, 3)]), id="the cluster was held up"),
        pytest.param(
            replace(
                GOOD,
                powers=[power(40, by=OURS), power(60, "on", "hand")],
                deeds=[],
                requests=[request(42, 40)],
                missed={"h1": [(T0 + 14, T0 + 50)]},
            ),
            id="the cluster missed for long who was well",
        ),
    ],
)  # fmt: skip
def test_a_good_day_passes(history: History) -> None:
    assert history.faults() == []


@pytest.mark.parametrize(
    ("rule", "history"),
    [
        pytest.param("unproved", replace(GOOD, powers=[LOST, ON]), id="the plug is no proof"),
        pytest.param(
            "unproved", replace(GOOD, requests=[request(3.2, 3)]), id="told before the BMC was done"
        ),
        pytest.param("unproved", replace(GOOD, powers=[power(3, bmc="dead")]), id="a dead BMC"),
        pytest.param(
            "unproved", replace(GOOD, powers=[power(3, said="error: refused")]), id="it refused"
        ),
        pytest.param(
            "unproved", replace(GOOD, powers=[power(3, "status", OURS, said="on")]), id="read: it is on"
        ),
        pytest.param(
            "unproved",
            replace(GOOD, requests=[request(105, 103, accepted=False)]),
            id="an old proof, and an attempt is enough",
        ),
        pytest.param("unproved", replace(GOOD, powers=[replace(FENCED, host="h2")]), id="another host"),
        pytest.param("unproved", replace(GOOD, requests=[request(80, 78)]), id="far too late"),
        pytest.param("untold", replace(GOOD, requests=[]), id="nobody was told"),
        pytest.param(
            "untold", replace(GOOD, requests=[replace(TOLD, accepted=False)]), id="nobody took it"
        ),
        pytest.param("untold", replace(GOOD, powers=AGAIN, deeds=LATER), id="the second outage"),
        pytest.param(
            "untold",
            replace(GOOD, powers=[*GOOD.powers, power(40), power(60, "on", "hand")]),
            id="a minute joins nothing that the cluster alone has proved",
        ),
        pytest.param(
            "untold",
            replace(GOOD, powers=[FENCED, ON], requests=[], deeds=[*GOOD.deeds, deed(10, "c1", 20)]),
            id="the member that fenced died long after",
        ),
        pytest.param(
            "untold",
            replace(GOOD, requests=[], deeds=[*GOOD.deeds, deed(1, "engine 0", 20)]),
            id="an engine that died is no excuse for what the cluster proved",
        ),
        pytest.param(
            "changed", replace(GOOD, requests=[TOLD, replace(TOLD, document="x")]), id="another payload"
        ),
        pytest.param("changed", replace(GOOD, requests=[TOLD, request(6, 3, "b")]), id="a second id"),
        pytest.param(
            "told_twice", replace(GOOD, requests=[TOLD, request(9, 9, "b")]), id="one off, two failures"
        ),
        pytest.param(
            "told_twice",
            replace(
                GOOD,
                powers=[power(3, by=OURS), power(4, "status", OURS, said="off"), ON],
                requests=[TOLD, request(9, 4, "b")],
            ),
            id="what was read back is no second failure",
        ),
        pytest.param("stray", replace(GOOD, deeds=[]), id="the cluster fenced who was well"),
        pytest.param(
            "stray",
            replace(GOOD, powers=[power(3, by=OURS)], deeds=[deed(1, "c1", 3)]),
            id="we did, while the cluster had trouble",
        ),
        pytest.param(
            "stray",
            replace(
                GOOD, powers=[power(3, by=OURS)], deeds=[], missed={"h1": [(T0 - 10, T0 + 20)]}
            ),
            id="we did, and had no patience",
        ),
        pytest.param(
            "disordered",
            replace(
                GOOD, powers=AGAIN, deeds=LATER, requests=[request(105, 103, "b"), request(106, 3)]
            ),
            id="the second failure came first",
        ),
        pytest.param("left", replace(GOOD, waiting=["alert 1: pending"]), id="an alert waits"),
        pytest.param("left", replace(GOOD, states={"h1": "fenced"}), id="a host is not up"),
        pytest.param("left", replace(GOOD, states={}), id="a host is not listed"),
        pytest.param(
            "left",
            replace(GOOD, requests=[TOLD, request(6, 4, "b", accepted=False)]),
            id="an attempt that came to nothing",
        ),
    ],
)  # fmt: skip
def test_each_rule_finds_what_breaks_it(rule: str, history: History) -> None:
    assert rule in {fault.partition(":")[0] for fault in history.faults()}, history.faults()
