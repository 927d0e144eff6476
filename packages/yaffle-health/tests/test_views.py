"""The faces of a health: the seed's documents, the draft's rules, and what breaks JSON elsewhere."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from yaffle_health.model import Check, Health, Service, Status
from yaffle_health.reader.body import understand
from yaffle_health.views import Shape, negotiate, render

AT = dt.datetime(2021, 12, 17, 16, 2, 55, 999_999, tzinfo=dt.UTC)
SERVICE = Service(
    service_id="0a47dceb-11b1-4d94-8b9c-927d998be320",
    description="nova-compute",
    host="controller-1.cloud",
    hostname="controller-1.cloud",
    release="2026.1",
)


def check(name: str, status: Status = Status.PASS, **more: object) -> Check:
    given: dict[str, object] = {"name": name, "status": status, "time": AT, "age_s": 1.5}
    if status is not Status.PASS:
        given["output"] = "Libvirt Error: ..."
    return Check(**(given | more))  # type: ignore[arg-type]


def failing() -> Health:
    checks = (check("hypervisor", Status.FAIL), check("message_bus"))
    return Health(status=Status.FAIL, service=SERVICE, checks=checks)


def shown(health: Health, shape: Shape) -> dict[str, object]:
    document: dict[str, object] = json.loads(render(health, shape))
    return document


def test_the_seed_s_second_example() -> None:
    assert shown(failing(), Shape.NOVA) == {
        "status": "fail",
        "version": "1.0",
        "serviceId": "0a47dceb-11b1-4d94-8b9c-927d998be320",
        "description": "nova-compute",
        "notes": {"host": "controller-1.cloud", "hostname": "controller-1.cloud"},
        "checks": {
            "message_bus": {"status": "pass", "time": "2021-12-17T16:02:55+00:00"},
            "hypervisor": {
                "status": "fail",
                "time": "2021-12-17T16:02:55+00:00",
                "output": "Libvirt Error: ...",
            },
        },
    }


def test_the_draft_s_shape() -> None:
    assert shown(failing(), Shape.IETF) == {
        "status": "fail",
        "version": "2026.1",
        "formatVersion": "1.0",
        "serviceId": "0a47dceb-11b1-4d94-8b9c-927d998be320",
        "description": "nova-compute",
        "notes": ["host=controller-1.cloud", "hostname=controller-1.cloud"],
        "output": "not passing: hypervisor",
        "checks": {
            "message_bus": [
                {
                    "componentType": "component",
                    "status": "pass",
                    "time": "2021-12-17T16:02:55+00:00",
                }
            ],
            "hypervisor": [
                {
                    "componentType": "component",
                    "status": "fail",
                    "time": "2021-12-17T16:02:55+00:00",
                    "output": "Libvirt Error: ...",
                }
            ],
        },
    }


def test_nothing_is_said_that_is_not_known() -> None:
    bare = Service(service_id="id", description="d", host="h")
    empty = Health(status=Status.PASS, service=bare)
    assert shown(empty, Shape.NOVA)["notes"] == {"host": "h"}
    assert shown(empty, Shape.NOVA)["checks"] == {}
    assert "version" not in shown(empty, Shape.IETF)
    assert "output" not in shown(empty, Shape.IETF)
    assert shown(empty, Shape.IETF)["notes"] == ["host=h"]


def test_components_of_one_name_stay_apart_in_both_shapes() -> None:
    checks = (
        check("cell", Status.FAIL, component_id="1", component_type="datastore"),
        check("cell", component_id="2"),
    )
    health = Health(status=Status.FAIL, service=SERVICE, checks=checks)
    nova = shown(health, Shape.NOVA)["checks"]
    ietf = shown(health, Shape.IETF)["checks"]
    assert isinstance(nova, dict)
    assert isinstance(ietf, dict)
    assert {key: (each["status"], each["componentId"]) for key, each in nova.items()} == {
        "cell:1": ("fail", "1"),
        "cell:2": ("pass", "2"),
    }
    assert [(each["componentId"], each["componentType"]) for each in ietf["cell"]] == [
        ("1", "datastore"),
        ("2", "component"),
    ]


@pytest.mark.parametrize("shape", [Shape.NOVA, Shape.IETF])
def test_an_expired_check_says_what_it_was(shape: Shape) -> None:
    stale = check(
        "db", Status.WARN, expired=True, last_status=Status.FAIL, output="stale since ..."
    )
    health = Health(status=Status.FAIL, service=SERVICE, checks=(stale,))
    found = shown(health, shape)["checks"]
    assert isinstance(found, dict)
    element = found["db"] if shape is Shape.NOVA else found["db"][0]
    assert (element["status"], element["lastStatus"]) == ("warn", "fail")
    assert element["output"] == "stale since ..."


@pytest.mark.parametrize("status", list(Status))
def test_output_is_there_if_and_only_if_it_does_not_pass(status: Status) -> None:
    one = dataclasses.replace(check("db"), status=status, output=None)
    found = shown(Health(status=status, service=SERVICE, checks=(one,)), Shape.NOVA)["checks"]
    assert isinstance(found, dict)
    assert ("output" in found["db"]) is (status is not Status.PASS)


def test_spring() -> None:
    health = dataclasses.replace(failing(), status=Status.WARN)
    document = shown(health, Shape.SPRING)
    assert document["status"] == "UP"
    components = document["components"]
    assert isinstance(components, dict)
    assert {name: each["status"] for name, each in components.items()} == {
        "hypervisor": "DOWN",
        "message_bus": "UP",
    }


def test_text_is_one_word() -> None:
    assert render(failing(), Shape.TEXT) == b"fail\n"


def test_prometheus_reads_every_line() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    odd = check('a"b\\c\nd', Status.WARN, component_id="7")
    health = Health(status=Status.WARN, service=SERVICE, checks=(odd,))
    text = render(health, Shape.PROMETHEUS).decode()
    families = {each.name: each for each in parser.text_string_to_metric_families(text)}
    assert set(families) == {
        "yaffle_health_status",
        "yaffle_health_check_status",
        "yaffle_health_check_age_seconds",
    }
    states = {each.labels["state"]: each.value for each in families["yaffle_health_status"].samples}
    assert states == {"pass": 0, "warn": 1, "fail": 0}
    (age,) = families["yaffle_health_check_age_seconds"].samples
    assert age.labels == {"check": 'a"b\\c\nd', "component": "7"}
    assert age.value == 1.5


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize(
    "output", ["\ud800", "\x00\x1b[31m", "\N{SNOWMAN} \N{BUG}", '"}{', "\u2028"]
)
def test_the_bytes_are_always_valid(shape: Shape, output: str) -> None:
    odd = check("db", Status.FAIL, output=output)
    data = render(Health(status=Status.FAIL, service=SERVICE, checks=(odd,)), shape)
    text = data.decode("utf-8")
    if shape in {Shape.NOVA, Shape.IETF, Shape.SPRING}:
        document = json.loads(text, parse_constant=pytest.fail)
        assert list(document) == sorted(document)


ACCEPTS = [
    ("", "", Shape.NOVA),
    ("format=ietf", "", Shape.IETF),
    ("format=IETF", "", Shape.IETF),
    ("format=ietf-06", "", Shape.IETF),
    ("format=n%6fva", "", Shape.NOVA),
    ("format=yaml", "", Shape.NOVA),
    ("format=", "", Shape.NOVA),
    ("xformat=ietf", "", Shape.NOVA),
    ("a=b&format=spring&format=ietf", "", Shape.SPRING),
    ("", "application/health+json", Shape.NOVA),
    ("", "*/*", Shape.NOVA),
    ("", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", Shape.NOVA),
    ("", "image/png", Shape.NOVA),
    ("", 'application/health+json;profile="ietf-06"', Shape.IETF),
    ("", "application/health+json; profile=ietf-06; q=0.5", Shape.IETF),
    ("", 'Application/Health+JSON;PROFILE="IETF-06"', Shape.IETF),
    ("", 'application/health+json;profile="ietf-06";q=0', Shape.NOVA),
    ("", 'application/health+json;profile="ietf-99"', Shape.NOVA),
    ("", 'text/plain, application/health+json;profile="ietf-06"', Shape.IETF),
    ("format=nova", 'application/health+json;profile="ietf-06"', Shape.NOVA),
]


@pytest.mark.parametrize(("query", "accept", "shape"), ACCEPTS)
def test_which_face_a_client_gets(query: str, accept: str, shape: Shape) -> None:
    assert negotiate(query, accept, Shape.NOVA) is shape


def test_the_profile_of_the_seed_wins_over_another_default() -> None:
    assert negotiate("", 'application/health+json;profile="nova"', Shape.IETF) is Shape.NOVA


WORDS = st.text("ab:#2", min_size=1, max_size=6)
NAMED = st.tuples(WORDS, st.none() | WORDS)


@given(st.sets(NAMED, max_size=12), st.data())
@example({("a:b", None), ("a", "b")}, None)
@example({("a", "b"), ("a:b", None), ("a:b#2", None), ("a:b", "b")}, None)
def test_every_check_is_shown_and_the_worst_of_them_too(
    named: set[tuple[str, str | None]], data: st.DataObject | None
) -> None:
    order = sorted(named, key=lambda each: (each[0], each[1] or ""))
    sick = data.draw(st.sampled_from(order)) if data and order else order[-1] if order else None
    checks = tuple(
        check(
            name,
            Status.FAIL if (name, component_id) == sick else Status.PASS,
            component_id=component_id,
        )
        for name, component_id in order
    )
    health = Health(status=Status.FAIL if sick else Status.PASS, service=SERVICE, checks=checks)
    for shape, key, word in (
        (Shape.NOVA, "checks", "fail"),
        (Shape.SPRING, "components", "DOWN"),
        (Shape.IETF, "checks", "fail"),
    ):
        found = shown(health, shape)[key]
        assert isinstance(found, dict)
        elements = [
            each for some in found.values() for each in (some if isinstance(some, list) else [some])
        ]
        assert len(elements) == len(checks)
        assert [each["status"] for each in elements].count(word) == (1 if sick else 0)
        read = understand(render(health, shape), now=AT).health
        assert read is not None
        if shape is Shape.IETF:
            assert {(each.name, each.component_id) for each in read.checks} == named


@given(st.sets(NAMED, max_size=6))
def test_a_reader_finds_out_which_check_has_which_key(named: set[tuple[str, str | None]]) -> None:
    checks = tuple(check(name, component_id=component_id) for name, component_id in named)
    health = Health(status=Status.PASS, service=SERVICE, checks=checks)
    read = understand(render(health, Shape.NOVA), now=AT).health
    assert read is not None
    assert {each.component_id for each in read.checks} == {each for _, each in named}
    plain = {name for name, component_id in named if component_id is None}
    assert plain <= {each.name for each in read.checks if each.component_id is None}


def test_a_component_whose_key_was_taken_keeps_its_name_for_a_reader() -> None:
    pair = (check("a", Status.FAIL, component_id="b"), check("a:b"))
    health = Health(status=Status.FAIL, service=SERVICE, checks=pair)
    for shape in (Shape.NOVA, Shape.SPRING, Shape.IETF):
        read = understand(render(health, shape), now=AT).health
        assert read is not None
        assert [(each.name, each.component_id, each.status) for each in read.checks] == [
            ("a", "b", Status.FAIL),
            ("a:b", None, Status.PASS),
        ]
