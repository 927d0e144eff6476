"""What happened, and who serves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import Api
from tests.acceptance.world import World

MORE = frozenset({"cluster"})


@pytest.fixture(scope="module")
def cluster(world: World) -> Any:
    """A cluster of one with something of a life."""
    made = world.cluster(1)
    world.acted(made["id"], "scale_out", {"count": 1})
    world.acted(made["id"], "check", {})
    return made


def events(world: World, query: str) -> list[Any]:
    found = world.api.get(f"events?{query}")["events"]
    for event in found:
        shapes.check(event, shapes.EVENT, more=MORE)
    return list(found)


def test_the_life_of_a_cluster(world: World, cluster: Any) -> None:
    found = events(world, f"oid={cluster['id']}")
    assert {event["otype"] for event in found} == {"CLUSTER"}
    assert {event["cluster_id"] for event in found} == {cluster["id"]}
    assert {event["oname"] for event in found} == {cluster["name"]}
    for action in ("CLUSTER_CREATE", "CLUSTER_SCALE_OUT", "CLUSTER_CHECK"):
        said = [event["status"] for event in found if event["action"] == action]
        assert {"start", "end"} <= set(said), (action, said)
    times = [event["timestamp"] for event in found]
    assert times == sorted(times)


def test_the_life_of_its_nodes(world: World, cluster: Any) -> None:
    found = events(world, f"cluster_id={cluster['id']}&otype=NODE")
    assert cluster["nodes"][0] in {event["oid"] for event in found}
    assert {event["otype"] for event in found} == {"NODE"}


def test_show(world: World, cluster: Any) -> None:
    event = events(world, f"oid={cluster['id']}&limit=1")[0]
    for ident in (event["id"], event["id"][:13]):
        found = world.api.get(f"events/{ident}")
        assert list(found) == ["event"]
        shapes.check(found["event"], shapes.EVENT, more=MORE)
        assert found["event"]["id"] == event["id"]
        assert found["event"]["status_reason"] == event["status_reason"]


@pytest.mark.parametrize("ident", ["nope", "00000000-0000-4000-8000-000000000000"])
def test_unknown(api: Api, ident: str) -> None:
    message = f"The event '{ident}' could not be found."
    how: dict[str, Any] = {"status": 404, "kind": "ResourceNotFound", "message": message}
    api.refused("GET", f"events/{ident}", **how)


@pytest.mark.parametrize("level", ["CRITICAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG"])
def test_levels(world: World, cluster: Any, level: str) -> None:
    wanted = {"WARN": "WARNING"}.get(level, level)
    assert {event["level"] for event in events(world, f"level={level}")} <= {wanted}


def test_filters(world: World, cluster: Any) -> None:
    ident = cluster["id"]
    assert events(world, f"oname={cluster['name']}")
    assert events(world, f"oname={cluster['name']}&action=CLUSTER_CREATE")
    assert events(world, f"oid={ident}&level=INFO")
    assert events(world, f"oid={ident}&otype=NODE") == []
    assert events(world, "oid=nobody") == []
    one = events(world, f"oid={ident}&action=CLUSTER_CREATE")
    two = events(world, f"oid={ident}&action=CLUSTER_CREATE&action=CLUSTER_CHECK")
    assert len(two) > len(one) > 0
    assert len(events(world, f"oid={ident}&limit=2")) == 2


@pytest.mark.parametrize("query", ["level=LOUD", "otype=BOGUS", "bogus=1", "sort=bogus", "limit=x"])
def test_filters_that_are_refused(api: Api, query: str) -> None:
    answer = api.ask("GET", f"events?{query}")
    if query == "otype=BOGUS" and answer.status == 200:
        assert answer.json == {"events": []}
        return
    assert answer.status == 400, answer


def test_services(api: Api) -> None:
    found = api.get("services")
    assert list(found) == ["services"]
    assert found["services"]
    for service in found["services"]:
        shapes.check(service, shapes.SERVICE)
        assert (service["state"], service["status"]) == ("up", "enabled")
    assert "senlin-engine" in {service["binary"] for service in found["services"]}
