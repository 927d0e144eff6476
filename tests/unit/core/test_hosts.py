"""Whose failure it is: the node's, or that of its host and of all the others there."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.unit.core.build import (
    SECOND,
    STATUS,
    T0,
    cluster,
    decisions,
    memory,
    node,
    observation,
    recovery,
)

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.core.health.verdict import Belief, NodeMemory, Track
from yaffle.core.planning import host_attribution
from yaffle.core.planning.guards import as_one, count_nodes, tally
from yaffle.core.planning.host_attribution import (
    Count,
    Fault,
    HostReport,
    Share,
    Spoken,
    Word,
    key_of,
    keys_of,
    place_of,
)
from yaffle.model.health import Health, Mark
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.incident import Hold, HoldReason, Recover
from yaffle.model.policy import RecoveryAction, Threshold

HV = ModeKey("1:HYPERVISOR_STATUS_POLLING")
REBOOT, EVACUATE, RECREATE = (RecoveryAction(name=n) for n in ("REBOOT", "EVACUATE", "RECREATE"))


def one(
    name: str, health: str = "unhealthy", code: str = "L4-TIMEOUT", **changed: Any
) -> NodeMemory:
    """A node whose only mode said `code` last, and which began to fail at T0 unless told otherwise."""
    outcome = {"L7-OK": "pass", "HV-UP": "pass"}.get(code, "fail")
    mode = HV if code.startswith("HV-") else STATUS
    silent = code.startswith("L4-T")
    last = observation(outcome, mode=mode, code=code, answered=not silent)
    base = memory(
        node_id=NodeId(name),
        health=Health(health),
        tracks={mode: Track(belief=Belief.DOWN, last=last)},
        first_fail_us=T0,
    )
    return replace(base, **changed)


def seen(**changed: Any) -> HostReport:
    """Three of three nodes of host h fail with it, and the backend says that it is lost."""
    base = HostReport(
        name="h", word=Word.LOST, watched=3, sick=3, suspect=0, alive=0, shared=True, open=False
    )
    return replace(base, **changed)


# --- what a node tells ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "shares"),
    [
        pytest.param(one("a"), True, id="silent"),
        pytest.param(one("a", "suspect"), True, id="silent and doubted"),
        pytest.param(one("a", code="HV-DOWN"), True, id="its host is lost"),
        pytest.param(one("a", code="HV-GONE"), True, id="its host is unknown"),
        pytest.param(one("a", "healthy"), False, id="well"),
        pytest.param(one("a", "unknown"), False, id="nobody knows"),
        pytest.param(one("a", code="ST-DOWN"), False, id="switched off: somebody said so"),
        pytest.param(one("a", code="L4-REFUSED"), False, id="refused: somebody is there"),
        pytest.param(
            one("a", tracks={}, mark=Mark(reason="smells", by="ann", at_us=T0)), False, id="marked"
        ),
    ],
)
def test_only_silence_or_the_backends_word_speaks_of_the_host(
    one: NodeMemory, shares: bool
) -> None:
    assert host_attribution.fails_with_its_host(one) is shares


def test_of_two_modes_an_answer_outweighs_silence_but_not_the_hosts_loss() -> None:
    silent = one("a")
    off = observation("fail", code="ST-DOWN", answered=True)
    lost = observation("fail", mode=HV, code="HV-DOWN", answered=True)
    other = ModeKey("2:NODE_STATUS_POLLING")
    both = {**silent.tracks, other: Track(last=off)}
    assert not host_attribution.fails_with_its_host(replace(silent, tracks=both))
    assert host_attribution.fails_with_its_host(
        replace(silent, tracks={**both, HV: Track(last=lost)})
    )


# --- counting -------------------------------------------------------------------------------------


def test_the_nodes_of_a_host_are_counted() -> None:
    some = [one("a"), one("b", "suspect"), one("c", "healthy", "L7-OK"), one("d", code="ST-DOWN")]
    assert host_attribution.count(some) == Count(
        watched=4, sick=1, suspect=1, alive=1, word=Word.NOTHING
    )


def test_only_what_began_together_is_counted_together() -> None:
    long_ago = T0 - host_attribution.TOGETHER_US - SECOND
    some = [one("a", first_fail_us=long_ago), one("b"), one("c", first_fail_us=T0 + SECOND)]
    assert host_attribution.count(some).sick == 2
    edge = [one("a", first_fail_us=T0 - host_attribution.TOGETHER_US), one("b")]
    assert host_attribution.count(edge).sick == 2


def test_one_that_fails_anew_does_not_make_the_others_forgotten() -> None:
    """Else five that are held together would each look innocent, once the sixth flaps."""
    later = T0 + 2 * host_attribution.TOGETHER_US
    some = [*(one(n) for n in "abcde"), one("f", first_fail_us=later)]
    assert host_attribution.count(some).sick == 5


@pytest.mark.parametrize(
    ("code", "alive"),
    [
        pytest.param("L7-OK", 1, id="it answers"),
        pytest.param("L4-REFUSED", 1, id="its kernel answers"),
        pytest.param("LB-UP", 1, id="it answers a balancer"),
        pytest.param("ST-UP", 0, id="the backend repeats itself"),
        pytest.param("EV-QUIET", 0, id="the backend said nothing new"),
        pytest.param("HV-UP", 0, id="a word of the host is no answer of the node"),
    ],
)
def test_who_answers_for_itself(code: str, alive: int) -> None:
    last = observation(OUTCOMES[code].outcome.value, code=code, answered=OUTCOMES[code].answered)
    well = replace(one("b", "healthy"), tracks={STATUS: Track(belief=Belief.UP, last=last)})
    assert host_attribution.count([one("a"), well]).alive == alive
    assert host_attribution.count([one("a")]).alive == 0


def test_the_latest_word_of_the_host_counts() -> None:
    def said(code: str, at_us: int) -> NodeMemory:
        outcome = "pass" if code == "HV-UP" else "fail"
        last = observation(outcome, at_us, mode=HV, code=code, answered=True)
        return replace(one("a"), tracks={HV: Track(last=last)})

    assert host_attribution.spoken([one("a")]) is None
    assert host_attribution.spoken([said("HV-UP", T0), said("HV-DOWN", T0 + 1)]) == Spoken(
        word=Word.LOST, at_us=T0 + 1
    )
    assert host_attribution.spoken([said("HV-DOWN", T0), said("HV-UP", T0)]) == Spoken(
        word=Word.UP, at_us=T0
    )
    assert host_attribution.spoken([said("HV-ERROR", T0)]) == Spoken(word=Word.NOTHING, at_us=T0)
    asked = Spoken(word=Word.LOST, at_us=T0)
    assert host_attribution.count([one("a")], asked).word is Word.LOST
    assert host_attribution.count([said("HV-UP", T0 - 1)], asked).word is Word.UP


# --- judging --------------------------------------------------------------------------------------


def test_the_table_knows_every_case() -> None:
    assert set(host_attribution.TABLE) == set(product(Word, Share))


def test_a_host_is_lost_only_by_the_backends_own_word() -> None:
    lost = {key for key, fault in host_attribution.TABLE.items() if fault is Fault.HOST_LOST}
    assert lost == {(Word.LOST, Share.MOST), (Word.LOST, Share.LEFT)}


@pytest.mark.parametrize(
    ("host_report", "fault"),
    [
        pytest.param(seen(), Fault.HOST_LOST, id="lost"),
        pytest.param(seen(sick=1, suspect=1), Fault.HOST_LOST, id="doubted ones count"),
        pytest.param(seen(sick=1, watched=9), Fault.HOST_LOST, id="none there says otherwise"),
        pytest.param(
            seen(sick=2, alive=1), Fault.HOST_LOST, id="one says otherwise, two bear it out"
        ),
        pytest.param(seen(sick=1, alive=1), Fault.HOST_UNCLEAR, id="lost, and as many are there"),
        pytest.param(
            seen(sick=1, alive=1, shared=False), Fault.NODE, id="its own, on a host lost or not"
        ),
        pytest.param(seen(sick=1, watched=1, open=True), Fault.HOST_LOST, id="the last one left"),
        pytest.param(seen(shared=False), Fault.HOST_LOST, id="off, on a host that is lost"),
        pytest.param(seen(word=Word.UP), Fault.HOST_UNCLEAR, id="up, and all are silent"),
        pytest.param(seen(word=Word.UP, sick=1), Fault.NODE, id="up, and one is silent"),
        pytest.param(seen(word=Word.UP, shared=False), Fault.NODE, id="its own, on a host unclear"),
        pytest.param(
            seen(word=Word.UP, sick=1, watched=2, open=True), Fault.NODE, id="it is up again"
        ),
        pytest.param(seen(word=Word.NOTHING), Fault.HOST_UNCLEAR, id="nobody can say"),
        pytest.param(
            seen(word=Word.UP, watched=5), Fault.HOST_UNCLEAR, id="three of five are most"
        ),
        pytest.param(seen(word=Word.UP, sick=2, watched=4), Fault.NODE, id="half are not the most"),
        pytest.param(
            seen(word=Word.NOTHING, sick=1, watched=1), Fault.NODE, id="one node is no host"
        ),
        pytest.param(seen(word=Word.NOTHING, sick=1), Fault.NODE, id="one, and nobody can say"),
        pytest.param(
            seen(word=Word.NOTHING, sick=1, watched=1, open=True),
            Fault.HOST_UNCLEAR,
            id="it was lost, and nobody can say whether it still is",
        ),
        pytest.param(None, Fault.NODE, id="on no host"),
    ],
)
def test_whose_failure_it_is(host_report: HostReport | None, fault: Fault) -> None:
    assert host_attribution.judge(host_report) is fault


# --- deciding -------------------------------------------------------------------------------------


def on_host(name: str, host: HostReport | None, health: str = "unhealthy", **changed: Any) -> Any:
    return node(name, health, host=host, **changed)


def decide(*members: Any, **changed: Any) -> list[str]:
    how = recovery(REBOOT, RECREATE, EVACUATE, max_in_flight=9)
    view = cluster(*members, **{"how": how, "hosts": 3, **changed})
    return [
        f"{d.node_id} {d.reason}"
        if isinstance(d, Hold)
        else f"{d.node_id} {' '.join(a.name for a in d.ladder)}"
        for d in decisions(view)
    ]


FIVE = tuple(node(f"w{i}") for i in range(5))


def test_off_a_lost_host_they_are_moved_first() -> None:
    members = [on_host(n, seen()) for n in "abc"]
    assert decide(*members, *FIVE) == [f"{n} EVACUATE REBOOT RECREATE" for n in "abc"]
    doubted = [on_host("a", seen(sick=1, alive=1)), *FIVE]
    assert decide(*doubted) == ["a host-unclear"]


def test_a_policy_that_does_not_name_it_is_followed_as_it_is() -> None:
    members = [on_host(n, seen()) for n in "ab"]
    assert decide(*members, *FIVE, how=recovery(REBOOT, RECREATE))[0] == "a REBOOT RECREATE"


def test_a_person_means_what_they_ask_for() -> None:
    members = [on_host("a", seen(), requested_by="ann"), on_host("b", seen()), *FIVE]
    assert decide(*members)[0] == "a REBOOT RECREATE EVACUATE"


def test_the_cause_and_the_numbers_name_the_host() -> None:
    view = cluster(on_host("a", seen(), problem="silent"), *FIVE, hosts=3)
    (decision,) = decisions(view)
    assert isinstance(decision, Recover)
    assert decision.cause == "host-lost"
    assert decision.numbers["host"] == "h"
    assert (decision.numbers["host_sick"], decision.numbers["host_watched"]) == (3, 3)


def test_an_unclear_host_holds_all_that_are_silent_there() -> None:
    unclear = seen(word=Word.UP)
    members = [on_host("a", unclear), on_host("b", unclear), on_host("c", seen(word=Word.NOTHING))]
    assert decide(*members, *FIVE) == ["a host-unclear", "b host-unclear", "c host-unclear"]
    own = on_host("a", replace(unclear, shared=False))
    assert decide(own, *FIVE) == ["a REBOOT RECREATE EVACUATE"]


def test_what_lifts_it() -> None:
    unclear = seen(word=Word.NOTHING)
    asked = on_host("a", unclear, requested_by="ann")
    assert decide(asked, *FIVE) == ["a REBOOT RECREATE EVACUATE"]
    members = (on_host("a", unclear), *FIVE)
    assert decide(*members, released_until_us=T0 + 1) == ["a REBOOT RECREATE EVACUATE"]
    assert decide(*members, released_until_us=T0) == ["a host-unclear"]


def test_its_numbers_are_stored() -> None:
    view = cluster(on_host("a", seen(word=Word.UP, suspect=1)), *FIVE)
    (hold,) = decisions(view)
    assert isinstance(hold, Hold)
    assert hold.reason is HoldReason.HOST_UNCLEAR
    assert hold.numbers == {
        "host": "h",
        "word": "up",
        "sick": 3,
        "suspect": 1,
        "watched": 3,
        "alive": 0,
    }


# --- one failure, not as many as it has nodes -----------------------------------------------------


def counted(*members: Any, **changed: Any) -> tuple[int, int, int]:
    view = cluster(*members, **{"hosts": 3, **changed})
    found = tally(count_nodes(view, T0), view.recovery.limits, view.desired_capacity)
    return found.sick, found.suspect, found.hosts


LOST = tuple(on_host(n, seen()) for n in "abc")


def test_a_lost_host_counts_as_one() -> None:
    assert counted(*LOST, *FIVE) == (1, 0, 1)
    assert counted(*LOST, on_host("d", seen(), "suspect"), *FIVE) == (1, 0, 1)
    assert counted(*LOST, node("d", "unhealthy"), node("e", "suspect"), *FIVE) == (2, 1, 1)
    moving = replace(LOST[0], recovering=True)
    assert counted(moving, *LOST[1:], *FIVE) == (1, 0, 1)


def test_an_unclear_host_counts_as_many_as_it_has_nodes() -> None:
    members = [on_host(n, seen(word=Word.UP)) for n in "abc"]
    assert counted(*members, *FIVE) == (3, 0, 0)


@pytest.mark.parametrize(
    ("lost", "known", "allowed", "one"),
    [
        pytest.param(1, 2, 1, True, id="one of two"),
        pytest.param(1, 1, 1, False, id="all there are"),
        pytest.param(2, 2, 2, False, id="all there are, again"),
        pytest.param(2, 5, 2, True, id="as many as may be"),
        pytest.param(3, 5, 2, False, id="more than may be"),
        pytest.param(8, 99, 50, True, id="eight"),
        pytest.param(9, 99, 50, False, id="a site"),
        pytest.param(0, 3, 1, False, id="none"),
    ],
)
def test_when_hosts_count_as_one(lost: int, known: int, allowed: int, one: bool) -> None:
    assert host_attribution.may_count_as_one(lost, known, allowed) is one


def test_where_all_hosts_are_lost_every_node_counts() -> None:
    """A message bus that is away makes every host look lost: then the storm limit holds, as ever."""
    assert counted(*LOST, hosts=1) == (3, 0, 0)
    other = tuple(on_host(n, seen(name="i")) for n in "def")
    assert counted(*LOST, *other, hosts=2) == (6, 0, 0)
    assert decide(*LOST, *other, hosts=2) == [f"{n} storm" for n in "abcdef"]
    assert as_one(cluster(*LOST, *other, hosts=9)) == {"h", "i"}


def test_a_policy_that_guards_by_host_keeps_its_own_count() -> None:
    how = recovery(domain="host", max_unhealthy=Threshold(percent=40.0))
    members = [replace(m, domain="h") for m in LOST]
    assert decide(*members, *FIVE, how=how) == [
        "a domain-storm",
        "b domain-storm",
        "c domain-storm",
    ]


def test_a_lost_host_counts_as_one_in_its_zone() -> None:
    how = recovery(domain="zone", max_in_flight=9)
    members = [replace(m, domain="east") for m in (*LOST, *FIVE[:1])]
    decided = decide(*members, *FIVE[1:], how=how)
    assert decided == ["a RECREATE", "b RECREATE", "c RECREATE"]


# --- names ----------------------------------------------------------------------------------------


def test_a_key_is_as_short_as_an_id_and_names_one_host() -> None:
    long = "compute-" + "x" * 300
    assert len({host_attribution.key_of(n) for n in ("cmp1", "cmp2", long, long + "y")}) == 4
    assert {len(host_attribution.key_of(n)) for n in ("cmp1", long)} == {36}


def test_the_sentence_says_what_is_known() -> None:
    assert host_attribution.sentence(seen(suspect=2)) == (
        "host h is lost, by the backend's word; 3 of 3 nodes that we watch there fail with it,"
        " 2 more are suspected"
    )
    assert "is up" in host_attribution.sentence(seen(word=Word.UP))
    assert "may be lost or not" in host_attribution.sentence(seen(word=Word.NOTHING))


def test_a_host_is_called_by_its_cloud_too_where_there_is_one() -> None:
    assert place_of("cmp1", {}) == "cmp1"
    assert place_of("cmp1", {"cloud": "east"}) == "cmp1@east"
    assert place_of("", {"cloud": "east"}) == ""
    assert key_of("cmp1@east") != key_of("cmp1@west")
    # What an engine of before has opened under the bare name goes on.
    assert keys_of("cmp1@east") == (key_of("cmp1@east"), key_of("cmp1"))
    assert keys_of("cmp1") == (key_of("cmp1"),)
