"""LB_STATUS_POLLING with Octavia's answers, as a real one gave them: one request, and no guess."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.load_balancer.octavia import POOL, RECORDED, Cloud, octavia
from tests.contract.load_balancer.test_haproxy import mode, node
from tests.given import given_clock

from yaffle.drivers.detectors.load_balancer import LoadBalancerDetector
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.health import Observation, Outcome
from yaffle.model.operations import Target
from yaffle.ports import DriverContext
from yaffle.testing import check_detector

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NODES = [node("web-0"), node("a", node_ip="10.0.0.2"), node("web-2"), node("stranger")]
AS_RECORDED = ["LB-FAILED", "LB-UP", "LB-MAINT", "LB-NO-MEMBER"]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with octavia() as found:
        yield found


@pytest.fixture
def detector(cloud: Cloud, tmp_path: Path) -> LoadBalancerDetector:
    settings = {"balancers": {"lb": cloud.settings(tmp_path, timeout=60)}}
    return LoadBalancerDetector(
        DriverContext(clock=SystemClock(), state_dir=tmp_path, settings=settings)
    )


def look(
    detector: LoadBalancerDetector, pool: str = "web", deadline_s: float = 60
) -> Sequence[Observation]:
    return asyncio.run(detector.check(NODES, mode(pool), deadline_s=deadline_s))


def codes(found: Sequence[Observation]) -> list[str]:
    return [one.code for one in found]


def test_what_it_says_of_a_member_counts(cloud: Cloud, detector: LoadBalancerDetector) -> None:
    found = look(detector)
    assert codes(found) == AS_RECORDED
    assert found[0].detail == "lb/web: member web-0 is ERROR, ACTIVE"
    assert not found[0].answered, "nobody told whether it answered: we are careful"
    assert found[1].answered
    assert "admin_state_up false" in found[2].detail
    cloud.asked.clear()
    assert codes(look(detector)) == AS_RECORDED
    assert cloud.asked == [f"/v2/lbaas/pools/{POOL}/members"], "one request, the name is known"


def test_a_pool_is_found_by_its_id_and_members_over_pages(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    cloud.page = 1
    assert codes(look(detector, POOL)) == AS_RECORDED
    assert cloud.asked == [f"/v2/lbaas/pools/{POOL}/members"] * 3


@pytest.mark.parametrize(
    ("pool", "pools", "said"),
    [
        ("nope", 1, "it has no pool 'nope'"),
        ("web", 2, "it has 2 pools 'web': give the pool's id"),
        ("00000000-0000-4000-8000-000000000000", 1, RECORDED["no pool"]["body"]["description"]),
    ],
)
def test_a_pool_that_is_not_to_be_had_tells_nothing(
    cloud: Cloud, detector: LoadBalancerDetector, pool: str, pools: int, said: str
) -> None:
    cloud.pools = pools
    found = look(detector, pool)
    assert set(codes(found)) == {"LB-NO-POOL"}
    assert said in found[0].detail


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_refusal_is_no_finding(cloud: Cloud, detector: LoadBalancerDetector, status: int) -> None:
    cloud.status = status
    assert set(codes(look(detector))) == {"LB-ERROR"}


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ({"operating_status": "DRAINING"}, "LB-DRAIN"),
        ({"operating_status": "OFFLINE"}, "LB-MAINT"),
        ({"operating_status": "NO_MONITOR"}, "LB-UNCHECKED"),
        ({"operating_status": "WOBBLY"}, "LB-ODD"),
        ({"admin_state_up": False}, "LB-MAINT"),
        ({"provisioning_status": "PENDING_CREATE"}, "LB-INITIAL"),
        ({"provisioning_status": "PENDING_DELETE"}, "LB-MAINT"),
        ({"provisioning_status": "PENDING_UPDATE"}, "LB-FAILED"),
        ({"provisioning_status": "ERROR"}, "LB-UNCHECKED"),
    ],
)
def test_what_is_done_to_a_member_comes_before_how_it_is(
    cloud: Cloud, detector: LoadBalancerDetector, member: dict[str, object], code: str
) -> None:
    cloud.members[0].update(member)
    assert look(detector)[0].code == code


def test_several_members_of_one_address_are_no_finding(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    cloud.members[0]["address"] = cloud.members[1]["address"]
    assert look(detector)[1].code == "LB-AMBIGUOUS"


def test_every_promise_also_while_octavia_hangs(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    @asynccontextmanager
    async def hang() -> AsyncIterator[None]:
        cloud.hangs = threading.Event()
        try:
            yield
        finally:
            cloud.hangs.set()
            cloud.hangs = None

    # The first call of a process imports the SDK.
    look(detector)
    with given_clock() as clock:
        asyncio.run(check_detector(detector, NODES[:2], mode(), clock=clock, hang=hang))


# --- which pool, where the policy names none ---

OTHER = "11111111-0000-4000-8000-000000000000"
HERE = [node("x", node_ip="10.0.0.1"), node("y", node_ip="10.0.0.2"), node("z")]


def looked_for(detector: LoadBalancerDetector, nodes: Sequence[Target] = HERE) -> Sequence[str]:
    found = asyncio.run(detector.check(nodes, mode(""), deadline_s=60))
    return [f"{one.code}: {one.detail}" for one in found]


def test_the_pool_with_the_nodes_addresses_is_found(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    cloud.others[OTHER] = [{**cloud.members[0], "address": "10.9.9.9"}]
    cloud.others[OTHER.replace("1", "2")] = []
    sick, well, stranger = looked_for(detector)
    place = f"lb/web ({POOL}), found by the nodes' addresses: "
    assert sick == f"LB-FAILED: {place}member web-0 is ERROR, ACTIVE"
    assert well.startswith(f"LB-UP: {place}")
    assert stranger.startswith(f"LB-NO-MEMBER: {place}")
    # An administrator would see the pools of all projects, with the same addresses perhaps.
    assert cloud.queries[0]["project_id"] == ["p"]
    members = [f"/v2/lbaas/pools/{ident}/members" for ident in (POOL, OTHER)]
    assert cloud.asked == ["/v2/lbaas/pools", *members, members[0]]
    cloud.asked.clear()
    looked_for(detector)
    assert cloud.asked == members[:1], "found once, asked ever after"


def test_two_pools_with_the_nodes_addresses_are_none(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    cloud.others[OTHER] = [{**cloud.members[1], "address": "10.0.0.2"}]
    said = looked_for(detector)
    assert all(
        one.startswith("LB-AMBIGUOUS: lb: 2 pools have the nodes' addresses: ") for one in said
    )
    assert POOL in said[0]
    assert OTHER in said[0]


def test_what_cannot_be_listed_is_no_finding(cloud: Cloud, detector: LoadBalancerDetector) -> None:
    cloud.status = 503
    assert all(one.startswith("LB-ERROR: lb: ") for one in looked_for(detector))
    cloud.status = 0
    assert looked_for(detector)[1].startswith("LB-UP: ")


def test_too_many_pools_are_not_looked_through(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    for number in range(40):
        cloud.others[f"{number:08}-0000-4000-8000-000000000000"] = [cloud.members[0]]
    (said, *_) = looked_for(detector)
    assert said == "LB-NO-POOL: lb: it has more than 32 pools: name the one, options.pool"
    assert cloud.asked == ["/v2/lbaas/pools"]


def test_a_pool_that_goes_is_looked_for_anew(cloud: Cloud, detector: LoadBalancerDetector) -> None:
    cloud.others[OTHER] = [{**cloud.members[0], "address": "10.3.0.1", "name": "n"}]
    there = [node("q", node_ip="10.3.0.1")]
    assert looked_for(detector, there)[0].startswith("LB-FAILED: ")
    del cloud.others[OTHER]
    assert looked_for(detector, there)[0].startswith("LB-NO-POOL: ")
    cloud.asked.clear()
    looked_for(detector, there)
    assert "/v2/lbaas/pools" not in cloud.asked, "the list is a moment old and serves for it"


def test_a_pool_is_found_for_nodes_of_its_own_project_only(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    def of(project: str) -> Sequence[str]:
        return looked_for(detector, [replace(one, project=project) for one in HERE])

    refused = "LB-NO-POOL: lb: whether its pools are of the nodes' project is not known;"
    assert of("default")[1].startswith("LB-UP: "), "nobody tells projects apart"
    for project in ("q", "default"):
        (said, *_) = of(project)
        assert said.startswith(refused)
        assert said.endswith("name the pool in the policy")
    assert of("p")[1].startswith("LB-UP: ")


def test_of_another_project_nothing_is_said_in_the_first_look_either(
    cloud: Cloud, detector: LoadBalancerDetector
) -> None:
    said = looked_for(detector, [replace(one, project="q") for one in HERE])
    assert all(one.startswith("LB-NO-POOL: lb: whether its pools are") for one in said)
