"""Receivers: webhooks with their URL; what cannot be received is refused with the reason."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import Api, fresh
from tests.acceptance.world import World

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def cluster(world: World) -> Any:
    return world.cluster(0, max_size=20)


@pytest.fixture(scope="module")
def receiver(world: World, cluster: Any) -> Any:
    return world.receiver(cluster["id"], params={"count": 1})


def test_create(world: World, cluster: Any) -> None:
    before = len(world.api.get(f"actions?target={cluster['id']}")["actions"])
    body = {
        "name": fresh("receiver"),
        "type": "webhook",
        "cluster_id": cluster["name"],
        "action": "CLUSTER_RESIZE",
        "params": {"number": 2, "adjustment_type": "CHANGE_IN_CAPACITY"},
    }
    answer = world.api.post("receivers", {"receiver": body}, want=201)
    assert "location" not in answer.headers
    made = answer.json["receiver"]
    world.receivers.append(made["id"])
    shapes.check(made, shapes.RECEIVER)
    assert made["cluster_id"] == cluster["id"]
    assert made["params"] == body["params"]
    assert made["action"] == "CLUSTER_RESIZE"
    url = made["channel"]["alarm_url"]
    query = "adjustment_type=CHANGE_IN_CAPACITY&number=2"
    assert url == f"{world.api.root}/v1/webhooks/{made['id']}/trigger?V=2&{query}"
    assert len(world.api.get(f"actions?target={cluster['id']}")["actions"]) == before
    assert world.api.get(f"receivers/{made['id']}")["receiver"] == made


def test_a_url_without_params(world: World, cluster: Any) -> None:
    made = world.receiver(cluster["id"])
    assert made["params"] == {}
    assert re.search(r"/trigger\?V=2$", made["channel"]["alarm_url"])


@pytest.mark.parametrize(
    "action",
    [
        "CLUSTER_DELETE",
        "CLUSTER_UPDATE",
        "CLUSTER_RESIZE",
        "CLUSTER_SCALE_IN",
        "CLUSTER_CHECK",
        "CLUSTER_RECOVER",
        "CLUSTER_ADD_NODES",
    ],
)
def test_actions_that_a_webhook_may_start(world: World, cluster: Any, action: str) -> None:
    body = {"name": "r", "type": "webhook", "cluster_id": cluster["id"], "action": action}
    answer = world.api.ask("POST", "receivers", {"receiver": body})
    if action in {"CLUSTER_DELETE", "CLUSTER_UPDATE", "CLUSTER_ADD_NODES"}:
        assert answer.status in {201, 400, 403}, answer
    else:
        assert answer.status == 201, answer
    if answer.status == 201:
        world.receivers.append(answer.json["receiver"]["id"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"cluster_id": None},
            "Cluster identity is required for creating webhook receiver.",
        ),
        ({"cluster_id": "nope"}, "The referenced cluster 'nope' is not found."),
        ({"action": None}, None),
        ({"action": "CLUSTER_CREATE"}, None),
        ({"action": "NODE_CHECK"}, None),
        ({"action": "BOGUS"}, None),
        ({"action": 1}, None),
        ({"type": "pigeon"}, None),
        ({"type": "message"}, None),
        ({"type": None}, None),
        ({"name": None}, None),
        ({"name": "a b"}, None),
        ({"params": "x"}, None),
        ({"params": []}, None),
        ({"actor": "x"}, None),
        ({"bogus": 1}, None),
    ],
)
def test_creations_that_are_refused(
    world: World, cluster: Any, change: Any, message: str | None
) -> None:
    whole = {
        "name": "refused",
        "type": "webhook",
        "cluster_id": cluster["id"],
        "action": "CLUSTER_SCALE_OUT",
        **change,
    }
    body = {key: value for key, value in whole.items() if value is not None}
    said = world.api.refused("POST", "receivers", {"receiver": body})
    if message and "referenced" not in message:
        assert said == message
    assert world.api.get("receivers?name=refused")["receivers"] == []


def test_the_reason_why_there_are_no_messages(world: World) -> None:
    body = {"receiver": {"name": "m", "type": "message"}}
    said = world.api.refused("POST", "receivers", body)
    assert "message" in said.lower()


@pytest.mark.parametrize("body", [{}, {"receiver": []}, {"receiver": {}}, {"receivers": {}}])
def test_bodies_that_are_refused(api: Api, body: Any) -> None:
    message = "Request body missing 'receiver' key." if "receiver" not in body else None
    api.refused("POST", "receivers", body, kind="HTTPBadRequest", message=message)


@pytest.mark.parametrize("how", ["id", "name", "prefix"])
def test_show_by(world: World, receiver: Any, how: str) -> None:
    ident = {"id": receiver["id"], "name": receiver["name"], "prefix": receiver["id"][:13]}[how]
    assert world.api.get(f"receivers/{ident}")["receiver"] == receiver


@pytest.mark.parametrize("ident", ["nope", NOWHERE])
def test_unknown(api: Api, ident: str) -> None:
    how: dict[str, Any] = {
        "status": 404,
        "kind": "ResourceNotFound",
        "message": f"The receiver '{ident}' could not be found.",
    }
    api.refused("GET", f"receivers/{ident}", **how)
    api.refused("DELETE", f"receivers/{ident}", **how)
    api.refused("PATCH", f"receivers/{ident}", {"receiver": {"name": "x"}}, **how)
    api.refused("POST", f"receivers/{ident}/notify", **how)


def test_list_filters(world: World, cluster: Any, receiver: Any) -> None:
    for query in (
        f"name={receiver['name']}",
        "type=webhook",
        f"cluster_id={cluster['id']}",
        "action=CLUSTER_SCALE_OUT",
        f"name={receiver['name']}&action=CLUSTER_SCALE_OUT&action=CLUSTER_SCALE_IN",
    ):
        found = world.api.get(f"receivers?{query}")["receivers"]
        assert receiver["id"] in {item["id"] for item in found}, query
        for item in found:
            shapes.check(item, shapes.RECEIVER)
    assert world.api.get(f"receivers?name={receiver['name']}&action=CLUSTER_CHECK") == {
        "receivers": []
    }
    assert world.api.get("receivers?name=nobody") == {"receivers": []}
    assert world.api.ask("GET", "receivers?user=nobody", want=200).json == {"receivers": []}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "renamed"},
        {"action": "CLUSTER_SCALE_IN"},
        {"params": {"count": 3}},
        {"name": "again", "action": "CLUSTER_CHECK", "params": {}},
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.14"])
def test_update(world: World, cluster: Any, change: Any, version: str) -> None:
    before = world.receiver(cluster["id"], params={"count": 1})
    path = f"receivers/{before['id']}"
    answer = world.api.patch(path, {"receiver": change}, want=200, version=version)
    after = answer.json["receiver"]
    shapes.check(after, shapes.RECEIVER)
    assert {key: after[key] for key in change} == change
    assert after["updated_at"]
    assert world.api.get(path)["receiver"] == after


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"receiver": {}},
        {"receiver": {"bogus": 1}},
        {"receiver": {"cluster_id": "x"}},
        {"receiver": {"type": "message"}},
        {"receiver": {"name": "a b"}},
        {"receiver": {"action": "CLUSTER_CREATE"}},
        {"receiver": {"params": 1}},
    ],
)
def test_updates_that_are_refused(world: World, receiver: Any, body: Any) -> None:
    world.api.refused("PATCH", f"receivers/{receiver['id']}", body)


def test_an_update_that_changes_nothing(world: World, receiver: Any) -> None:
    body = {"receiver": {"name": receiver["name"]}}
    message = "No property needs an update."
    world.api.refused("PATCH", f"receivers/{receiver['id']}", body, message=message)


def test_delete(world: World, cluster: Any) -> None:
    made = world.receiver(cluster["id"])
    assert world.api.delete(f"receivers/{made['id']}", want=204).text == ""
    world.api.refused("GET", f"receivers/{made['id']}", status=404, kind="ResourceNotFound")
    url = made["channel"]["alarm_url"].removeprefix(world.api.root)
    assert world.api.ask("POST", url, version=None).status == 404


def test_notify_is_for_messages(world: World, receiver: Any) -> None:
    world.api.refused(
        "POST",
        f"receivers/{receiver['id']}/notify",
        message="Notifying non-message receiver is not allowed.",
    )
