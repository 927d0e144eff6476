"""The types of policy and their schemas: what they say is what documents get."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from yaffle.errors import InvalidSpec, NotFound
from yaffle.policy import KNOWN, parse_document
from yaffle.policy.catalogue import TYPES, PolicyType, Support, family_of, find, versions_of
from yaffle.policy.type_schema import least_document

Place = tuple[str, ...]
Node = dict[str, Any]


def nodes(schema: Node, where: Place = ()) -> Iterator[tuple[Place, Node]]:
    """Yield every described key; `*` stands for the places of a list."""
    for key, node in schema.items():
        yield (*where, key), node
        if isinstance(node.get("schema"), dict):
            yield from nodes(node["schema"], (*where, key))


def every() -> list[Any]:
    return [
        pytest.param(found, where, node, id=f"{found.name}:{'.'.join(where)}")
        for found in TYPES
        for where, node in nodes(found.schema())
    ]


def test_every_type_and_version_is_listed() -> None:
    assert [t.name for t in TYPES] == [
        "senlin.policy.batch-1.0",
        "senlin.policy.deletion-1.0",
        "senlin.policy.deletion-1.1",
        "senlin.policy.health-1.0",
        "senlin.policy.health-1.1",
        "senlin.policy.health-1.2",
        "senlin.policy.health-1.3",
        "senlin.policy.scaling-1.0",
    ]
    assert {(t.type, t.version) for t in TYPES} == {(k, v) for k, vs in KNOWN.items() for v in vs}


def test_find() -> None:
    assert find("senlin.policy.health-1.0").support == (
        Support("EXPERIMENTAL", "2017.02"),
        Support("SUPPORTED", "2018.06"),
    )
    with pytest.raises(NotFound) as caught:
        find("bogus")
    assert str(caught.value) == "The policy_type 'bogus' could not be found."
    assert "senlin.policy.batch-1.0" in caught.value.hint
    assert [t.version for t in versions_of("senlin.policy.deletion")] == ["1.0", "1.1"]
    assert versions_of("bogus") == ()


@pytest.mark.parametrize(
    ("name", "priority", "singleton"),
    [
        ("senlin.policy.scaling", 100, False),
        ("senlin.policy.batch-1.0", 200, True),
        ("senlin.policy.deletion-1.1", 400, True),
        ("senlin.policy.health", 600, True),
    ],
)
def test_families(name: str, priority: int, singleton: bool) -> None:
    assert (family_of(name).priority, family_of(name).singleton) == (priority, singleton)


def test_an_unknown_family_is_not_found() -> None:
    with pytest.raises(NotFound, match="could not be found"):
        family_of("senlin.policy.affinity-1.0")


@pytest.mark.parametrize(("found", "where", "node"), every())
def test_every_key_is_described_as_senlin_does(found: PolicyType, where: Place, node: Node) -> None:
    assert node["type"] in {"String", "Integer", "Number", "Boolean", "Map", "List"}
    assert isinstance(node["required"], bool)
    assert node["updatable"] is False
    assert where[-1] == "*" or node["description"]
    known = {"type", "required", "updatable", "description", "default", "constraints", "schema"}
    assert set(node) <= known
    assert ("schema" in node) == (node["type"] in {"Map", "List"} and where[-1] != "params") or (
        where[-2:] == ("hooks", "params")
    )
    for constraint in node.get("constraints", ()):
        assert constraint["type"] == "AllowedValues"
        assert node.get("default") in {None, *constraint["constraint"]}


def at(document: Node, where: Place) -> Node | None:
    """Return the mapping that holds the key at `where`, entering the first of each list."""
    inside: Any = document["properties"]
    for key in where[:-1]:
        inside = (inside[0] if inside else None) if key == "*" else inside.get(key)
        if inside is None:
            return None
    return inside if isinstance(inside, dict) else None


# What the least document does not have, so that the defaults inside can be written beside it.
HOOK = {"type": "webhook", "params": {"url": "http://hook.example/"}}


def test_every_default_is_what_an_absent_key_means() -> None:
    tried = set()
    for found in TYPES:
        least: Any = least_document(found.type, found.version)
        if found.name == "senlin.policy.deletion-1.1":
            least["properties"]["hooks"] = HOOK
        for parent in ("limits", "retry"):
            if found.version == "1.3":
                least["properties"]["recovery"][parent] = {}
        if found.type == "senlin.policy.scaling":
            least["properties"]["adjustment"] = {}
        if "recovery" in least["properties"]:
            least["properties"]["recovery"]["actions"] = [{"name": "RECREATE"}]
        expected = parse_document(least).policy
        for where, node in nodes(found.schema()):
            written = copy.deepcopy(least)
            around = at(written, where)
            if "default" not in node or around is None or where[-1] in around:
                continue
            around[where[-1]] = node["default"]
            assert parse_document(written).policy == expected, (found.name, where)
            tried.add((found.name, where))
    declared = {(f.name, w) for f in TYPES for w, n in nodes(f.schema()) if "default" in n}
    left = {where[-1] for _, where in declared - tried}
    # These stand in the least documents themselves; the tests below take them out.
    assert left == {"poll_url", "hooks", "options", "params", "url", "type", "adjustment"} | {
        "limits",
        "retry",
    }


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("senlin.policy.deletion-1.1", ("hooks",)),
        ("senlin.policy.scaling-1.0", ("adjustment",)),
        ("senlin.policy.health-1.3", ("recovery", "limits")),
        ("senlin.policy.health-1.3", ("recovery", "retry")),
    ],
)
def test_an_absent_mapping_means_an_empty_one(name: str, where: Place) -> None:
    found = find(name)
    least: Any = least_document(found.type, found.version)
    written = copy.deepcopy(least)
    around = at(written, where)
    assert around is not None
    around[where[-1]] = {}
    assert parse_document(written).policy == parse_document(least).policy


@pytest.mark.parametrize(
    ("name", "absent", "given"),
    [
        pytest.param(
            "senlin.policy.deletion-1.1",
            {"hooks": {"type": "webhook", "timeout": 1}},
            {"hooks": {"type": "webhook", "timeout": 1, "params": {"url": "", "queue": ""}}},
            id="no-url",
        ),
        pytest.param(
            "senlin.policy.health-1.2",
            {"detection": {"detection_modes": [{"type": "NODE_STATUS_POLL_URL"}]}, "recovery": {}},
            {
                "detection": {
                    "detection_modes": [
                        {"type": "NODE_STATUS_POLL_URL", "options": {"poll_url": ""}}
                    ]
                },
                "recovery": {},
            },
            id="no-poll-url",
        ),
    ],
)
def test_a_url_that_is_absent_is_an_empty_one_and_refused(
    name: str, absent: Node, given: Node
) -> None:
    found = find(name)
    said = []
    for properties in (absent, given):
        with pytest.raises(InvalidSpec) as caught:
            parse_document({"type": found.type, "version": found.version, "properties": properties})
        said.append(caught.value.problems)
    assert said[0] == said[1]


@pytest.mark.parametrize(("found", "where", "node"), every())
def test_a_required_key_is_required_and_an_unknown_word_refused(
    found: PolicyType, where: Place, node: Node
) -> None:
    written: Any = copy.deepcopy(least_document(found.type, found.version))
    around = at(written, where)
    if around is None or where[-1] == "*":
        return
    if node["required"]:
        around.pop(where[-1], None)
    elif "constraints" in node:
        around[where[-1]] = "SOMETHING_ELSE"
    else:
        return
    with pytest.raises(InvalidSpec) as caught:
        parse_document(written)
    dotted = ".".join("0" if key == "*" else key for key in where)
    assert any(line.startswith(f"{dotted}: ") for line in caught.value.problems)


def shape(schema: Node) -> Node:
    """Return keys, types, defaults and requiredness, without the texts."""
    return {
        key: {
            "type": node["type"],
            "required": node["required"],
            **({"default": node["default"]} if "default" in node else {}),
            **({"schema": shape(node["schema"])} if isinstance(node.get("schema"), dict) else {}),
        }
        for key, node in schema.items()
    }


OPTIONS = {
    "poll_url": {"type": "String", "required": False, "default": ""},
    "poll_url_ssl_verify": {"type": "Boolean", "required": False, "default": True},
    "poll_url_conn_error_as_unhealthy": {"type": "Boolean", "required": False, "default": True},
    "poll_url_healthy_response": {"type": "String", "required": False, "default": ""},
    "poll_url_retry_limit": {"type": "Integer", "required": False, "default": 3},
    "poll_url_retry_interval": {"type": "Integer", "required": False, "default": 3},
}


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_health_is_described_as_the_service_that_yaffle_replaces_did(version: str) -> None:
    found = shape(find(f"senlin.policy.health-{version}").schema())
    detection, recovery = found["detection"], found["recovery"]
    assert detection["required"]
    assert recovery["required"]
    modes = detection["schema"].pop("detection_modes")
    assert detection["schema"] == {
        "interval": {"type": "Integer", "required": False, "default": 60},
        "node_update_timeout": {"type": "Integer", "required": False, "default": 300},
        "recovery_conditional": {"type": "String", "required": False, "default": "ANY_FAILED"},
    }
    assert (modes["type"], modes["required"]) == ("List", False)
    assert modes["schema"]["*"] == {
        "type": "Map",
        "required": False,
        "schema": {
            "type": {"type": "String", "required": True},
            "options": {"type": "Map", "required": False, "default": {}, "schema": OPTIONS},
        },
    }
    # `type` of an action is ours: Senlin's documentation promises workflows, its schema has none.
    assert recovery["schema"]["actions"]["schema"]["*"]["schema"].pop("type")
    assert recovery["schema"] == {
        "actions": {
            "type": "List",
            "required": False,
            "schema": {
                "*": {
                    "type": "Map",
                    "required": False,
                    "schema": {
                        "name": {"type": "String", "required": True},
                        "params": {"type": "Map", "required": False},
                    },
                }
            },
        },
        "fencing": {
            "type": "List",
            "required": False,
            "schema": {"*": {"type": "String", "required": True}},
        },
        "node_delete_timeout": {"type": "Integer", "required": False, "default": 20},
        "node_force_recreate": {"type": "Boolean", "required": False, "default": False},
    }


def test_an_older_version_does_not_show_what_came_later() -> None:
    old, new = (find(f"senlin.policy.health-{v}").schema() for v in ("1.2", "1.3"))
    assert set(new["recovery"]["schema"]) - set(old["recovery"]["schema"]) == {  # type: ignore[index]
        "mode",
        "evidence",
        "snapshot",
        "limits",
        "retry",
    }
    words = [
        found["detection"]["schema"]["detection_modes"]["schema"]["*"]["schema"]["type"]  # type: ignore[index]
        for found in (old, new)
    ]
    known = [set(word["constraints"][0]["constraint"]) for word in words]
    assert known[1] - known[0] == {"LB_STATUS_POLLING"}
    assert "hooks" not in find("senlin.policy.deletion-1.0").schema()
    assert "hooks" in find("senlin.policy.deletion-1.1").schema()
