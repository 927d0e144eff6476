"""No mistake of a user is a failure of the server, whatever the mistake."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.rig import Api
from tests.acceptance.world import World

ODD: list[Any] = [
    None,
    "",
    " ",
    "x" * 300,
    "\u0000",
    "💥",
    "' OR 1=1 --",
    0,
    -1,
    1.5,
    10**30,
    True,
    [],
    [1],
    {},
    {"a": {"b": [None]}},
]
FIELDS = {
    "profile": ["name", "spec", "metadata"],
    "policy": ["name", "spec"],
    "cluster": [
        "name",
        "profile_id",
        "desired_capacity",
        "min_size",
        "max_size",
        "timeout",
        "metadata",
        "config",
    ],
    "node": ["name", "profile_id", "cluster_id", "role", "metadata"],
    "receiver": ["name", "type", "cluster_id", "action", "actor", "params"],
}
PLURAL = {"policy": "policies"}
CASES = [(noun, name, odd) for noun, names in FIELDS.items() for name in names for odd in ODD]


@pytest.fixture(scope="module")
def good(world: World) -> dict[str, Any]:
    """A body of every noun that would be accepted."""
    cluster = world.cluster()["id"]
    deletion = {"type": "senlin.policy.deletion", "version": "1.0", "properties": {}}
    return {
        "profile": {"name": "odd", "spec": world.spec(), "metadata": {}},
        "policy": {"name": "odd", "spec": deletion},
        "cluster": {"name": "odd", "profile_id": world.quick()},
        "node": {"name": "odd", "profile_id": world.quick()},
        "receiver": {
            "name": "odd",
            "type": "webhook",
            "cluster_id": cluster,
            "action": "CLUSTER_CHECK",
        },
    }


@pytest.mark.parametrize(("noun", "field", "odd"), CASES)
def test_odd_values(world: World, good: dict[str, Any], noun: str, field: str, odd: Any) -> None:
    path = PLURAL.get(noun, f"{noun}s")
    answer = world.api.ask("POST", path, {noun: {**good[noun], field: odd}})
    assert answer.status in {201, 202, 400, 404}, answer
    if answer.status in {400, 404}:
        assert answer.json["code"] == answer.status
        return
    ident = answer.json[noun]["id"]
    store = {"cluster": world.clusters, "node": world.nodes, "receiver": world.receivers}
    if noun in store:
        store[noun].append(ident)
    if noun == "cluster":
        world.api.ended(answer, want=None)
        world.api.delete(f"clusters/{ident}")


@pytest.mark.parametrize(
    "noun", ["profiles", "policies", "clusters", "nodes", "receivers", "actions", "events"]
)
@pytest.mark.parametrize(
    "ident",
    ["%00", "%F0%9F%92%A5", "x" * 500, "%2e%2e%2f", "'%20OR%201=1", "%25", "_", "a%2Fb", "-"],
)
def test_odd_identities(api: Api, noun: str, ident: str) -> None:
    answer = api.ask("GET", f"{noun}/{ident}")
    assert answer.status in {300, 400, 404}, answer


@pytest.mark.parametrize("noun", ["profiles", "policies", "clusters", "nodes", "receivers"])
@pytest.mark.parametrize(
    "query", ["name=%00", "name=", "name=%F0%9F%92%A5", "name=" + "x" * 3000, "&&&", "=", "name"]
)
def test_odd_queries(api: Api, noun: str, query: str) -> None:
    assert api.ask("GET", f"{noun}?{query}").status in {200, 400}


@pytest.mark.parametrize("depth", [50, 2000])
def test_deep_bodies(world: World, depth: int) -> None:
    body = b'{"profile": {"name": "deep", "metadata": ' + b'{"a":' * depth + b"1" + b"}" * depth
    answer = world.api.ask("POST", "profiles", content=body + b"}}")
    assert answer.status == 400, answer


def test_duplicate_keys_and_special_numbers(world: World) -> None:
    for text in (
        b'{"cluster": {"name": "x", "name": "y", "profile_id": "nope"}}',
        b'{"cluster": {"name": "x", "profile_id": "nope", "min_size": NaN}}',
        b'{"cluster": {"name": "x", "profile_id": "nope", "min_size": 1e999}}',
        b'{"cluster": {"name": "x", "profile_id": "nope", "min_size": -Infinity}}',
    ):
        assert world.api.ask("POST", "clusters", content=text).status == 400


@pytest.mark.parametrize("kind", ["application/xml", "application/x-www-form-urlencoded", "x"])
def test_another_content_type(api: Api, kind: str) -> None:
    headers = {"Content-Type": kind}
    answer = api.ask("POST", "profiles", content=b'{"foo": 1}', headers=headers)
    assert answer.status in {400, 415}, answer


def test_a_get_with_a_body(api: Api) -> None:
    assert api.ask("GET", "clusters", {"x": 1}).status == 200


def test_the_explanation_is_the_general_one(api: Api) -> None:
    answer = api.ask("GET", "clusters/nosuch")
    assert answer.json["explanation"] == "The resource could not be found."
    answer = api.ask("GET", "clusters?limit=x")
    assert answer.json["explanation"] == (
        "The server could not comply with the request since it is either malformed or otherwise"
        " incorrect."
    )
