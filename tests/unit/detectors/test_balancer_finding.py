"""Which pool is a cluster's: by addresses, only when it is the one, and never for longer than a while."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from yaffle.drivers.detectors.load_balancer.pool import Failed, Listed, Member
from yaffle.drivers.detectors.load_balancer.pool_discovery import (
    FOUND_S,
    KEPT,
    MISSING_S,
    Finds,
    find,
    indexed,
)
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.operations import Target


def node(name: str, ip: str = "", port: object = None, cluster: str = "c") -> Target:
    attributes = {"node_ip": ip, "port": port} if ip else {}
    return Target(
        node_id=NodeId(name),
        name=name,
        physical_id=name,
        cluster_id=ClusterId(cluster),
        profile_type="made.up-1.0",
        spec={},
        attributes=attributes,
    )


def pool(name: str, *addresses: str) -> Listed:
    members = [
        Member(name=f"{name}-{n}", address=address, code="LB-UP", words="UP")
        for n, address in enumerate(addresses)
    ]
    return Listed(pool=name, name=name, members=members)


A, B, C = node("a", "10.0.0.1"), node("b", "10.0.0.2"), node("c", "10.0.0.3")


@pytest.mark.parametrize(
    ("nodes", "pools", "found"),
    [
        pytest.param([A, B], [pool("web", "10.0.0.1:80", "10.0.0.2:80")], "web", id="all"),
        pytest.param([A, B, C], [pool("web", "10.0.0.1:80", "10.0.0.2:80")], "web", id="most"),
        pytest.param(
            [A, B, node("x")],
            [pool("web", "10.0.0.1:80", "10.0.0.2:80")],
            "web",
            id="one has no address",
        ),
        pytest.param(
            [A],
            [pool("web", "10.0.0.1:80"), pool("api", "10.0.0.9:80")],
            "web",
            id="beside another",
        ),
        pytest.param(
            [node("v6", "2001:db8:0::1")], [pool("web", "[2001:db8::1]:80")], "web", id="IPv6"
        ),
        pytest.param(
            [node("p", "10.0.0.1", 81)],
            [pool("web", "10.0.0.1:80"), pool("api", "10.0.0.1:81")],
            "api",
            id="by its port",
        ),
    ],
)
def test_the_one_that_has_most_is_it(
    nodes: Sequence[Target], pools: Sequence[Listed], found: str
) -> None:
    one = find(nodes, indexed(pools))
    assert isinstance(one, Listed), one
    assert one.pool == found


@pytest.mark.parametrize(
    ("nodes", "pools", "code", "why"),
    [
        pytest.param(
            [A, B],
            [pool("web", "10.0.0.1:80", "10.0.0.2:80"), pool("api", "10.0.0.2:81")],
            "LB-AMBIGUOUS",
            "2 pools have the nodes' addresses: web, api; name one",
            id="a second has a single one",
        ),
        pytest.param(
            [A, B], [pool("web", "10.0.0.1:80")], "LB-NO-POOL", "of 1 of 2 nodes only", id="half"
        ),
        pytest.param(
            [A, *(node(f"x{n}") for n in range(9))], [pool("web", "10.0.0.1:80")], "LB-NO-POOL",
            "of 1 of 10 nodes only", id="one of ten has an address",
        ),
        pytest.param([A], [pool("web", "10.0.0.9:80")], "LB-NO-POOL", "none of its 1", id="none"),
        pytest.param([A], [], "LB-NO-POOL", "none of its 0", id="no pools"),
        pytest.param(
            [node("web-0")], [pool("web", "10.0.0.9:80")], "LB-NO-POOL", "no node has an address",
            id="a name is no address",
        ),
        pytest.param([A], [pool("web", "")], "LB-NO-POOL", "level operator", id="not shown"),
        pytest.param(
            [node("p", "10.0.0.1", 81)], [pool("web", "10.0.0.1:80")], "LB-NO-POOL", "none of",
            id="another port",
        ),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_not_guessed(
    nodes: Sequence[Target], pools: Sequence[Listed], code: str, why: str
) -> None:
    one = find(nodes, indexed(pools))
    assert isinstance(one, Failed)
    assert one.code == code
    assert why in one.why


def test_many_candidates_are_named_in_part() -> None:
    one = find([A], indexed([pool(f"p{n}", "10.0.0.1:80") for n in range(9)]))
    assert isinstance(one, Failed)
    assert "9 pools" in one.why
    assert "p4, …;" in one.why


def test_what_was_found_holds_for_a_while_and_for_those_nodes() -> None:
    finds, web = Finds(), pool("web", "10.0.0.1:80")
    assert finds.known("edge", [A], 0.0) is None
    short = indexed([web]).pools[0]
    finds.keep("edge", [A, B], short, 0.0)
    for nodes in ([A, B], [B]):
        known = finds.known("edge", nodes, FOUND_S - 1)
        assert isinstance(known, Listed)
        assert (known.pool, known.members) == ("web", ())
    assert finds.known("edge", [A, C], 1.0) is None, "a new node may be in another pool"
    assert finds.known("rim", [A], 1.0) is None
    assert finds.known("edge", [node("a", cluster="d")], 1.0) is None
    assert finds.known("edge", [A], FOUND_S) is None
    finds.drop("edge", [A])
    assert finds.known("edge", [A], 1.0) is None


def test_what_was_missing_is_looked_for_sooner() -> None:
    finds = Finds()
    finds.keep("edge", [A], Failed(code="LB-NO-POOL", why="x"), 0.0)
    assert isinstance(finds.known("edge", [A], MISSING_S - 1), Failed)
    assert finds.known("edge", [A], MISSING_S) is None


def test_no_more_is_kept_than_there_is_room() -> None:
    finds, web = Finds(), pool("web", "10.0.0.1:80")
    for number in range(KEPT + 1):
        finds.keep("edge", [node("n", "10.0.0.1", cluster=f"c{number}")], web, 0.0)
    assert finds.known("edge", [node("n", cluster="c0")], 1.0) is None
    assert finds.known("edge", [node("n", cluster="c1")], 1.0) is not None
