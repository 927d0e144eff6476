"""Limit, marker, sort and filter of every list; pages that survive what is put in between."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.acceptance.rig import UNFINISHED, Api, fresh
from tests.acceptance.world import World, spec_of
from tests.waiting import wait_until

SORTS: dict[str, list[str]] = {
    "profiles": ["type", "name", "created_at", "updated_at"],
    "policies": ["type", "name", "created_at", "updated_at"],
    "clusters": ["name", "status", "init_at", "created_at", "updated_at"],
    "nodes": ["index", "name", "status", "init_at", "created_at", "updated_at"],
    "receivers": ["name", "type", "action", "cluster_id", "created_at", "user"],
    "actions": ["name", "target", "action", "created_at", "status"],
    "events": ["timestamp", "level", "otype", "oname", "action", "status", "oid", "cluster_id"],
}
LISTS = list(SORTS)
KEYS = [(noun, key) for noun, keys in SORTS.items() for key in keys]
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module", autouse=True)
def crowd(world: World) -> None:
    """Enough of everything that a page is not all of it."""
    for number in range(7):
        world.profile(name=f"page-{number % 3}")
        kind = ("senlin.policy.deletion-1.0", "senlin.policy.batch-1.0")[number % 2]
        world.policy(kind, name=f"page-{number % 3}")
    clusters = [world.cluster(number % 3)["id"] for number in range(6)]
    for cluster in clusters:
        world.receiver(cluster, name=f"page-{len(world.receivers) % 2}")
    for _ in range(3):
        world.node()
    # What other modules have made is being deleted: a list that changes has pages of two times.
    busy = "&".join(f"status={status}" for status in sorted(UNFINISHED))
    wait_until(
        lambda: world.api.get(f"actions?{busy}")["actions"], lambda left: not left, within_s=120
    )


def ids(found: list[Any]) -> list[str]:
    return [item["id"] for item in found]


def pages(api: Api, noun: str, query: str, limit: int) -> list[Any]:
    """Return everything, as the SDK pages: by the last id, until a page is empty."""
    found: list[Any] = []
    marker = ""
    for _ in range(300):
        page = api.get(f"{noun}?{query}limit={limit}{marker}")[noun]
        assert len(page) <= limit
        if not page:
            return found
        found += page
        marker = f"&marker={page[-1]['id']}"
    raise AssertionError("pages without an end")


@pytest.mark.parametrize("noun", LISTS)
@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_pages_are_the_whole(api: Api, noun: str, limit: int) -> None:
    if noun in {"events", "actions"}:
        limit = max(limit, len(api.get(noun)[noun]) // 20)
    whole = api.get(noun)[noun]
    assert ids(pages(api, noun, "", limit))[: len(whole)] == ids(whole)


@pytest.mark.parametrize(("noun", "key"), KEYS)
@pytest.mark.parametrize("order", ["", ":asc", ":desc"])
def test_sorted_pages_are_the_whole(api: Api, noun: str, key: str, order: str) -> None:
    whole = api.get(f"{noun}?sort={key}{order}")[noun]
    assert len(set(ids(whole))) == len(whole)
    limit = max(3, len(whole) // 3)
    paged = ids(pages(api, noun, f"sort={key}{order}&", limit))
    assert paged == ids(whole)
    values = [item[key] for item in whole if key in item and item[key] is not None]
    if key != "level":
        assert values == sorted(values, reverse=order == ":desc")


@pytest.mark.parametrize("noun", LISTS)
def test_the_default_is_the_order_of_creation(api: Api, noun: str) -> None:
    key = {"clusters": "init_at", "nodes": "init_at", "events": "timestamp"}.get(noun, "created_at")
    found = [item[key] for item in api.get(noun)[noun]]
    assert found == sorted(found)


def test_two_keys(api: Api) -> None:
    found = api.get("policies?sort=type:asc,name:desc")["policies"]
    for one, two in itertools.pairwise(found):
        assert one["type"] <= two["type"]
        if one["type"] == two["type"]:
            assert one["name"] >= two["name"]
    assert ids(pages(api, "policies", "sort=type:asc,name:desc&", 3)) == ids(found)


@pytest.mark.parametrize("noun", LISTS)
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=abc", "The value for limit must be an integer: 'abc'."),
        ("limit=1.5", "The value for limit must be an integer: '1.5'."),
        ("limit=-1", None),
        ("limit=", None),
        ("limit=99999999999999999999999", ""),
        ("marker=xyz", "The value for marker is not a valid UUID: 'xyz'."),
        ("sort=bogus", "Unsupported sort key 'bogus' for 'sort'."),
        ("sort=bogus:asc", "Unsupported sort key 'bogus' for 'sort'."),
        ("sort=name:sideways", None),
        ("global_project=maybe", "Invalid value 'maybe' specified for 'global_project'"),
        ("global_project=1", "Invalid value '1' specified for 'global_project'"),
        ("global_project=", None),
        ("bogus=1", "Invalid parameter bogus"),
        ("Limit=1", "Invalid parameter Limit"),
        ("id=x", "Invalid parameter id"),
    ],
)
def test_queries_that_are_refused(api: Api, noun: str, query: str, message: str | None) -> None:
    if query.startswith("sort=name") and noun == "events":
        query = "sort=oname:sideways"
    answer = api.ask("GET", f"{noun}?{query}")
    if message == "":
        assert answer.status in {200, 400}, answer
        return
    assert answer.status == 400, answer
    error = answer.json["error"]
    assert error["type"] == "HTTPBadRequest", answer
    if message:
        assert error["message"] == message, answer


STATUSES = [
    ("clusters", "status=BOGUS"),
    ("nodes", "status=BOGUS"),
    ("actions", "status=BOGUS"),
    ("actions", "action=BOGUS"),
    ("clusters", "status=active"),
    ("clusters", "status=ACTIVE&status=BOGUS"),
]


@pytest.mark.parametrize(("noun", "query"), STATUSES)
def test_values_that_are_none(api: Api, noun: str, query: str) -> None:
    api.refused("GET", f"{noun}?{query}")


@pytest.mark.parametrize("noun", LISTS)
def test_an_unknown_marker_is_as_none(api: Api, noun: str) -> None:
    assert api.get(f"{noun}?marker={NOWHERE}&limit=2") == api.get(f"{noun}?limit=2")


@pytest.mark.parametrize("noun", LISTS)
def test_limit_zero_is_an_integer(api: Api, noun: str) -> None:
    assert api.ask("GET", f"{noun}?limit=0").status == 200


@pytest.mark.parametrize(
    "order", ["", "sort=name:asc&", "sort=name:desc&", "sort=created_at:desc&"]
)
def test_pages_survive_inserts(world: World, order: str) -> None:
    """Nothing that was there at the start comes twice or is left out."""
    before = ids(world.api.get("profiles")["profiles"])
    seen: list[str] = []
    marker = ""
    while True:
        page = world.api.get(f"profiles?{order}limit=4{marker}")["profiles"]
        if not page:
            break
        seen += ids(page)
        marker = f"&marker={page[-1]['id']}"
        if len(seen) < 40:
            for name in ("page-0", "aaa", "zzz"):
                world.profile(name=name)
    assert len(seen) == len(set(seen))
    assert set(before) <= set(seen)


def test_pages_survive_a_deletion_before_the_marker(world: World) -> None:
    name = fresh("gone")
    made = [world.profile(name=name)["id"] for _ in range(6)]
    first = world.api.get(f"profiles?name={name}&limit=3")["profiles"]
    world.api.delete(f"profiles/{made[0]}", want=204)
    rest = world.api.get(f"profiles?name={name}&limit=9&marker={first[-1]['id']}")["profiles"]
    assert ids(rest) == made[3:]


def test_repeating_a_filter_is_or(world: World) -> None:
    found = world.api.get("policies?name=page-0&name=page-1")["policies"]
    assert {item["name"] for item in found} == {"page-0", "page-1"}
    two = "policies?name=page-0&name=page-1&type=senlin.policy.batch-1.0"
    assert {item["type"] for item in world.api.get(two)["policies"]} == {"senlin.policy.batch-1.0"}


def test_names_with_signs(world: World) -> None:
    spec = spec_of("senlin.policy.batch-1.0")
    name = "中文~a.b_c"
    made = world.api.post("policies", {"policy": {"name": name, "spec": spec}}, want=201).json
    world.made["policies"].append(made["policy"]["id"])
    assert ids(world.api.get(f"policies?name={name}")["policies"]) == [made["policy"]["id"]]
    assert world.api.get("policies?name=%25")["policies"] == []
    assert world.api.get("policies?name=page-_")["policies"] == []
