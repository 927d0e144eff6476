"""Profiles and their types, as Senlin's clients know them."""

from __future__ import annotations

import re

import pytest
from tests.functional.clustering.senlin import SLEEPER, Senlin

ZULU = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
KIND = "yaffle.local.process-1.0"


def created(senlin: Senlin, name: str, **more: object) -> dict[str, object]:
    body = {"profile": {"name": name, "spec": SLEEPER, **more}}
    found: dict[str, object] = senlin.call("POST", "/profiles", body, want=201)["profile"]
    return found


def test_a_profile_is_created_shown_changed_and_deleted(senlin: Senlin) -> None:
    made = created(senlin, "sp", metadata={"a": "b"})
    assert ZULU.fullmatch(str(made["created_at"]))
    assert made == {
        "id": made["id"],
        "name": "sp",
        "type": KIND,
        "spec": SLEEPER,
        "metadata": {"a": "b"},
        "user": "local user",
        "project": "default",
        "domain": None,
        "created_at": made["created_at"],
        "updated_at": None,
    }
    ident = str(made["id"])
    for word in (ident, "sp", ident[:8]):
        assert senlin.call("GET", f"/profiles/{word}") == {"profile": made}
    changed = senlin.call("PATCH", f"/profiles/{ident}", {"profile": {"name": "sp2"}})["profile"]
    assert ZULU.fullmatch(changed["updated_at"])
    assert changed == {**made, "name": "sp2", "updated_at": changed["updated_at"]}
    told = senlin.refused("PATCH", f"/profiles/{ident}", {"profile": {"name": "sp2"}})
    assert told == ("BadRequest", "No property needs an update.")
    created(senlin, "sp2")
    assert senlin.refused("GET", "/profiles/sp2") == (
        "MultipleChoices",
        "Multiple results found matching the query criteria 'sp2'. Please be more specific.",
    )
    senlin.call("DELETE", f"/profiles/{ident}", want=204)
    assert senlin.refused("DELETE", f"/profiles/{ident}", want=404) == (
        "ResourceNotFound",
        f"The profile '{ident}' could not be found.",
    )


def test_a_profile_is_validated_without_being_stored(senlin: Senlin) -> None:
    before = senlin.call("GET", "/profiles")
    found = senlin.call("POST", "/profiles/validate", {"profile": {"spec": SLEEPER}})["profile"]
    assert found["name"] == "validated_profile"
    assert found["type"] == KIND
    assert found["spec"] == SLEEPER
    nothing = ("id", "metadata", "created_at", "updated_at", "domain")
    assert [found[key] for key in nothing] == [None] * 5
    assert senlin.call("GET", "/profiles") == before
    wrong = {**SLEEPER, "properties": {"comand": "x"}}
    kind, message = senlin.refused("POST", "/profiles/validate", {"profile": {"spec": wrong}})
    assert kind == "InvalidSpec"
    assert "command" in message
    assert senlin.refused(
        "POST", "/profiles/validate", {"profile": {"spec": SLEEPER}}, version="1.1"
    ) == ("MethodVersionNotFound", "API version '1.1' is not supported on this method.")


ILLEGAL = (
    "The value for the 'name' (bad name!) contains illegal characters. It must contain only"
    ' alphanumeric or "_-.~" characters and must start with letter.'
)
WRONG = [
    ({"profile": {"name": "x"}}, "'spec' is a required property"),
    ({"profile": {"spec": SLEEPER}}, "'name' is a required property"),
    ({"foo": 1}, "Request body missing 'profile' key."),
    (None, "Request body missing 'profile' key."),
    ({"profile": None}, "The data provided is not a map"),
    ({"profile": []}, "The data provided is not a map"),
    (
        {"profile": {"name": "x", "spec": SLEEPER, "extra": 1}},
        "Additional properties are not allowed ('extra' was unexpected)",
    ),
    ({"profile": {"name": "bad name!", "spec": SLEEPER}}, ILLEGAL),
    ({"profile": {"name": "x", "spec": "y"}}, "The data provided is not a map"),
    ({"profile": {"name": "x", "spec": {"type": "y"}}}, "'version' is a required property"),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_a_wrong_body_says_what_is_wrong(senlin: Senlin, body: object, message: str) -> None:
    assert senlin.refused("POST", "/profiles", body) == ("HTTPBadRequest", message)


@pytest.mark.parametrize("name", ["", "x" * 256, "x\n", "a/b", 7, None, "\u0000"])
def test_names_have_a_form(senlin: Senlin, name: object) -> None:
    body = {"profile": {"name": name, "spec": SLEEPER}}
    assert senlin.refused("POST", "/profiles", body)[0] == "HTTPBadRequest"


def test_names_may_be_chinese(senlin: Senlin) -> None:
    made = created(senlin, "森林-1")
    assert senlin.call("GET", "/profiles/森林-1") == {"profile": made}


def test_an_update_without_its_key_is_malformed(senlin: Senlin) -> None:
    message = "Malformed request data, missing 'profile' key in request body."
    for body in (None, {}, {"name": "x"}):
        assert senlin.refused("PATCH", "/profiles/x", body) == ("HTTPBadRequest", message)


def test_bytes_that_are_no_json_are_refused(senlin: Senlin) -> None:
    deep = b'{"profile":' + b"[" * 100_000
    for raw in (b'{"profile": ', b"{'profile': 1}", b'{"a": "\xff"}', deep, b'{"a": "\\ud800"}'):
        with senlin.live.client({"Content-Type": "application/json"}) as client:
            answer = client.post("/v1/profiles", content=raw)
        assert answer.status_code == 400, raw[:20]
        assert answer.json()["error"]["type"] == "HTTPBadRequest"
    with senlin.live.client({"Content-Type": "application/json"}) as client:
        answer = client.post("/v1/profiles", content=b"[1]")
    assert answer.json()["error"]["message"] == "Request body missing 'profile' key."


@pytest.mark.parametrize(
    "raw",
    [
        b'{"profile": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}",
        b'{"profile": {"name": 1e999}}',
        b'{"profile": {"name": ' + b"9" * 5000 + b"}}",
    ],
)
def test_hostile_values_are_refused(senlin: Senlin, raw: bytes) -> None:
    with senlin.live.client({"Content-Type": "application/json"}) as client:
        assert client.post("/v1/profiles", content=raw).status_code == 400


def test_unknown_types_are_not_found(senlin: Senlin) -> None:
    body = {"profile": {"name": "x", "spec": {**SLEEPER, "type": "bogus"}}}
    assert senlin.refused("POST", "/profiles", body, want=404) == (
        "ResourceNotFound",
        "The profile_type 'bogus-1.0' could not be found.",
    )


def test_profile_types_have_two_shapes(senlin: Senlin) -> None:
    (new,) = senlin.call("GET", "/profile-types")["profile_types"]
    assert new == {
        "name": "yaffle.local.process",
        "version": "1.0",
        "support_status": {"1.0": [{"status": "SUPPORTED", "since": "2026.11"}]},
    }
    old = senlin.ask("GET", "/profile-types", version="1.4").json()
    assert old == {"profile_types": [{"name": KIND}]}
    shown = senlin.call("GET", f"/profile-types/{KIND}")["profile_type"]
    assert shown["name"] == KIND
    assert shown["schema"]["command"]["required"] is True
    assert "support_status" in shown
    older = senlin.ask("GET", f"/profile-types/{KIND}", version="1.4").json()["profile_type"]
    assert set(older) == {"name", "schema"}
    assert senlin.refused("GET", "/profile-types/bogus-1.0", want=404) == (
        "ResourceNotFound",
        "The profile_type 'bogus-1.0' could not be found.",
    )


def test_operations_are_told_with_their_parameters(senlin: Senlin) -> None:
    found = senlin.call("GET", f"/profile-types/{KIND}/ops")["operations"]
    assert {"create", "delete", "kill", "update"}.isdisjoint(found)
    assert set(found["reboot"]) == {"description", "parameters"}
    for parameter in found["reboot"]["parameters"].values():
        assert {"type", "required", "description"} <= set(parameter)
    assert senlin.refused("GET", "/profile-types/bogus-1.0/ops")[0] == "BadRequest"
    assert senlin.refused("GET", f"/profile-types/{KIND}/ops", version="1.3")[0] == (
        "MethodVersionNotFound"
    )
